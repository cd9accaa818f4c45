// The drafter of K independent sequences of L tokens, sharing their nodes while they agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace draft {

/// For K sequences drawn independently token by token ([SpecTr]): those that agree so far share a node of the tree and
/// draw its children, one each, so the children's law is `iid`. A token that m of them drew is m children. The first of
/// these has m children in turn; the others are leaves.
///
/// Writes to `continuing[k]` how many sequences continue below the k-th draw: the number of equal draws for the first
/// of them, 0 for the others. O(K^2). `continuing` is as long as `drawn`.
MULTIDRAFT_HD inline void share_nodes(span<token_id const> drawn, span<index_t> continuing) {
    for (std::size_t k = 0; k < drawn.size(); ++k) {
        std::size_t first = 0;
        while (drawn[first] != drawn[k]) ++first;
        continuing[k] = 0;
        ++continuing[first];
    }
}

}  // namespace draft

/// K sequences of L tokens, drawn independently from one draft model ([SpecTr]), as a tree of law `iid`.
///
/// Sequences that agree share a node, which has one child for each of them. Equal children are kept, since their number
/// is part of the law, and the sequences continue below the first of them (`draft::share_nodes`). So a node on m
/// sequences has m candidates, where a fork has one. The shape depends on the draws. A verifier that may accept a later
/// one of several equal children must be wrapped in `verify::merged`.
template <language_model Draft>
class sequence_drafter : public single_model_drafter<Draft, law::iid> {
    using base = single_model_drafter<Draft, law::iid>;

public:
    static constexpr bool shape_depends_on_draws = true;

    /// Throws `invalid_input` for numbers that do not describe a tree.
    sequence_drafter(Draft& draft, std::int32_t sequences, std::int32_t length)
        : base(draft), sequences_(sequences), length_(length) {
        if (sequences < 1) refuse("sequences", sequences, "there is at least one sequence");
        if (length < 0) refuse("length", length, "the length of a sequence is 0 or larger");
        this->check_read("sequences", sequences, static_cast<std::int64_t>(sequences) * length);
    }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(length_, this->model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        this->start(text, sequences_ * depth + 1);
        level_.assign(1, 0);
        here_.assign(1, sequences_);
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        for (std::int32_t d = 0; d < depth && !level_.empty(); ++d) {
            this->expand(g, text, level_, w, m);
            detail::stopwatch const time(m.time.sample);
            next_level_.clear();
            next_here_.clear();
            for (std::size_t i = 0; i < level_.size(); ++i) {
                node_id const v = level_[i];
                drawn_.resize(static_cast<std::size_t>(here_[i]));
                drawn_children const drawn = draft::iid{}(g, this->distribution(v), this->sums(v), source,
                                                          draw_site{position, v}, span<token_id>(drawn_));
                drawn_.resize(static_cast<std::size_t>(drawn.count));
                continuing_.resize(drawn_.size());
                draft::share_nodes(drawn_, continuing_);
                for (std::size_t k = 0; k < drawn_.size(); ++k) {
                    node_id const child = this->add(v, drawn_[k]);
                    if (continuing_[k] == 0) continue;
                    next_level_.push_back(child);
                    next_here_.push_back(continuing_[k]);
                }
            }
            level_.swap(next_level_);
            here_.swap(next_here_);
        }
        this->finish(m);
    }

private:
    std::int32_t sequences_;
    std::int32_t length_;
    std::vector<node_id> level_, next_level_;
    std::vector<index_t> here_, next_here_;  ///< sequences at each node of the level
    std::vector<token_id> drawn_;
    std::vector<index_t> continuing_;
};

}  // namespace MULTIDRAFT_NAMESPACE
