// The base of beam drafters: several sequences on every level, chosen from all continuations of those above.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A level of beams and the memory in which the next one is chosen: see `draft::stochastic_beam_level`.
struct beam_level {
    span<draft::beam const> beams;
    span<double> numbers;          ///< one per beam
    span<token_id> taken;          ///< `steps.size()` per beam
    span<index_t> counts;          ///< one per beam
    span<draft::beam_step> steps;  ///< receives the next level
};

/// The base of drafters that grow a tree by beams: everything except the choice of a level.
template <language_model Draft, draft_law Law>
class beam_drafter : public single_model_drafter<Draft, Law> {
protected:
    /// The model belongs to the caller and must outlive the drafter.
    explicit beam_drafter(Draft& draft) : single_model_drafter<Draft, Law>(draft) {}

    /// Grows up to `depth` levels, of `width_of(d)` sequences each. `choose(level, row_of, sums_of, site_of)` chooses
    /// them and returns how many there are; `row_of(i)`, `sums_of(i)` and `site_of(i)` are the distribution after
    /// sequence i, the chunk sums of its weights, and the site of its draws. Ends early if there is none to continue.
    template <class Width, class Choose>
    void grow_beams(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
                    generation_metrics& m, Width const& width_of, Choose const& choose) {
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        auto const node = [&](index_t i) { return beams_[static_cast<std::size_t>(i)].node; };
        auto const row_of = [&](index_t i) { return this->distribution(node(i)); };
        auto const sums_of = [&](index_t i) -> auto& { return this->sums(node(i)); };
        auto const site_of = [&](index_t i) { return draw_site{position, node(i)}; };
        // The scores of sequences are only compared with one another, so the root's is arbitrary.
        beams_.assign(1, {0, 0.0, 0.0});
        for (std::int32_t d = 0; d < depth && !beams_.empty(); ++d) {
            nodes_.clear();
            for (draft::beam const& b : beams_) nodes_.push_back(b.node);
            this->expand(g, text, nodes_, w, m);
            multidraft::detail::stopwatch const time(m.time.sample);
            auto const kept = static_cast<std::size_t>(choose(level(width_of(d)), row_of, sums_of, site_of));
            next_beams_.clear();
            for (draft::beam_step const& s : std::span(steps_).first(kept))
                next_beams_.push_back({this->add(node(s.from), s.token), s.log_probability, s.score});
            beams_.swap(next_beams_);
        }
    }

    /// The sequences of the last level that was grown; empty if there is none.
    [[nodiscard]] std::span<draft::beam const> beams() const noexcept { return beams_; }

private:
    [[nodiscard]] beam_level level(std::int32_t width) {
        auto const wanted = static_cast<std::size_t>(width);
        numbers_.resize(beams_.size());
        taken_.resize(beams_.size() * wanted);
        counts_.resize(beams_.size());
        steps_.resize(wanted);
        return {beams_, numbers_, taken_, counts_, steps_};
    }

    std::vector<draft::beam> beams_, next_beams_;
    std::vector<node_id> nodes_;
    std::vector<double> numbers_;
    std::vector<token_id> taken_;
    std::vector<index_t> counts_;
    std::vector<draft::beam_step> steps_;
};

}  // namespace MULTIDRAFT_NAMESPACE
