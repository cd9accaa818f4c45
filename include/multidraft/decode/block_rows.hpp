// The processed rows of one step of a block model: one for each depth, or for each depth and token before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The rows of a step: `call`, then `row_at` for the nodes that need one, in any order. A row is processed once for all
/// nodes that have it. Memory is kept from one step to the next.
template <block_model Model>
class block_rows {
public:
    using logit = logit_of<Model>;
    static constexpr bool sparse = gives_candidates<Model>;
    /// Which tokens a row has is known with the token before.
    static constexpr bool chosen_after_parent = sparse && adds_parent_terms<Model>;
    using view = std::conditional_t<sparse, candidate_view<logit>, row_view<logit>>;

    /// A row with its chunk sums, and what it is of.
    struct entry : processed_row<view, chunk_sums_of<host_group, typename view::real>> {
        view logits;
        std::int32_t depth = 0;
        token_id token = none;  ///< before it; of no matter without a term of the parent
    };

    /// Calls the model: the rows of so many depths, the first one below the last token of `text`. For none it does not.
    void call(Model& model, std::span<token_id const> text, std::int32_t depths) {
        rows_.clear();
        vocabulary_ = model.vocabulary();
        width_ = static_cast<std::size_t>(vocabulary_);
        if constexpr (sparse) width_ = std::min(width_, static_cast<std::size_t>(model.candidates()));
        if (depths == 0) return;
        if constexpr (!chosen_after_parent) base_.resize(static_cast<std::size_t>(depths) * width_);
        if constexpr (chosen_after_parent) {
            model.read(text, depths);
        } else if constexpr (sparse) {
            tokens_.resize(base_.size());
            model.rows(text, std::span<token_id>(tokens_), std::span<logit>(base_));
        } else {
            model.rows(text, std::span<logit>(base_));
        }
    }

    /// The number of the row of nodes with this depth and token.
    index_t row_at(host_group const& g, Model& model, std::int32_t depth, token_id token, sampling_params const& w) {
        for (std::size_t r = 0; r < rows_.size(); ++r)
            if (rows_[r].depth == depth && (!adds_parent_terms<Model> || rows_[r].token == token))
                return static_cast<index_t>(r);
        view const logits = logits_at(model, depth, token);
        rows_.push_back({process_logits(g, logits, w, "draft logits"), logits, depth, token});
        return static_cast<index_t>(rows_.size()) - 1;
    }

    /// A row by its number.
    [[nodiscard]] entry const& operator[](index_t row) const noexcept { return rows_[static_cast<std::size_t>(row)]; }
    /// All rows by their numbers. Valid until the next `row_at`.
    [[nodiscard]] prepared_rows<entry> all() const noexcept { return {rows_, vocabulary_}; }

    /// Writes the likeliest tokens of a row, as many as fit, and their probabilities, in falling order: what shapes are
    /// chosen by. At temperature 0, where one token has all, the probabilities of temperature 1.
    void likeliest(host_group const& g, index_t row, sampling_params const& w, std::vector<token_id>& tokens,
                   std::vector<double>& probabilities) const {
        entry const& here = (*this)[row];
        auto const q = w.greedy() ? process_logits(g, here.logits, {}, "draft logits").row : here.row;
        tokens.resize(std::min(tokens.size(), width_));
        g.top_k(q.size(), order_of{q}, span<token_id>(tokens));
        probabilities.clear();
        for (token_id const x : tokens) {
            if (x == none || !(q(x) > 0)) break;
            probabilities.push_back(static_cast<double>(q(x)));
        }
    }

private:
    /// With a term of the parent a row is written out: it is read three times or more, and the term costs more each
    /// time than reading it back.
    view logits_at([[maybe_unused]] Model& model, std::int32_t depth, [[maybe_unused]] token_id token) {
        std::size_t const first = static_cast<std::size_t>(depth) * width_;
        if constexpr (adds_parent_terms<Model>) {
            if (written_.size() == rows_.size()) written_.emplace_back();
            row_with_term& row = written_[rows_.size()];  // rows of their own do not move
            if constexpr (chosen_after_parent) {
                row.tokens.resize(width_);
                row.logits.resize(width_);
                model.candidates_after(depth, token, std::span<token_id>(row.tokens), std::span<logit>(row.logits));
                return {row.tokens, row.logits.data(), vocabulary_};
            } else {
                row.logits.assign(base_.data() + first, base_.data() + first + width_);
                model.add_parent_term(depth, token, std::span<logit>(row.logits));
                return {row.logits.data(), vocabulary_};
            }
        } else if constexpr (sparse) {
            return {std::span<token_id const>(tokens_).subspan(first, width_), base_.data() + first, vocabulary_};
        } else {
            return {base_.data() + first, vocabulary_};
        }
    }

    struct row_with_term {
        std::vector<logit> logits;
        std::vector<token_id> tokens;  ///< of a few candidates
    };

    std::int32_t vocabulary_ = 0;
    std::size_t width_ = 0;         ///< entries of a row: V, or its candidates
    std::vector<logit> base_;       ///< the rows of the call
    std::vector<token_id> tokens_;  ///< of their candidates
    std::vector<row_with_term> written_;
    std::vector<entry> rows_;
};

}  // namespace MULTIDRAFT_NAMESPACE
