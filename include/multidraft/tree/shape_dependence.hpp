// What the shape of a draft tree depends on: how much of the draws of its own step was seen when it was decided.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What the number of children of a node may be a function of, each value allowing what those before it allow.
///
/// A verifier is lossless up to one of them (`verify::shape_may_depend_on`): the candidates of a node must have the law
/// that it takes them to have, given all that decided how many they are. Earlier steps and other requests may be
/// looked at always.
enum class shape_depends_on : std::uint8_t {
    nothing,           ///< of this step: the shape is settled before its first draw
    own_context,       ///< the tokens from the root to the node and the draft's rows along that path
    earlier_draws,     ///< anything drawn before the node's own children: siblings, cousins
    earlier_siblings,  ///< also those of the node's children that were drawn so far: a stopping rule
    everything         ///< also a child itself: nodes may be left out for the token they have
};

}  // namespace MULTIDRAFT_NAMESPACE
