// Drafting by look-up in the text itself: continuations of earlier occurrences, alone or beside a model's candidates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/draft/lookup.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/tree_builder.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The bounds of the look-up.
struct lookup_options {
    draft::ngram_lookup find;
    std::int32_t paths = 4;   ///< different continuations at most, >= 1
    std::int32_t length = 6;  ///< tokens of one, >= 1

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        find.validate();
        if (paths < 1) refuse("paths", paths, "a look-up gives one continuation or more");
        if (length < 1) refuse("length", length, "a continuation has one token or more");
    }
};

namespace detail {

/// The child of a node with that token that was added first; `none` if there is none. O(later nodes).
[[nodiscard]] inline node_id child_with(tree_builder const& tree, node_id parent, token_id token) noexcept {
    tree_nodes const& all = tree.added();
    for (auto v = static_cast<std::size_t>(parent) + 1; v < all.parents.size(); ++v)
        if (all.parents[v] == parent && all.tokens[v] == token) return static_cast<node_id>(v);
    return none;
}

/// Follows the continuations of `text`, best first, each as a path from node 0 of at most `depth` levels, until
/// `options.paths` of them have had something new. `child(node, token, matched)` gives the child of a node with that
/// token, before which `matched` tokens were the same at both places, and whether it is new.
template <class Node, class Child>
void follow_continuations(std::span<token_id const> text, lookup_options const& options, std::int32_t depth,
                          Child&& child) {
    std::int32_t const length = std::min(options.length, depth);
    if (length < 1) return;
    std::int32_t paths = 0;
    options.find(text, [&](std::int32_t start, std::int32_t matched) {
        Node node{0};
        bool added = false;
        for (std::int32_t k = 0; k < length; ++k) {
            auto const [next, is_new] = child(node, draft::continuation_token(text, start, k), matched + k);
            added |= is_new;
            node = next;
        }
        if (added) ++paths;
        return paths < options.paths;
    });
}

/// Adds the continuations of `text` to a tree, each as a path from the root; existing nodes are shared. At most `depth`
/// levels.
inline void add_continuations(tree_builder& tree, std::span<token_id const> text, lookup_options const& options,
                              std::int32_t depth) {
    follow_continuations<node_id>(text, options, depth, [&](node_id node, token_id token, std::int32_t) {
        node_id const there = child_with(tree, node, token);
        return there != none ? std::pair(there, false) : std::pair(tree.add(node, token), true);
    });
}

}  // namespace detail

/// Drafts what followed earlier occurrences of the last tokens in the prompt or the output. No model, no draws; a step
/// without a match is one target call for one token. Verify it with `verify::naive<law::deterministic>`.
class lookup_drafter : public candidate_tree_drafter<law::deterministic> {
public:
    static constexpr bool shape_depends_on_draws = false;

    /// Throws `invalid_input` for options that make no sense.
    explicit lookup_drafter(lookup_options options = {}) : options_(options) { options_.validate(); }

    void check(std::int32_t) const noexcept {}
    void reset() noexcept {}
    void read(std::span<token_id const>) noexcept {}
    [[nodiscard]] std::int32_t depth_limit(std::int32_t) const noexcept { return options_.length; }

    template <group G, draw_source Source>
    void grow(G const&, std::span<token_id const> text, std::int32_t depth, sampling_params const&, Source&,
              generation_metrics& m) {
        grow_by(text, m, [&] { detail::add_continuations(tree_, text, options_, depth); });
    }

    [[nodiscard]] verify::no_draft_rows rows() const noexcept { return {}; }
    void keep(std::int32_t, std::span<node_id const>) noexcept {}

protected:
    /// Grows the tree of a step, to which `add()` adds the nodes below the root.
    template <class Add>
    void grow_by(std::span<token_id const> text, generation_metrics& m, Add&& add) {
        detail::stopwatch const time(m.time.sample);
        tree_.start(text.back(), static_cast<std::int32_t>(text.size()) - 1);
        add();
        tree_.arrange();
        tree_.extend_mask();
        m.drafted += size() - 1;
    }

    lookup_options options_;
};

/// The candidates of another drafter, and the continuations found by look-up as further branches.
///
/// Law: `deterministic`, in the sense that no verifier may divide by the law of the draws: a node's children are first
/// those of the other drafter, by any law, then those from the text. `verify::naive` needs no more.
template <drafter Drafter>
class with_lookup : public candidate_tree_drafter<law::deterministic> {
public:
    static constexpr bool shape_depends_on_draws = Drafter::shape_depends_on_draws;

    /// Adds look-up with these options to the drafts of `other`. Throws `invalid_input` for options out of their range.
    explicit with_lookup(Drafter other, lookup_options options = {}) : other_(std::move(other)), options_(options) {
        options_.validate();
    }

    void check(std::int32_t vocabulary) const { other_.check(vocabulary); }
    /// Whether a model at that address is one of its own.
    [[nodiscard]] bool calls(void const* model) const noexcept requires detail::knows_its_models<Drafter> {
        return other_.calls(model);
    }
    void reset() { other_.reset(); }
    void read(std::span<token_id const> context) { other_.read(context); }
    void observe(std::span<float const> features,
                 std::span<std::int32_t const> positions) requires observes_features<Drafter> {
        other_.observe(features, positions);
    }
    [[nodiscard]] std::int32_t feature_size() const requires observes_features<Drafter> {
        return other_.feature_size();
    }
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::max(other_.depth_limit(length), options_.length);
    }

    template <group G, draw_source Source>
    void grow(G const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w, Source& source,
              generation_metrics& m) {
        auto const length = static_cast<std::int32_t>(text.size());
        other_.grow(g, text, std::max(0, std::min(depth, other_.depth_limit(length))), w, source, m);
        detail::stopwatch const time(m.time.mask);
        tree_.start(text.back(), length - 1);
        tree_view const others = other_.tree().tree;
        for (node_id v = 1; v < others.size(); ++v)
            tree_.add(others.parents[static_cast<std::size_t>(v)], others.tokens[static_cast<std::size_t>(v)]);
        detail::add_continuations(tree_, text, options_, depth);
        tree_.arrange();
        tree_.extend_mask();
        m.drafted += size() - others.size();
    }

    [[nodiscard]] verify::no_draft_rows rows() const noexcept { return {}; }

    void keep(std::int32_t context, std::span<node_id const> nodes) {
        set_others(nodes);
        other_.keep(context, others_);
    }

    /// The outcome of the other drafter's part of the tree: the accepted nodes until the first one from the text. The
    /// seconds are those of the whole step.
    void learn(step_outcome const& outcome) requires learns_from_steps<Drafter> {
        set_others(outcome.path);
        other_.learn({other_.tree().tree, others_, outcome.seconds});
    }

private:
    /// The first of these nodes that the other drafter has, by its numbers.
    void set_others(std::span<node_id const> nodes) {
        others_.clear();
        for (node_id const v : nodes) {
            node_id const before = tree_.node_at(v);
            if (before >= other_.size()) break;
            others_.push_back(before);
        }
    }

    Drafter other_;
    lookup_options options_;
    std::vector<node_id> others_;
};

}  // namespace MULTIDRAFT_NAMESPACE
