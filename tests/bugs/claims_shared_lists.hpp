// Bug: a verifier that compares the subtrees of siblings says that their lists may be shared.
#pragma once

#include "multidraft/verify/traits.hpp"

namespace multidraft::bugs {

/// A list of one depth is the same object below all its parents: what was learnt below the first child is used again
/// below the second one.
template <class Verifier>
struct claims_shared_lists : Verifier {
    static constexpr multidraft::verify::verifier_traits traits = [] {
        auto claimed = Verifier::traits;
        claimed.lists_may_be_shared = true;
        return claimed;
    }();
};

}  // namespace multidraft::bugs
