// One step of speculative decoding over two small models, with draws from any source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A node before its children are drawn. What a rule may use without bias depends on the verifier
/// (`verify::shape_may_depend_on`).
struct undrawn_node {
    tree_view tree;  ///< what was drawn so far: all nodes of this level, and children of those before this one
    node_id node = 0;
    std::int32_t depth = 0;         ///< of the node
    std::span<double const> draft;  ///< q there

    /// The tokens from the root's child down to the node: with q along them its own context.
    [[nodiscard]] std::vector<token_id> path() const {
        std::vector<token_id> tokens;
        for (node_id v = node; v > 0; v = tree.parent(v)) tokens.push_back(tree.tokens[v]);
        std::reverse(tokens.begin(), tokens.end());
        return tokens;
    }
};

/// The number of children of each node, at most as many as in the proof's shape; without a function the shape itself.
struct shape_rule {
    std::string name;
    std::function<index_t(undrawn_node const&)> children;

    /// The number for a node with `most` children in the shape.
    template <class Row>
    [[nodiscard]] index_t operator()(tree_view tree, node_id node, std::int32_t depth, Row const& q,
                                     index_t most) const {
        if (!children) return most;
        std::vector<double> const row(q.begin(), q.end());
        return std::clamp(children({tree, node, depth, row}), 0, most);
    }
};

/// The host group under the conditions of a launch: nothing is thrown, and trees have slots for children that could not
/// be drawn.
using silent_group = multidraft::detail::host_batch_group;

namespace detail {

/// A tree grown level by level over two small models, and the rows of its nodes.
///
/// With `silent_group` every node has all its children, as in a launch: the token of those that could not be drawn is
/// `support_ended`, and below them there are arbitrary tokens and rows of NaN.
template <sampler Sampler, class Real = double, group Group = host_group>
class small_tree {
public:
    /// As for `small_step`.
    small_tree(Sampler sampler, basic_model_pair<Real> const& models, shape_rule rule, bool shared_lists)
        : sampler_(sampler),
          rule_(std::move(rule)),
          shared_lists_(shared_lists),
          models_(models),
          target_(models.target.vocabulary()),
          draft_(models.draft.vocabulary()),
          nothing_(static_cast<std::size_t>(models.target.vocabulary()), std::numeric_limits<Real>::quiet_NaN()) {}

    /// Grows a tree with that many children at each depth, below the last token of the context `root`, at `position`.
    template <class Source>
    void grow(shape const& children, std::size_t root, std::int32_t position, Source& source) {
        tree_.start(0, position);
        contexts_.assign(1, root);
        target_.clear();
        draft_.clear();
        target_.push_back(models_.target[root]);
        node_id begin = 0;
        std::size_t of_depth = root;  // the context of the row that nodes of this depth share
        drawn_children drawn;
        Group const g;
        for (std::size_t depth = 0; depth < children.size(); ++depth) {
            int const most = children[depth];
            node_id const end = tree_.size();
            bool is_drawn = false;  // the list of this depth, where it is shared
            for (node_id v = begin; v < end; ++v) {
                std::size_t const context = contexts_[static_cast<std::size_t>(v)];
                if (context == nowhere) {
                    draft_.push_back(nothing_);
                    for (int k = 0; k < most; ++k) add(v, 0, nowhere);
                    tree_.set_certain(v, most);
                    continue;
                }
                index_t const wanted =
                    rule_(tree_.added().tree(), v, static_cast<std::int32_t>(depth), models_.draft[context], most);
                draft_.push_back(models_.draft[shared_lists_ ? of_depth : context]);
                if (wanted == 0) continue;
                if (!shared_lists_ || !is_drawn) {
                    auto const q = draft_(g, v);
                    auto sums = g.sum_chunks(q.size(), weight_of{q});
                    drawn_.assign(static_cast<std::size_t>(wanted), none);
                    drawn = sampler_(g, q, sums, source, draw_site{position, v}, span<token_id>(drawn_));
                    is_drawn = true;
                }
                for (index_t k = 0; k < drawn.count; ++k) {
                    token_id const x = drawn_[static_cast<std::size_t>(k)];
                    add(v, x, models_.target.after(context, x));
                }
                tree_.set_certain(v, drawn.certain);
                if constexpr (!Group::throws)
                    for (index_t k = drawn.count; k < wanted; ++k) add(v, support_ended, nowhere);
            }
            begin = end;
            of_depth = models_.draft.after(of_depth, 0);
        }
    }

