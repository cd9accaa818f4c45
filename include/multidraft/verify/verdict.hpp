// The result of a verifier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The outcome of verifying one draft tree: the accepted path, whose nodes the verifier wrote to the caller's span, and
/// the token that follows it. `accepted + 1` tokens are emitted.
struct verdict {
    std::int32_t accepted = 0;  ///< accepted nodes, the root not counted
    token_id next = none;       ///< the token after the last accepted node, drawn from the target's (residual) row
};

namespace verify {

/// The outcome at one node: the accepted child by its index among the siblings, or the token emitted instead.
struct node_verdict {
    index_t child = none;   ///< which candidate was accepted; `none`: none of them
    token_id token = none;  ///< the emitted token; the accepted candidate's when there is one
};

}  // namespace verify
}  // namespace MULTIDRAFT_NAMESPACE
