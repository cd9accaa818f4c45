// The hidden states of what a step of many requests keeps, for drafts that read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
        rows_.assign(own.begin(), own.begin() + static_cast<std::ptrdiff_t>((root + 1) * width));
        node_id const* const nodes = kept->nodes_of(b);
        for (std::int32_t j = 0; j < kept->counts[b]; ++j) {
            auto const row = own.subspan((root + static_cast<std::size_t>(nodes[j])) * width, width);
            rows_.insert(rows_.end(), row.begin(), row.end());
        }
        return rows_;
    }

private:
    std::vector<std::int64_t> first_input_;  ///< of each request, and their number
    std::vector<index_t> first_entry_;
    std::vector<float> rows_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
