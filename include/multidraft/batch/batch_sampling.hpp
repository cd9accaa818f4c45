// The sampling parameters of the requests of a batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/rows/sampling_params.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Sampling parameters as separate arrays, such as a server's tensors of temperatures, top-k, top-p and min-p. For a
/// null array the parameter of `otherwise` is used. Nothing is owned.
///
/// The values have the meaning described at `sampling_params`. A top-k of at least the vocabulary's size keeps every
/// token, like 0.
struct sampling_arrays {
    float const* temperature = nullptr;
    index_t const* top_k = nullptr;
    float const* top_p = nullptr;
    float const* min_p = nullptr;

    /// The parameters at one index of the arrays.
    [[nodiscard]] MULTIDRAFT_HD sampling_params operator()(std::int64_t slot,
                                                           sampling_params const& otherwise) const noexcept {
        sampling_params result = otherwise;
        if (temperature != nullptr) result.temperature = temperature[slot];
        if (top_k != nullptr) result.top_k = top_k[slot];
        if (top_p != nullptr) result.top_p = top_p[slot];
        if (min_p != nullptr) result.min_p = min_p[slot];
        return result;
    }
};

/// The sampling parameters of the requests of a batch: entry b of `sampling` for request b or, where that is null, of
/// `arrays`. With `slot_of` it is entry `slot_of[b]`, for engines that keep parameters by the request's slot in the
/// batch.
struct batch_sampling {
    sampling_params const* sampling = nullptr;  ///< one per request; may be null: `default_sampling` for all
    sampling_params default_sampling{};         ///< where `sampling` is null
    sampling_arrays arrays{};                   ///< where `sampling` is null; its null arrays mean the default
    std::int32_t const* slot_of = nullptr;      ///< may be null

    /// The parameters of request b.
    [[nodiscard]] MULTIDRAFT_HD sampling_params sampling_of(std::int32_t b) const noexcept {
        std::int64_t const slot = slot_of == nullptr ? b : slot_of[b];
        return sampling == nullptr ? arrays(slot, default_sampling) : sampling[slot];
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
