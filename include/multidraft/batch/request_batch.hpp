// The seed, id and text position of each request of a batch, which address its draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The addresses of the draws of a batch (see `addressed_uniforms`): each array has one entry for each request.
///
/// Sampling parameters are not here but with the rows of logits, since they may differ between target and draft, and
/// rows of probabilities have none.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  ///< of each request's root in its text, from 0
    std::uint32_t const* ids = nullptr;       ///< distinguishes requests with the same seed; may be null: 0

    /// The uniforms of request b.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seeds[b], ids == nullptr ? 0U : ids[b]);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