    /// The tree with its law, and for each node the rows of both models.
    [[nodiscard]] drafted<typename Sampler::law> drafts() const {
        return make_drafted<typename Sampler::law>(tree_.added().tree(), tree_.added().certain);
    }
    /// The target's row of each node.
    [[nodiscard]] basic_rows_of_nodes<Real> const& target() const noexcept { return target_; }
    /// The draft's row of each node.
    [[nodiscard]] basic_rows_of_nodes<Real> const& draft() const noexcept { return draft_; }

private:
    static constexpr auto nowhere = ~std::size_t{0};  ///< the context of a child that could not be drawn

    void add(node_id parent, token_id token, std::size_t context) {
        tree_.add(parent, token);
        contexts_.push_back(context);
        target_.push_back(context == nowhere ? nothing_ : models_.target[context]);
    }

    Sampler sampler_;
    shape_rule rule_;
    bool shared_lists_;
    basic_model_pair<Real> const& models_;
    basic_rows_of_nodes<Real> target_;
    basic_rows_of_nodes<Real> draft_;
    std::vector<Real> nothing_;
    tree_builder tree_;  ///< in level order as its nodes are added
    std::vector<std::size_t> contexts_;
    std::vector<token_id> drawn_;
};

}  // namespace detail

/// One step of speculative decoding over two small models: grow a tree (`small_tree`), verify it, emit.
///
/// Throws `std::logic_error` for an invalid verdict: a path that does not follow the tree, more written of it than
/// was accepted, no token.
template <sampler Sampler, verify::verifier Verifier, class Real = double, group Group = host_group>
class small_step {
public:
    /// The models belong to the caller and must outlive this object. With a rule nodes may have fewer children than in
    /// the shape. With shared lists all nodes of a depth have the list that was drawn for the first of them, from one
    /// row: the draft's after a text of that many tokens 0 (`law::shared_lists`).
    small_step(Sampler sampler, Verifier verifier, basic_model_pair<Real> const& models, shape_rule rule = {},
               bool shared_lists = false)
        : verifier_(verifier), tree_(sampler, models, std::move(rule), shared_lists) {}

    /// Appends the emitted tokens to `out` and returns how many of them were drafted. The root is the last token of the
    /// context `root`, at `position`.
    template <class Source>
    std::int32_t operator()(shape const& children, std::size_t root, std::int32_t position, Source& source, text& out) {
        tree_.grow(children, root, position, source);
        auto const drafts = tree_.drafts();
        path_.assign(children.size(), unwritten);
        // Arbitrary content: NaN and negative numbers.
        scratch_.assign(verify::scratch_bytes<Verifier>(drafts.tree.size(), static_cast<int>(children.size())),
                        std::byte{0xff});
        verdict const v =
            verify::verify_tree(verifier_, Group(), drafts, target_rows(tree_.target()), draft_rows(tree_.draft()),
                                source, position, span<node_id>(path_), span<std::byte>(scratch_));
        node_id node = 0;
        for (std::size_t k = 0; k < path_.size(); ++k) {
            if (k >= static_cast<std::size_t>(v.accepted)) {
                if (path_[k] != unwritten) throw std::logic_error("the path was written beyond the accepted nodes");
                continue;
            }
            if (path_[k] <= 0 || path_[k] >= drafts.tree.size() || drafts.tree.parents[path_[k]] != node)
                throw std::logic_error("the path does not follow the tree");
            node = path_[k];
            out.push_back(drafts.tree.tokens[node]);
        }
        if (v.next < 0 || v.next >= tree_.target().size()) throw std::logic_error("no token was emitted");
        out.push_back(v.next);
        return v.accepted;
    }

private:
    static constexpr node_id unwritten = -7;

    Verifier verifier_;
    detail::small_tree<Sampler, Real, Group> tree_;
    std::vector<node_id> path_;
    std::vector<std::byte> scratch_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
