// Sampling parameters in separate arrays, as in engines.
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

}  // namespace MULTIDRAFT_NAMESPACE
