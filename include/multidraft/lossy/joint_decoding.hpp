// Multi-token joint decoding, approximated by beams of the target: the reference for MTAD. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/beam_drafter.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

namespace detail {

/// Numbers in memory as the weights of a categorical draw.
struct weight_over {
    span<double const> mass;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD double operator()(index_t i) const {
        return mass[static_cast<std::size_t>(i)];
    }
};

}  // namespace detail

/// One level of beam sampling ([MTAD] 2, equation (2)): `out.size()` different continuations of the beam, each drawn in
/// proportion to its joint probability among those not drawn yet.
///
/// The law of the final beams has no tractable probabilities for a verifier to divide by: use them with a lossy
/// verifier of joint likelihood, or as deterministic candidates. Arguments as for `stochastic_beam_level`; `mass` is
/// scratch, one number per sequence; `out[k].score` is the log-probability. Returns how many there are.
template <group G, class Row, class Sums, class PlaceOf, draw_source Source>
index_t beam_sampling_level(G const& g, span<beam const> beams, Row const& row, Sums const& sums,
                            PlaceOf const& place_of, Source& source, span<double> mass, span<token_id> taken,
                            span<index_t> counts, span<beam_step> out) {
    std::size_t const width = out.size();
    double largest = -std::numeric_limits<double>::infinity();
    for (beam const& b : beams) largest = b.log_probability > largest ? b.log_probability : largest;
    for (std::size_t i = 0; i < beams.size(); ++i) {
        mass[i] = std::exp(beams[i].log_probability - largest);  // times the mass left after this sequence
        counts[i] = 0;
    }
    for (std::size_t k = 0; k < width; ++k) {
        detail::weight_over const from{mass};
        auto const all = g.sum_chunks(static_cast<index_t>(beams.size()), from);
        if (!(all.total > 0)) return static_cast<index_t>(k);
        // The sequence, then its token. The choice of a sequence is addressed at the first one.
        index_t const i = source.categorical(g, all, static_cast<index_t>(beams.size()), from, {},
                                             place_of(0)(purpose::path, static_cast<index_t>(k)));
        if (i == none) return static_cast<index_t>(k);
        auto const at = static_cast<std::size_t>(i);
        auto const q = row(i);
        weight_of const w{q};
        auto& row_sums = sums(i);
        span<token_id> const mine = taken.subspan(at * width, width);
        auto const drawn = static_cast<std::size_t>(counts[at]);
        token_id const x = source.categorical(g, row_sums, q.size(), w, span<token_id const>(mine.first(drawn)),
                                              place_of(i)(purpose::draft, static_cast<index_t>(drawn)));
        if (x == none) {  // by rounding: nothing is left of this sequence
            mass[at] = 0;
            --k;
            continue;
        }
        double const log_probability = beams[at].log_probability + std::log(static_cast<double>(q(x)));
        out[k] = {i, x, log_probability, log_probability};
        mine[drawn] = x;
        ++counts[at];
        double const whole = static_cast<double>(q.weight(x)) / static_cast<double>(q(x));
        g.update_chunk(row_sums, q.size(), w, span<token_id const>(mine.first(drawn + 1)), x);
        mass[at] = std::exp(beams[at].log_probability - largest) * static_cast<double>(row_sums.total) / whole;
    }
    return static_cast<index_t>(width);
}

/// The same without draws: the `out.size()` continuations of the largest joint probability, likeliest first, ties to
/// the earlier sequence and the lower token (deterministic beam sampling, [MTAD] 2). One pass over each row.
template <group G, class Row>
index_t beam_top_level(G const& g, span<beam const> beams, Row const& row, span<token_id> taken, span<beam_step> out) {
    std::size_t const width = out.size();
    std::size_t found = 0;
    for (std::size_t i = 0; i < beams.size(); ++i) {
        auto const q = row(static_cast<index_t>(i));
        span<token_id> const mine = taken.subspan(i * width, width);
        for (token_id& x : mine) x = none;
        g.top_k(q.size(), weight_of{q}, mine);
        for (token_id const x : mine) {
            if (x == none || !(q.weight(x) > 0)) break;
            double const joint = beams[i].log_probability + std::log(static_cast<double>(q(x)));
            std::size_t at = found;
            while (at > 0 && out[at - 1].log_probability < joint) --at;
            if (at == width) break;  // the others of this row are even less likely
            for (std::size_t k = found < width ? found : width - 1; k > at; --k) out[k] = out[k - 1];
            out[at] = {static_cast<index_t>(i), x, joint, joint};
            found += found < width ? 1 : 0;
        }
    }
    return static_cast<index_t>(found);
}

}  // namespace MULTIDRAFT_NAMESPACE::draft

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

    /// Throws `invalid_input` for numbers below 1, and for more than 2^16 nodes.
    beam_sampling_drafter(Draft& draft, std::int32_t width, std::int32_t length)
        : base(draft), width_(width), length_(length) {
        if (width < 1 || width > 1 << 12) refuse("width", width, "a beam has 1 to 2^12 sequences");
        if (length < 1 || length > 1 << 12) refuse("length", length, "a chain has 1 to 2^12 tokens");
        this->check_read("width", width, static_cast<std::int64_t>(width) * length);
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

/// Emits `length` tokens per step, the likeliest of `width` sequences drawn from the target's joint distribution of
/// that many tokens by beam sampling ([MTAD] 3.1, with the approximation of that section).
///
/// By design not the target's distribution: it is biased towards texts of high joint likelihood, so its perplexity
/// under the target is lower than that of sampling. `length` target calls per step over `width` sequences: a baseline
/// of quality, not of speed. Width 1 or length 1 with width 1 is plain sampling of the target.
template <language_model Target>
class joint_decoding : public generation_loop<joint_decoding<Target>> {
public:
    static constexpr bool lossless = false;

    /// Throws `invalid_input` for numbers below 1.
    joint_decoding(Target& target, std::int32_t width, std::int32_t length)
        : target_(target), beams_(target, width, length) {}

private:
    friend class generation_loop<joint_decoding>;

    Target& target_model() noexcept { return target_; }
    void reset() { beams_.reset(); }
    void read_prompt(std::span<token_id const> text, generation_options const&) {
        beams_.read(text.first(text.size() - 1));
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        host_group const g;
        std::int32_t const length = state.length();
        step_counts const counted = m.totals();
        std::int32_t const deepest = beams_.depth_limit(length);
        bool const is_whole = state.left() >= deepest;
        generation_metrics calls;
        beams_.grow(g, state.text(), std::max(1, std::min(state.left(), deepest)), options.sampling, source, calls);
        m.target_calls += calls.draft_calls;  // the target is the drafter here
        m.time.target += calls.time.draft;
        m.time.sample += calls.time.sample;
        m.time.mask += calls.time.mask;
        if (is_whole) m.add_whole_step(counted, std::ssize(beams_.tokens()) - 1);
        std::int32_t const count = state.emit(beams_.tokens().subspan(1));
        multidraft::detail::stopwatch const time(m.time.cache);
        nodes_.resize(static_cast<std::size_t>(count));
        std::iota(nodes_.begin(), nodes_.end(), 0);  // the last token emitted is read next time
        beams_.keep(length - 1, nodes_);
    }

    Target& target_;
    beam_sampling_drafter<Target> beams_;
    std::vector<node_id> nodes_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
