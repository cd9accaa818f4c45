// Drafts from the text itself where they pay: how much of what followed earlier occurrences is drafted at each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/control/expected_continuations.hpp"
#include "multidraft/control/match_rates.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/sampling_params.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A `lookup_drafter` that drafts of the continuations what is worth its rows of the target: the tokens that are
/// likeliest to be accepted (`expected_continuations`), as many as the controller chooses, and none where a step
/// without drafts is faster.
///
/// The choice depends on the text and on earlier steps alone, so `verify::naive<law::deterministic>` is lossless for
/// it, and what it may lose against drafting nothing is bounded by the controller. Cost: O(text) a step, beside the
/// target's call.
///
/// `Chooser` is a `budget_controller` whose draft takes no time. It and the rates belong to the caller, who keeps them
/// from text to text.
template <class Chooser = budget_controller>
class controlled_lookup_drafter : public lookup_drafter {
public:
    /// Throws `invalid_input` for options that make no sense.
    controlled_lookup_drafter(Chooser& choices, match_rates& rates, lookup_options options = {})
        : lookup_drafter(options), choices_(&choices), rates_(&rates) {}

    void reset() {
        choices_->start();
        continuations_.forget();
    }

    template <group G, draw_source Source>
    void grow(G const&, std::span<token_id const> text, std::int32_t depth, sampling_params const&, Source&,
              generation_metrics& m) {
        grow_by(text, m, [&] {
            std::int32_t const levels = choices_->levels({text, depth, 1});
            continuations_.find(text, options_, levels, *rates_);
            if (levels < 1) return;
            offers_.assign(1, tree_offer{});
            continuations_.offer(choices_->budgets(), offers_);
            continuations_.add_to(tree_, offers_[choices_->choose(offers_)].nodes);
        });
    }

    /// Hands the outcome of the last step to the controller.
    void learn(step_outcome const& outcome) { choices_->learn(outcome); }

private:
    Chooser* choices_;
    match_rates* rates_;
    expected_continuations continuations_;
    std::vector<tree_offer> offers_;
};

}  // namespace MULTIDRAFT_NAMESPACE
