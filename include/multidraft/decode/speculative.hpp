// The speculative loop: draft a tree, score it in one target call, verify it, keep the accepted path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/catch_up.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/shaped_drafter.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/decode/step_view.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/distribution/remembered_rows.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/shape_may_depend_on.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Whether a verifier keeps the target's law for what the shape of a drafter's trees depends on.
template <class Drafter, class Verifier>
[[nodiscard]] constexpr bool shape_is_allowed() {
    if constexpr (says_what_shape_depends_on<Drafter>)
        return Drafter::shape_depends_on <= verify::shape_may_depend_on<Verifier>;
    else
        return !Drafter::shape_looks_at_draws || verify::decides_by_node<Verifier>;
}

}  // namespace detail

/// Generates text with the target's distribution, several tokens a target call.
///
/// `Drafter` grows a tree of candidates, `Verifier` accepts a path; their laws must be one, or this does not compile.
/// With a lossless verifier the text has exactly the distribution of `autoregressive`, and at temperature 0 it is the
/// same text, token for token (given a batch-invariant target). Models are the caller's and are used by one thread.
template <language_model Target, drafter Drafter, verify::verifier Verifier>
class speculative {
    static_assert(std::is_same_v<typename Drafter::law, typename Verifier::law>,
                  "multidraft: the sampler draws by one law and the verifier is for another: name the sampler's law in "
                  "the verifier, "
                  "for example draft::sequential with verify::recursive_rejection<law::sequential>");
    static_assert(
        detail::shape_is_allowed<Drafter, Verifier>() || !verify::is_lossless<Verifier>,
        "multidraft: the shape of this drafter's trees depends on what was drawn, and this verifier weighs "
        "whole trees: use one that decides node by node, such as verify::recursive_rejection or verify::naive, or a "
        "drafter whose shape looks at less (verify/shape_may_depend_on.hpp)");

public:
    static constexpr bool lossless = verify::is_lossless<Verifier>;

    /// The target is the caller's and outlives the loop. Throws `invalid_input` for a drafter of another vocabulary.
    explicit speculative(Target& target, Drafter drafter, Verifier verifier = {})
        : target_(target), verifier_(std::move(verifier)), tree_(std::move(drafter)) {
        tree_.check(target.vocabulary());
    }

    /// Generates, drawing from `source`. Caches are reset first; `on_tokens` may be empty.
    template <draw_source Source>
    generation operator()(std::span<token_id const> prompt, generation_options const& options, Source& source,
                          token_callback const& on_tokens = {}) {
        validate(options, prompt, target_.vocabulary(), target_.context_limit());
        generation result;
        generation_metrics& m = result.metrics;
        text_state state(prompt, options, on_tokens, target_.context_limit());
        {
            detail::stopwatch const whole(m.seconds);
            target_.keep(0, {});
            tree_.reset();
            if (!state.ended()) {
                detail::stopwatch const time(m.prompt_seconds);
                auto const context = state.text().first(prompt.size() - 1);
                catch_up(target_, context, positions_, {});
                tree_.read(context);
            }
            while (!state.ended()) step(state, options, source, m);
        }
        result.tokens = state.emitted();
        result.why = state.why();
        return result;
    }

    /// Generates with the draws of `options.seed` and `options.request`.
    generation operator()(std::span<token_id const> prompt, generation_options const& options,
                          token_callback const& on_tokens = {}) {
        addressed_source source{addressed_uniforms(options.seed, options.request)};
        return (*this)(prompt, options, source, on_tokens);
    }

private:
    using logit = logit_of<Target>;

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        host_group const g;
        auto const before = step_seconds::of(m);
        std::int32_t const length = state.length();
        std::int32_t const context = length - 1;
        // Never deeper than there are tokens left to emit or positions to put them; the depth looks at no draw.
        std::int32_t const depth =
            std::max(0, std::min({tree_.depth_limit(length), state.left() - 1, target_.context_limit() - length}));
        tree_.grow(g, state.text(), depth, options.draft_sampling.value_or(options.sampling), source, m);

