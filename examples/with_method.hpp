// A method of the library's list by the name that a command line has for it.
#pragma once

#include <stdexcept>
#include <string>

#include "multidraft/methods.hpp"

namespace multidraft::examples {

/// Calls `use(method)` with the method of a name, one that draws trees of a fixed shape. Throws `std::runtime_error`
/// with the names of all for another.
template <class Use>
void with_method(std::string const& name, Use const& use) {
    bool found = false;
    std::string names;
    methods::of_shapes::for_each([&](auto method) {
        names += "\n  " + std::string(method.name);
        if (method.name != name) return;
        found = true;
        use(method);
    });
    if (!found) throw std::runtime_error("--method " + name + ": no method has this name; there are" + names);
}

}  // namespace multidraft::examples
