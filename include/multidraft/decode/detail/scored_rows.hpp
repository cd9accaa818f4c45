// The rows of the calls of a step, as a loop over many requests keeps them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The rows of a model: the scored ones, one after another, of all tokens or of a few.
template <batched_draft_model Model>
class scored_rows {
    static constexpr bool sparse = !batched_language_model<Model>;
    using logit = logit_of<Model>;

public:
    explicit scored_rows(Model const& model) : vocabulary_(model.vocabulary()), width_(vocabulary_) {
        if constexpr (sparse) width_ = std::min(width_, std::int32_t{model.candidates()});
        make_room(1);  // there are rows, drafts or not
    }

    /// Calls the model. Its rows follow those of the step's earlier calls.
    void read(Model& model, step_inputs const& in, std::span<std::int32_t const> sequence_of) {
        auto const first = static_cast<std::size_t>(in.first_row);
        if (first == 0) count_ = 0;
        row_of_.resize(first + in.size(), 0);
        std::size_t const begin = at(count_);
        for (std::int64_t const k : in.scored) row_of_[first + static_cast<std::size_t>(k)] = count_++;
        make_room(count_);
        auto const rows = std::span(logits_).subspan(begin, at(count_) - begin);
        if constexpr (sparse)
            model.forward(in, sequence_of, std::span(tokens_).subspan(begin, rows.size()), rows);
        else
            model.forward(in, sequence_of, rows);
    }

    /// The rows by the step's inputs: an argument of `batch_step`.
    [[nodiscard]] auto view() const noexcept {
        rows_of_batch<logit> const rows{logits_.data(), width_, vocabulary_, row_of_.data()};
        if constexpr (sparse)
            return candidate_batch<logit>(logit_batch<logit>(rows), tokens_.data(), width_);
        else
            return rows;
    }

private:
    [[nodiscard]] std::size_t at(std::int64_t row) const noexcept {
        return static_cast<std::size_t>(row) * static_cast<std::size_t>(width_);
    }
    void make_room(std::int64_t rows) {
        if (logits_.size() < at(rows)) logits_.resize(at(rows));
        if constexpr (sparse) tokens_.resize(logits_.size());
    }

    std::int32_t vocabulary_, width_;
    std::int64_t count_ = 0;
    std::vector<std::int64_t> row_of_;
    std::vector<logit> logits_;
    std::vector<token_id> tokens_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
