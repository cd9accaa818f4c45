// MTAD's draft: one chain of high joint likelihood, found by beam sampling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/arranged_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/beam_sampling.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Keeps `width` sequences a level, drawn in proportion to their joint probability ([MTAD] 2), and drafts the likeliest
/// of the last level as a chain of up to `length` tokens ([MTAD] Alg. 1, line 3). At temperature 0 they are not drawn:
/// the likeliest are kept.
///
/// `Law` is the one that the verifier of joint likelihood is written for; the chain's own law is none that a lossless
/// verifier could divide by, and `law::deterministic` says so (`verify::naive` takes it).
template <language_model Draft, draft_law Law = law::deterministic>
class beam_sampling_drafter : public arranged_drafter<Draft, Law> {
    using base = arranged_drafter<Draft, Law>;

public:
    static constexpr bool shape_looks_at_draws = false;

    /// Throws `invalid_input` for numbers below 1.
    beam_sampling_drafter(Draft& draft, std::int32_t width, std::int32_t length)
        : base(draft), width_(width), length_(length) {
        if (width < 1 || width > 1 << 12) refuse("width", width, "a beam has 1 to 2^12 sequences");
        if (length < 1 || length > 1 << 12) refuse("length", length, "a chain has 1 to 2^12 tokens");
    }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(length_, this->model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        // Greedy: the likeliest sequences of the distribution as it is, for the limit has only one.
        sampling_params const of_rows = w.greedy() ? sampling_params{} : w;
        this->start(text, width_ * depth + 1);
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        auto const width = static_cast<std::size_t>(width_);
        beams_.assign(1, {0, 0.0, 0.0});
        for (std::int32_t d = 0; d < depth && !beams_.empty(); ++d) {
            level_.clear();
            for (draft::beam const& b : beams_) level_.push_back(b.node);
            if (d == 0)
                this->expand_root(g, text, of_rows, m);
            else
                this->expand(g, level_, of_rows, m);
            multidraft::detail::stopwatch const time(m.sample_seconds);
            steps_.resize(width);
            mass_.resize(beams_.size());
            counts_.resize(beams_.size());
            taken_.resize(beams_.size() * width);
            auto const node = [&](index_t i) { return beams_[static_cast<std::size_t>(i)].node; };
            auto const rows = [&](index_t i) { return this->distribution(node(i)); };
            index_t const kept = w.greedy()
                                     ? draft::beam_top_level(g, span<draft::beam const>(beams_), rows,
                                                             span<token_id>(taken_), span<draft::beam_step>(steps_))
                                     : draft::beam_sampling_level(
                                           g, span<draft::beam const>(beams_),
                                           rows, [&](index_t i) -> auto& { return this->sums(node(i)); },
                                           [&](index_t i) {
                                               return draw_site{position, node(i)};
                                           },
                                           source, span<double>(mass_), span<token_id>(taken_), span<index_t>(counts_),
                                           span<draft::beam_step>(steps_));
            next_beams_.clear();
            for (std::size_t k = 0; k < static_cast<std::size_t>(kept); ++k) {
                draft::beam_step const& s = steps_[k];
                next_beams_.push_back({this->add(node(s.from), s.token), s.log_probability, s.score});
            }
            beams_.swap(next_beams_);
        }
        kept_.assign(static_cast<std::size_t>(this->tree_.size()), 0);
        kept_[0] = 1;
        if (!beams_.empty()) {
            auto const best = std::max_element(beams_.begin(), beams_.end(), [](auto const& a, auto const& b) {
                return a.log_probability < b.log_probability;
            });
            for (node_id v = best->node; v > 0; v = this->tree_.parent(v)) kept_[static_cast<std::size_t>(v)] = 1;
        }
        this->finish(m, kept_);
    }

private:
    std::int32_t width_;
    std::int32_t length_;
    std::vector<draft::beam> beams_, next_beams_;
    std::vector<node_id> level_;
    std::vector<draft::beam_step> steps_;
    std::vector<double> mass_;
    std::vector<index_t> counts_;
    std::vector<token_id> taken_;
    std::vector<char> kept_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
