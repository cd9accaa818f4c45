// The hidden states of what a step of many requests keeps, for drafts that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/features.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// Reads the features of the target's call, request by request.
class kept_features {
public:
    /// The call of the step.
    void begin(step_inputs const& in) {
        first_input_.assign(in.offsets.begin(), in.offsets.end());
        first_entry_.assign(in.first_entries.begin(), in.first_entries.end());
    }

    /// The rows of request b that stay: of its text, and of the accepted nodes, in the order of the text. `kept`: null
    /// for a request that only reads, whose inputs all stay. Valid until the next call.
    template <exposes_features_of_batch Target>
    [[nodiscard]] std::span<float const> of(Target const& target, std::int32_t b, kept_batch const* kept) {
        auto const width = static_cast<std::size_t>(target.feature_size());
        auto const k = static_cast<std::size_t>(b);
        auto const first = static_cast<std::size_t>(first_input_[k]);
        auto const all = static_cast<std::size_t>(first_input_[k + 1]) - first;
        std::span<float const> const rows = target.features();
        std::span<float const> const own = rows.subspan(first * width, all * width);
        if (kept == nullptr) return own;
        // Inputs take the entries of the cache in order.
        auto const root = static_cast<std::size_t>(kept->bases[b] - first_entry_[k]);
        auto const count = static_cast<std::size_t>(kept->counts[b]);
        rows_.resize((root + 1 + count) * width);
        std::copy_n(own.begin(), (root + 1) * width, rows_.begin());
        copy_features<float>(own.subspan(root * width), target.feature_size(), {kept->nodes_of(b), count},
                             std::span(rows_).subspan((root + 1) * width));
        return rows_;
    }

private:
    std::vector<std::int64_t> first_input_;  ///< of each request, and their number
    std::vector<index_t> first_entry_;
    std::vector<float> rows_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