        auto const vocabulary = static_cast<std::size_t>(target_.vocabulary());
        auto const nodes = static_cast<std::size_t>(tree_.size());
        if (logits_.size() < nodes * vocabulary) logits_.resize(nodes * vocabulary);
        {
            detail::stopwatch const time(m.target_seconds);
            target_.forward(
                token_batch{tree_.tokens(), tree_.positions(), context, nodes == 1 ? mask_view{} : tree_.mask()},
                std::span<logit>(logits_.data(), nodes * vocabulary));
            ++m.target_calls;
        }
        verdict v;
        path_.resize(nodes);
        remembered_rows const p(
            logit_rows<logit>(rows_view<logit>(logits_.data(), tree_.size(), target_.vocabulary()), options.sampling),
            memory_);
        {
            detail::stopwatch const time(m.verify_seconds);
            v = verify::verify_tree(verifier_, g, tree_.tree(), p, tree_.rows(), source, context, span<node_id>(path_),
                                    scratch_.template of<Verifier>(tree_.size(), depth));
        }
        m.accepted += v.accepted;
        for (std::int32_t d = 0; d <= v.accepted; ++d) {
            node_id const node = d == 0 ? 0 : path_[static_cast<std::size_t>(d - 1)];
            node_range const children = tree_.tree().tree.children(node);
            if (children.count == 0) continue;
            m.tried(static_cast<std::size_t>(d), d < v.accepted);
            m.tried_ranks(children.count, d < v.accepted ? path_[static_cast<std::size_t>(d)] - children.first : -1);
        }
        if (options.observer) observe(g, state, options, p, v);
        emitted_.clear();
        for (std::int32_t d = 0; d < v.accepted; ++d)
            emitted_.push_back(tree_.tokens()[static_cast<std::size_t>(path_[static_cast<std::size_t>(d)])]);
        emitted_.push_back(v.next);
        std::int32_t const count = state.emit(emitted_);
        m.tokens += count;
        {
            detail::stopwatch const time(m.cache_seconds);
            keep(context, count);
        }
        if constexpr (learns_from_steps<Drafter>)
            tree_.learn(step_outcome{tree_.tree().tree,
                                     std::span<node_id const>(path_).first(static_cast<std::size_t>(v.accepted)),
                                     step_seconds::of(m).since(before)});
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

    /// Both caches keep the text up to its last token but one: the root and the accepted nodes that were emitted.
    void keep(std::int32_t context, std::int32_t emitted) {
        entries_.assign(1, 0);
        entries_.insert(entries_.end(), path_.begin(), path_.begin() + (emitted - 1));
        target_.keep(context, entries_);
        tree_.keep(context, entries_);
    }

    Target& target_;
    [[no_unique_address]] Verifier verifier_;
    Drafter tree_;
    std::vector<logit> logits_;
    row_memory<softmax_row<row_view<logit>>> memory_;
    std::vector<node_id> path_;
    verify::scratch_memory scratch_;
    std::vector<std::int32_t> entries_;
    std::vector<std::int32_t> positions_;
    std::vector<token_id> emitted_;
};

/// The loop over trees of a fixed shape from one draft model; `shape` says how many children each node is to have (see
/// `chain`, `branching`): `make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target,
/// draft, shape)`.
template <sampler Sampler, verify::verifier Verifier, language_model Target, language_model Draft>
[[nodiscard]] auto make_speculative(Target& target, Draft& draft, topology shape) {
    return speculative<Target, shaped_drafter<Draft, Sampler>, Verifier>(
        target, shaped_drafter<Draft, Sampler>(draft, std::move(shape)));
}

/// The loop over the trees of any drafter: `make_speculative<verify::naive<law::deterministic>>(target,
/// lookup_drafter{})`.
template <verify::verifier Verifier, language_model Target, drafter Drafter>
[[nodiscard]] auto make_speculative(Target& target, Drafter drafter, Verifier verifier = {}) {
    return speculative<Target, Drafter, Verifier>(target, std::move(drafter), std::move(verifier));
}

}  // namespace MULTIDRAFT_NAMESPACE
