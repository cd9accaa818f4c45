// What a call refuses, in its own words.
#pragma once

#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The text of the `invalid_input` that a call throws.
template <class Call>
std::string refusal(Call const& call) {
    try {
        call();
    } catch (invalid_input const& e) {
        return e.what();
    }
    return "nothing was thrown";
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
