// The rows of the calls of a step, as a loop over many requests keeps them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The rows of a model: the scored ones, one after another.
template <class Logit>
struct scored_rows {
    std::vector<Logit> logits;
    std::vector<std::int64_t> row_of;
    std::int64_t count = 0;

    /// Memory for the rows of a call, after those of the step's earlier calls.
    std::span<Logit> of_call(step_inputs const& in, std::int32_t vocabulary) {
        auto const first = static_cast<std::size_t>(in.first_row);
        if (first == 0) count = 0;
        row_of.resize(first + in.size(), 0);
        std::int64_t const begin = count;
        for (std::int64_t const k : in.scored) row_of[first + static_cast<std::size_t>(k)] = count++;
        auto const v = static_cast<std::size_t>(vocabulary);
        if (logits.size() < static_cast<std::size_t>(count) * v) logits.resize(static_cast<std::size_t>(count) * v);
        return std::span(logits).subspan(static_cast<std::size_t>(begin) * v, in.scored.size() * v);
    }
    [[nodiscard]] rows_of_batch<Logit> view(std::int32_t vocabulary) const noexcept {
        return {logits.data(), vocabulary, vocabulary, row_of.data()};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
