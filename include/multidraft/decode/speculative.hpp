// The speculative loop: draft a tree, score it in one target call, verify it, keep the accepted path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Whether a verifier is lossless for what the shape of a drafter's trees depends on.
template <class Drafter, class Verifier>
[[nodiscard]] constexpr bool shape_is_allowed() {
    if constexpr (says_what_shape_depends_on<Drafter>)
        return Drafter::shape_depends_on <= verify::detail::shape_limit_under<Verifier, typename Drafter::law>();
    else
        return !Drafter::shape_depends_on_draws || verify::decides_by_node<Verifier>;
}

}  // namespace detail

/// Generates text with the target's distribution, several tokens per target call.
///
/// `Drafter` grows a tree of candidates, `Verifier` accepts a path; different laws do not compile. With a lossless
/// verifier the text has exactly the distribution of `autoregressive`, and at temperature 0 it is the same text, token
/// for token (given a batch-invariant target). Models belong to the caller and are used by one thread.
template <language_model Target, drafter Drafter, verify::verifier Verifier>
class speculative : public generation_loop<speculative<Target, Drafter, Verifier>> {
    static constexpr bool same_law = std::is_same_v<law_of_list<typename Drafter::law>, typename Verifier::law>;
    static_assert(same_law,
                  "multidraft: the sampler draws by one law and the verifier is for another: name the sampler's law in "
                  "the verifier, "
                  "for example draft::sequential with verify::recursive_rejection<law::sequential>");
    static_assert(
        !same_law || verify::takes_law<Verifier, typename Drafter::law>,
        "multidraft: nodes of these trees share their list of children (law::shared_lists), and this verifier "
        "is biased then: draw the children of each node afresh, or take verify::ranked_block or a verifier "
        "that decides node by node (verify/traits.hpp)");
    static_assert(
        detail::shape_is_allowed<Drafter, Verifier>() || !verify::is_lossless<Verifier>,
        "multidraft: the shape of this drafter's trees depends on what was drawn, and this verifier weighs "
        "whole trees: use one that decides node by node, such as verify::recursive_rejection or verify::naive, or a "
        "drafter whose shape looks at less (verify/traits.hpp)");
    static constexpr bool with_features = observes_features<Drafter>;
    static_assert(!with_features || exposes_features<Target>,
                  "multidraft: this drafter reads the target's features and this model does not expose them "
                  "(feature_size, features: decode/features.hpp)");

public:
    static constexpr bool lossless = verify::is_lossless<Verifier>;

    /// The target belongs to the caller and must outlive the loop. Throws `invalid_input` for a drafter of another
    /// vocabulary or of features of another size, and for one that drafts with the target itself: each has a cache.
    explicit speculative(Target& target, Drafter drafter, Verifier verifier = {})
        : target_(target), verifier_(std::move(verifier)), tree_(std::move(drafter)) {
        tree_.check(target.vocabulary());
        if constexpr (detail::knows_its_models<Drafter>)
            if (tree_.calls(&target))
                refuse("drafter", "the target", "target and draft are two models, each with a cache");
        if constexpr (with_features)
            if (tree_.feature_size() != target.feature_size())
                refuse("drafter.feature_size", tree_.feature_size(),
                       "the target's features have " + std::to_string(target.feature_size()) + " numbers a token");
    }

private:
    friend class generation_loop<speculative>;
    using logit = logit_of<Target>;

    Target& target_model() noexcept { return target_; }
    void reset() {
        target_.keep(0, {});
        tree_.reset();
    }
    void read_prompt(std::span<token_id const> text, generation_options const&) {
        auto const context = text.first(text.size() - 1);
        catch_up(target_, context, positions_, {});
        if constexpr (with_features)
            if (!context.empty()) tree_.observe(target_.features(), positions_);
        tree_.read(context);
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        host_group const g;
        [[maybe_unused]] auto const before = step_seconds::of(m);
        step_counts const counted = m.totals();
        std::int32_t const context = state.length() - 1;
        std::int32_t const deepest = tree_.depth_limit(state.length());
        std::int32_t const depth = std::max(0, std::min(deepest, room(state)));
        tree_.grow(g, state.text(), depth, options.draft_sampling.value_or(options.sampling), source, m);
        remembered_rows const p(logit_rows<logit>(target_logits(context, m), options.sampling), memory_);
        path_.resize(static_cast<std::size_t>(tree_.size()));
        verdict v;
        {
            detail::stopwatch const time(m.time.verify);
            v = verify::verify_tree(verifier_, g, tree_.tree(), target_rows(p), draft_rows(tree_.rows()), source,
                                    context, span<node_id>(path_), scratch_.template of<Verifier>(tree_.size(), depth));
        }
        tree_view const tree = tree_.tree().tree;
        detail::count_step(tree, std::span<node_id const>(path_).first(static_cast<std::size_t>(v.accepted)), counted,
                           room(state) >= deepest, m);
        if (options.observer) observe(g, state, options, p, v);
        accepted_.assign(tree, path_, v);
        auto const emitted = static_cast<std::size_t>(state.emit(accepted_.tokens()));
        {
            detail::stopwatch const time(m.time.cache);
            // Both caches keep the text up to its last token but one.
            auto const kept = accepted_.nodes().first(emitted);
            target_.keep(context, kept);
            tree_.keep(context, kept);
            if constexpr (with_features) hand_over_features(context, kept);
        }
        if constexpr (learns_from_steps<Drafter>)
            tree_.learn(step_outcome{tree_.tree().tree,
                                     std::span<node_id const>(path_).first(static_cast<std::size_t>(v.accepted)),
                                     step_seconds::of(m).since(before)});
    }

