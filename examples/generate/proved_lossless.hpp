// Whether the program may call a method lossless: its verifier says so, and the library's list of proved methods has
// it.
#pragma once

#include "multidraft/methods/list.hpp"

namespace multidraft::examples {

/// `Verifier::traits.lossless`. Does not compile for a verifier that declares it but is in none of the library's lists,
/// from which the proofs are made.
template <class Verifier>
[[nodiscard]] constexpr bool proved_lossless() noexcept {
    static_assert(
        !Verifier::traits.lossless || multidraft::methods::for_engines::has<Verifier>,
        "a verifier is lossless when it is proved: name it in multidraft/methods/list.hpp, from which the proofs "
        "are made");
    return Verifier::traits.lossless;
}

}  // namespace multidraft::examples
