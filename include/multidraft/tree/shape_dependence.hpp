// What the shape of a draft tree depends on: which draws of its own step it was a function of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What the number of children of a node may depend on. Each value includes those before it.
///
/// A verifier is lossless up to one of them (`verify::shape_may_depend_on`): given everything that determined their
/// number, the candidates of a node must have the law that the verifier assumes. The shape may always depend on earlier
/// steps and other requests.
enum class shape_depends_on : std::uint8_t {
    nothing,           ///< of this step: the shape is fixed before its first draw
    own_context,       ///< the tokens from the root to the node and the draft's rows along that path
    earlier_draws,     ///< anything drawn before the node's own children: siblings, cousins
    earlier_siblings,  ///< also those of the node's children that were drawn so far: a stopping rule
    everything         ///< also the child itself: nodes may be left out because of their token
};

}  // namespace MULTIDRAFT_NAMESPACE
