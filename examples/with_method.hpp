// A method of the library's list by the name that a command line has for it.
#pragma once

#include <stdexcept>
#include <string>

#include "multidraft/methods.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// What a method takes of trees, where that is not this shape; else nothing.
inline std::string what_fits_better(trees_taken trees, topology const& shape) {
    switch (trees) {
        case trees_taken::any:
            break;
        case trees_taken::pairs:
            for (node_id v = 0; v < shape.size(); ++v)
                if (shape.child_count(v) > 2) return "two children a node at most, such as 2x2x1";
            break;
        case trees_taken::forks:
            if (shape.max_depth() > 0 && !(shape == fork(shape.child_count(0), shape.max_depth())))
                return "chains that part at the root only, such as 3x1x1";
            break;
        case trees_taken::chains:
            if (shape.width() > 1) return "chains only, such as 1x1x1";
            break;
    }
    return "";
}

/// Calls `use(method)` with the method of a name, one that draws trees of a fixed shape. Throws `std::runtime_error`
/// for another name, with those of all, and for a shape that the method does not take.
template <class Use>
void with_method(std::string const& name, topology const& shape, Use const& use) {
    bool found = false;
    std::string names;
    methods::of_shapes::for_each([&](auto method) {
        names += "\n  " + std::string(method.name);
        if (method.name != name) return;
        found = true;
        if (std::string const better = what_fits_better(method.trees, shape); !better.empty())
            throw std::runtime_error("--tree: " + name + " takes " + better);
        use(method);
    });
    if (!found) throw std::runtime_error("--method " + name + ": no method has this name; there are" + names);
}

}  // namespace multidraft::examples
