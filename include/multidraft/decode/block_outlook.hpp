// What the rows of a block say about the children of each depth, before anything is drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/block_rows.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/sampling_params.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The likeliest tokens of each depth's row, from which shapes are chosen. Nothing is drawn before. With a term of the
/// parent the row of a depth is taken after the likeliest token of the depth above. Memory is kept from step to step.
class block_outlook {
public:
    /// Reads the first `depth` rows. They are processed by `w`; the probabilities are those of `by`, at temperature 0
    /// those of temperature 1 (`block_rows::likeliest`). `children` of a node at most. The rates are those of a model
    /// that `estimates_acceptance`, without that `rates`, and without any those of each row (`draft::rates_of_row`).
    /// O(depth x V).
    template <class Model>
    void read(host_group const& g, Model& model, block_rows<Model>& rows, std::int32_t depth, token_id root,
              sampling_params const& w, sampling_params const& by, index_t children,
              std::optional<draft::child_rates> const& rates) {
        static_assert(estimates_acceptance<Model> || !estimates_acceptance_after<Model>,
                      "multidraft: this model's confidence reads a token of the tree, and this shape is chosen before "
                      "any is drawn: take reach_shape, whose trees depend on a node's own context");
        likeliest_.resize(static_cast<std::size_t>(depth));
        depths_.clear();
        token_id before = root;
        for (std::int32_t d = 0; d < depth; ++d) {
            auto& probabilities = likeliest_[static_cast<std::size_t>(d)];
            tokens_.assign(static_cast<std::size_t>(children), none);
            rows.likeliest(g, rows.row_at(g, model, d, before, w), by, tokens_, probabilities);
            before = tokens_[0];
            depths_.push_back({probabilities, rates.value_or(draft::child_rates{})});
            auto& its = depths_.back().rates;
            if constexpr (estimates_acceptance<Model>)
                its = its.scaled_to(model.confidence(d));
            else if (!rates && !by.greedy())
                its = draft::rates_of_row(probabilities);
        }
    }

    /// Those of the last `read`, valid until the next.
    [[nodiscard]] std::span<draft::depth_outlook const> depths() const noexcept { return depths_; }

private:
    std::vector<token_id> tokens_;
    std::vector<std::vector<double>> likeliest_;
    std::vector<draft::depth_outlook> depths_;
};

}  // namespace MULTIDRAFT_NAMESPACE
