// The option --tree of the programs: a shape that they can use.
#pragma once

#include <stdexcept>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// More drafted nodes than these are taken for a mistake: a step has a row of the target for each, and the tokens that
/// it accepts grow with the logarithm of their number at best.
inline constexpr node_id most_drafted_nodes = 4096;

/// The shape that `--tree` names. Throws `std::runtime_error` for one of too many nodes or none.
inline topology tree_of_option(std::string const& text) {
    auto const parsed = [&] {
        try {
            return parse_shape(text);
        } catch (invalid_input const& e) {
            throw std::runtime_error("--tree " + text + ": " + e.what());
        }
    };
    topology shape = parsed();
    if (shape.size() - 1 > most_drafted_nodes)
        throw std::runtime_error("--tree " + text + ": " + std::to_string(shape.size() - 1) +
                                 " drafted nodes, and a tree has at most " + std::to_string(most_drafted_nodes));
    return shape;
}

}  // namespace multidraft::examples
