// What each request of a batch draws with: its seed, its number and its position in the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The addresses of the draws of a batch (see `addressed_uniforms`): one entry a request.
///
/// Sampling parameters are not here but with the rows of logits: they say how logits become a distribution, they may
/// differ between target and draft, and rows of probabilities have none.
///
/// Request b has entry b of each array, or with `slot_of` entry `slot_of[b]`: engines keep these by the slot that a
/// request has in the batch.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  ///< of each request's root in its text, from 0
    std::uint32_t const* ids = nullptr;       ///< tells requests of one seed apart; may be null: 0
    std::int32_t const* slot_of = nullptr;    ///< may be null

    /// The entry of the arrays that request b has.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t slot(std::int32_t b) const noexcept {
        return slot_of == nullptr ? b : slot_of[b];
    }
    /// The seed of request b.
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t seed(std::int32_t b) const noexcept { return seeds[slot(b)]; }
    /// The position of the root of request b.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t position(std::int32_t b) const noexcept { return positions[slot(b)]; }
    /// What tells request b apart from others of its seed.
    [[nodiscard]] MULTIDRAFT_HD std::uint32_t id(std::int32_t b) const noexcept {
        return ids == nullptr ? 0U : ids[slot(b)];
    }
    /// What the draws of request b are addressed in.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seed(b), id(b));
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
