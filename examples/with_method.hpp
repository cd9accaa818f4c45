// A method of the library's list, chosen by its name on a command line.
#pragma once

#include <stdexcept>
#include <string>

#include "multidraft/methods/list.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// If a method does not take trees of this shape: the shapes that it takes. Otherwise empty.
inline std::string shapes_taken(allowed_trees trees, topology const& shape) {
    switch (trees) {
        case allowed_trees::any:
            break;
        case allowed_trees::pairs:
            for (node_id v = 0; v < shape.size(); ++v)
                if (shape.child_count(v) > 2) return "two children per node at most, such as 2x2x1";
            break;
        case allowed_trees::forks:
            if (shape.max_depth() > 0 && !(shape == fork(shape.child_count(0), shape.max_depth())))
                return "chains that branch at the root only, such as 3x1x1";
            break;
        case allowed_trees::chains:
            if (shape.width() > 1) return "chains only, such as 1x1x1";
            break;
    }
    return "";
}

/// Calls `use(method)` with the method of this name, which must draw trees of a fixed shape. Throws
/// `std::runtime_error` for an unknown name, with the list of names, and for a shape that the method does not take.
template <class Use>
void with_method(std::string const& name, topology const& shape, Use const& use) {
    bool found = false;
    std::string names;
    methods::of_shapes::for_each([&](auto method) {
        names += "\n  " + std::string(method.name);
        if (method.name != name) return;
        found = true;
        if (std::string const taken = shapes_taken(method.trees, shape); !taken.empty())
            throw std::runtime_error("--tree: " + name + " takes " + taken);
        use(method);
    });
    if (!found) throw std::runtime_error("--method " + name + ": no method has this name; there are" + names);
}

}  // namespace multidraft::examples
