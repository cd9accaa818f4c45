// What each request of a batch draws with: its seed, its number and its position in the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The addresses of the draws of a batch (see `addressed_uniforms`): one entry a request in each array.
///
/// Sampling parameters are not here but with the rows of logits: they say how logits become a distribution, they may
/// differ between target and draft, and rows of probabilities have none.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  ///< of each request's root in its text, from 0
    std::uint32_t const* ids = nullptr;       ///< tells requests of one seed apart; may be null: 0

    /// What the draws of request b are addressed in.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seeds[b], ids == nullptr ? 0U : ids[b]);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
