// The seed, id and text position of each request of a batch, which address its draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The addresses of the draws of a batch (see `addressed_uniforms`).
///
/// Request b has entry b of each array or, with `slot_of`, entry `slot_of[b]`: engines keep these by the request's slot
/// in the batch.
///
/// Sampling parameters are not here but with the rows of logits, since they may differ between target and draft, and
/// rows of probabilities have none.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  ///< of each request's root in its text, from 0
    std::uint32_t const* ids = nullptr;       ///< distinguishes requests with the same seed; may be null: 0
    std::int32_t const* slot_of = nullptr;    ///< may be null

    /// The index of request b in the arrays.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t slot(std::int32_t b) const noexcept {
        return slot_of == nullptr ? b : slot_of[b];
    }
    /// The seed of request b.
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t seed(std::int32_t b) const noexcept { return seeds[slot(b)]; }
    /// The position of the root of request b.
    [[nodiscard]] MULTIDRAFT_HD std::int32_t position(std::int32_t b) const noexcept { return positions[slot(b)]; }
    /// The id of request b, which distinguishes requests with the same seed.
    [[nodiscard]] MULTIDRAFT_HD std::uint32_t id(std::int32_t b) const noexcept {
        return ids == nullptr ? 0U : ids[slot(b)];
    }
    /// Whether an earlier request has the same seed and position, and no ids tell the two apart: both would get the
    /// same draws. O(b).
    [[nodiscard]] MULTIDRAFT_HD bool is_repeated(std::int32_t b) const noexcept {
        if (ids != nullptr) return false;
        bool repeated = false;
        for (std::int32_t c = 0; c < b; ++c)
            repeated = repeated || (slot(c) >= 0 && seed(c) == seed(b) && position(c) == position(b));
        return repeated;
    }
    /// The uniforms of request b.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seed(b), id(b));
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
