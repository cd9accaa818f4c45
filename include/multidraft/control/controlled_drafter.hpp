// The drafter whose shape a controller chooses at every step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/verify/one_of.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The drafter of given shapes for a model: level by level, or from the rows of one call.
template <class Draft, sampler Sampler>
struct drafter_of_shapes {
    using type = static_tree_drafter<Draft, Sampler>;
};
template <block_model Draft, sampler Sampler>
struct drafter_of_shapes<Draft, Sampler> {
    using type = block_drafter<Draft, Sampler>;
};

}  // namespace detail

/// A `static_tree_drafter`, or for a `block_model` a `block_drafter`, whose shape is chosen at every step. The choice
/// is made before any draw of the step, so every verifier of the law is lossless for these trees.
template <class Draft, sampler Sampler, tree_controller Controller = controller>
class controlled_drafter : public detail::drafter_of_shapes<Draft, Sampler>::type {
    using base = typename detail::drafter_of_shapes<Draft, Sampler>::type;
    static_assert(!Sampler::law::traits.addressed_by_text,
                  "multidraft: this sampler's noise belongs to places in the text, so that two steps draw from the "
                  "same: a controller that has seen the one must not choose the shape of the other");

public:
    /// Model and controller belong to the caller and must outlive the drafter.
    controlled_drafter(Draft& draft, Controller& choices, Sampler sampler = {})
        : base(draft, topology(), sampler), choices_(&choices) {}

    void reset() {
        base::reset();
        choices_->start();
    }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min<std::int32_t>(choices_->depth(), this->room(length));
    }

    template <group G, draw_source Source>
    void grow(G const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w, Source& source,
              generation_metrics& m) {
        topology const& shape = choices_->choose({text, depth, this->unread(text)});
        this->use(shape);
        // A block model gives the rows of no more levels than the tree has: of none without one.
        base::grow(g, text, std::min(depth, shape.max_depth()), w, source, m);
    }

    void learn(step_outcome const& outcome) { choices_->learn(outcome); }  ///< hands the outcome to the controller

private:
    Controller* choices_;
};

/// The loop over trees that a controller chooses, verified by the one of `Verifiers` that it selects. Models and
/// controller belong to the caller. `make_controlled<draft::stratified, verify::ranked_block<law::stratified>,
/// verify::nested_ranked_block<law::stratified>>(target, draft, choices)`; `choices.verifier()` is used where there are
/// several. A controller serves one loop at a time. Throws `invalid_input` for a `controller` with times of another
/// number of verifiers, or of the other kind of draft (`step_times::draft_in_one_call`).
template <sampler Sampler, verify::verifier... Verifiers, language_model Target, class Draft,
          tree_controller Controller>
[[nodiscard]] auto make_controlled(Target& target, Draft& draft, Controller& choices) {
    using drafter_type = controlled_drafter<Draft, Sampler, Controller>;
    if constexpr (requires { choices.verifiers(); })
        if (choices.verifiers() != sizeof...(Verifiers))
            refuse("choices.verifiers", choices.verifiers(),
                   "the loop has " + std::to_string(sizeof...(Verifiers)) + ", each with times in step_times::library");
    if constexpr (requires { choices.times().draft_in_one_call; })
        if (choices.times().draft_in_one_call != block_model<Draft>)
            refuse("choices.times.draft_in_one_call", block_model<Draft> ? "false" : "true",
                   block_model<Draft> ? "a block model drafts all levels in one call"
                                      : "the draft is called for each level");
    drafter_type drafter(draft, choices);
    if constexpr (sizeof...(Verifiers) == 1) {
        return speculative<Target, drafter_type, Verifiers...>(target, std::move(drafter));
    } else {
        using verifier_type = verify::one_of<Verifiers...>;
        return speculative<Target, drafter_type, verifier_type>(target, std::move(drafter),
                                                                verifier_type(choices.verifier()));
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
