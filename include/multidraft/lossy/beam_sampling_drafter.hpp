// MTAD's draft: one chain of high joint likelihood, found by beam sampling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/beam_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/lossy/beam_sampling.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Keeps `width` sequences per level, drawn in proportion to their joint probability ([MTAD] 2), and drafts the
/// likeliest of the last level as a chain of up to `length` tokens ([MTAD] Alg. 1, line 3). At temperature 0 they are
/// not drawn: the likeliest are kept.
///
/// `Law` is that of the verifier of joint likelihood. The chain's own law has no tractable probabilities for a lossless
/// verifier to divide by, hence `law::deterministic` (which `verify::naive` accepts).
template <language_model Draft, draft_law Law = law::deterministic>
class beam_sampling_drafter : public beam_drafter<Draft, Law> {
    using base = beam_drafter<Draft, Law>;

public:
    static constexpr bool shape_depends_on_draws = false;

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
        // Greedy: the likeliest sequences of the unscaled distribution, since the limit has only one.
        sampling_params const of_rows = w.greedy() ? sampling_params{} : w;
        this->start(text, width_ * depth + 1);
        this->grow_beams(
            g, text, depth, of_rows, m, [&](std::int32_t) { return width_; },
            [&](beam_level const& b, auto const& row_of, auto const& sums_of, auto const& site_of) {
                if (w.greedy()) return draft::beam_top_level(g, b.beams, row_of, b.taken, b.steps);
                return draft::beam_sampling_level(g, b.beams, row_of, sums_of, site_of, source, b.numbers, b.taken,
                                                  b.counts, b.steps);
            });
        kept_.assign(this->at(this->tree_.size()), 0);
        kept_[0] = 1;
        auto const beams = this->beams();
        auto const best = std::max_element(beams.begin(), beams.end(), [](draft::beam const& x, draft::beam const& y) {
            return x.log_probability < y.log_probability;
        });
        for (node_id v = best == beams.end() ? 0 : best->node; v > 0; v = this->tree_.added().parents[this->at(v)])
            kept_[this->at(v)] = 1;
        this->finish(m, kept_);
    }

private:
    std::int32_t width_;
    std::int32_t length_;
    std::vector<char> kept_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
