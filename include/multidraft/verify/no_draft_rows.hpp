// Draft rows that a verifier does not read: which verifier, and what stands for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/abi.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Stands for the draft's rows where a verifier never reads them.
struct no_draft_rows {};

/// Whether a verifier reads the draft's rows. One that does not says so by a static `reads_draft` that is false.
template <class V>
inline constexpr bool reads_draft = !requires {
    requires !V::reads_draft;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
