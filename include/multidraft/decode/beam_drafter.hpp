// The drafter of stochastic beams: sequences without replacement, so many a level.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/arranged_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How many nodes each level of a shape has, the root's level left out: the beam widths with its budget.
[[nodiscard]] inline std::vector<std::int32_t> level_widths(topology const& shape) {
    std::vector<std::int32_t> widths;
    for (std::int32_t d = 1; d <= shape.max_depth(); ++d) widths.push_back(shape.level(d).count);
    return widths;
}

/// Drafts by stochastic beam search (RSD-S, Algorithms 7 to 9): level l holds the `widths[l]` sequences of length l + 1
/// that come first in a draw without replacement. A sequence without a continuation on the beam ends in a leaf.
///
/// Law: `sequential`; the number of a node's children is a stopping rule (see `draft::stochastic_beam_level`). Verify
/// with `verify::recursive_rejection<law::sequential>`.
template <language_model Draft>
class stochastic_beam_drafter : public arranged_drafter<Draft, law::sequential> {
    using base = arranged_drafter<Draft, law::sequential>;

public:
    static constexpr bool shape_looks_at_draws = true;

    /// Throws `invalid_input` for a level without a sequence.
    stochastic_beam_drafter(Draft& draft, std::vector<std::int32_t> widths) : base(draft), widths_(std::move(widths)) {
        for (std::size_t l = 0; l < widths_.size(); ++l) {
            if (widths_[l] < 1 || widths_[l] > 1 << 16)
                refuse("widths", static_cast<std::int64_t>(l), widths_[l], "a level has 1 to 2^16 sequences");
            nodes_ += widths_[l];
        }
    }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(static_cast<std::int32_t>(widths_.size()), this->model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        this->start(text, nodes_ + 1);
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        // The scores of sequences are compared with one another only, so the root's may be any.
        beams_.assign(1, {0, 0.0, 0.0});
        for (std::int32_t d = 0; d < depth && !beams_.empty(); ++d) {
            level_.clear();
            for (draft::beam const& b : beams_) level_.push_back(b.node);
            if (d == 0)
                this->expand_root(g, text, w, m);
            else
                this->expand(g, level_, w, m);
            detail::stopwatch const time(m.sample_seconds);
            auto const width = static_cast<std::size_t>(widths_[static_cast<std::size_t>(d)]);
            steps_.resize(width);
            next_.resize(beams_.size());
            counts_.resize(beams_.size());
            taken_.resize(beams_.size() * width);
            auto const node = [&](index_t i) { return beams_[static_cast<std::size_t>(i)].node; };
            index_t const kept = draft::stochastic_beam_level(
                g, span<draft::beam const>(beams_), [&](index_t i) { return this->distribution(node(i)); },
                [&](index_t i) -> auto& { return this->sums(node(i)); },
                [&](index_t i) {
                    return draw_site{position, node(i)};
                },
                source, span<double>(next_), span<token_id>(taken_), span<index_t>(counts_),
                span<draft::beam_step>(steps_));
            next_beams_.clear();
            for (std::size_t k = 0; k < static_cast<std::size_t>(kept); ++k) {
                draft::beam_step const& s = steps_[k];
                next_beams_.push_back({this->add(node(s.from), s.token), s.log_probability, s.score});
            }
            beams_.swap(next_beams_);
        }
        this->finish(m);
    }

private:
    std::vector<std::int32_t> widths_;
    node_id nodes_ = 0;
    std::vector<draft::beam> beams_, next_beams_;
    std::vector<node_id> level_;
    std::vector<draft::beam_step> steps_;
    std::vector<double> next_;
    std::vector<index_t> counts_;
    std::vector<token_id> taken_;
};

}  // namespace MULTIDRAFT_NAMESPACE