    /// The deepest tree for which there are tokens left to emit and positions; it does not depend on draws.
    [[nodiscard]] std::int32_t room(text_state const& state) const {
        return std::min(state.left() - 1, target_.context_limit() - state.length());
    }

    /// The target's logits at every node, from one call.
    rows_view<logit> target_logits(std::int32_t context, generation_metrics& m) {
        detail::stopwatch const time(m.time.target);
        node_id const nodes = tree_.size();
        std::span<logit const> const logits = detail::logits_of_call(
            target_, token_batch{tree_.tokens(), tree_.positions(), context, nodes == 1 ? mask_view{} : tree_.mask()},
            nodes, logits_);
        ++m.target_calls;
        return {logits.data(), nodes, target_.vocabulary()};
    }

    template <class Rows>
    void observe(host_group const& g, text_state const& state, generation_options const& options, Rows const& p,
                 verdict const& v) {
        tree_view const tree = tree_.tree().tree;
        std::vector<double> of_target;
        std::vector<double> of_draft;
        detail::node_probabilities(g, tree, p, of_target);
        detail::node_probabilities(g, tree, tree_.rows(), of_draft);
        options.observer({state.text(), tree,
                          std::span<node_id const>(path_).first(static_cast<std::size_t>(v.accepted)), v.next,
                          of_target, of_draft});
    }

    /// Hands the features of the kept nodes to the drafter.
    void hand_over_features(std::int32_t context, std::span<node_id const> kept) {
        auto const width = static_cast<std::size_t>(target_.feature_size());
        features_.resize(kept.size() * width);
        positions_.resize(kept.size());
        std::iota(positions_.begin(), positions_.end(), context);
        copy_features<float>(target_.features(), target_.feature_size(), kept, features_);
        tree_.observe(features_, positions_);
    }

    Target& target_;
    [[no_unique_address]] Verifier verifier_;
    Drafter tree_;
    std::vector<logit> logits_;
    row_memory<logit_rows<logit>> memory_;
    std::vector<node_id> path_;
    verify::scratch_memory scratch_;
    std::vector<std::int32_t> positions_;
    std::vector<float> features_;
    accepted_text accepted_;
};

/// The loop over trees of a fixed shape from one draft model; `shape` is the number of children of each node (see
/// `chain`, `branching`): `make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target,
/// draft, shape)`. Throws `invalid_input` for a shape that the verifier does not take.
template <sampler Sampler, verify::verifier Verifier, language_model Target, language_model Draft>
[[nodiscard]] auto make_speculative(Target& target, Draft& draft, topology shape) {
    constexpr allowed_trees taken = verify::trees_of<Verifier>;
    if (node_id const v = first_not_allowed(tree_view{shape.parents(), {}}, taken); v != none)
        refuse("shape", v, shape.parent(v), std::string("the verifier takes trees of ") + text_of(taken));
    return speculative<Target, static_tree_drafter<Draft, Sampler>, Verifier>(
        target, static_tree_drafter<Draft, Sampler>(draft, std::move(shape)));
}

/// The loop over the trees of any drafter: `make_speculative<verify::naive<law::deterministic>>(target,
/// lookup_drafter{})`.
template <verify::verifier Verifier, language_model Target, drafter Drafter>
[[nodiscard]] auto make_speculative(Target& target, Drafter drafter, Verifier verifier = {}) {
    return speculative<Target, Drafter, Verifier>(target, std::move(drafter), std::move(verifier));
}

}  // namespace MULTIDRAFT_NAMESPACE
