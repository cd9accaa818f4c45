// What the trees of a block drafter look like: fixed, chosen from all rows before the first draw, or node by node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/block_outlook.hpp"
#include "multidraft/decode/block_rows.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

// A shape is a class with `depends_on`, `depth()`, `start(..)` for a step whose rows were called, and either `shape()`,
// all of the tree, or for trees that depend on what is drawn `children(..)` of one node after the other and
// `drawn(..)`.

/// A shape known before the first draw whose nodes may have given children in place of drawn ones, all certain: after
/// `read(text)` and `start`, `given(node)` has their tokens, as many as the shape has children there, or is empty.
/// `reset()` begins another text.
template <class Shape>
concept gives_children = requires(Shape& shape, Shape const& fixed, std::span<token_id const> text, node_id node) {
    shape.reset();
    shape.read(text);
    { fixed.given(node) } -> std::convertible_to<std::span<token_id const>>;
};

/// Every tree has this shape.
class fixed_shape {
public:
    static constexpr shape_depends_on depends_on = shape_depends_on::nothing;

    /// `shape` for every tree.
    fixed_shape(topology shape) : shape_(std::move(shape)) {}  // NOLINT(google-explicit-constructor)

    /// Levels below the root.
    [[nodiscard]] std::int32_t depth() const noexcept { return shape_.max_depth(); }
    /// Nothing: the shape is known.
    template <class... Args>
    void start(Args const&...) const noexcept {}
    /// The shape.
    [[nodiscard]] topology const& shape() const noexcept { return shape_; }

private:
    topology shape_;
};

/// The tree of the most expected accepted tokens by all rows of the step (`draft::shape_of_rows`). Nothing is drawn
/// before, so it depends on nothing that is. With a term of the parent the row of a depth is taken after the likeliest
/// token of the depth above. At temperature 0 all children are certain, and the tree is that of [DDTree].
///
/// A model that `estimates_acceptance` ends its trees where it expects little; without that, `rates` hold everywhere,
/// or where there are none those of each row (`draft::rates_of_row`).
class best_first_shape {
public:
    static constexpr shape_depends_on depends_on = shape_depends_on::nothing;

    /// Throws `invalid_input` for a budget out of its range.
    explicit best_first_shape(draft::shape_budget const& budget, std::optional<draft::child_rates> const& rates = {})
        : budget_(budget), rates_(rates) {
        budget_.validate();
    }

    /// As deep as the model's block is long.
    [[nodiscard]] std::int32_t depth() const noexcept { return std::numeric_limits<std::int32_t>::max(); }

    /// Chooses the tree of a step from the rows of its first `depth` levels.
    template <class Model, class Sampler>
    void start(host_group const& g, Model& model, block_rows<Model>& rows, std::int32_t depth, token_id root,
               sampling_params const& w, Sampler const& sampler) {
        outlook_.read(g, model, rows, depth, root, w, w, budget_.children, rates_);
        shape_ = w.greedy() ? draft::shape_of_rows(draft::top_n{}, outlook_.depths(), budget_)
                            : draft::shape_of_rows(sampler, outlook_.depths(), budget_);
    }
    /// The tree of the step.
    [[nodiscard]] topology const& shape() const noexcept { return shape_; }

private:
    draft::shape_budget budget_;
    std::optional<draft::child_rates> rates_;
    block_outlook outlook_;
    topology shape_;
};

/// The number of children that pays at each node by itself: its reach, the chance that it is accepted, times the chance
/// that a child is, less `least` for each (`draft::best_children`). Reach and rows belong to the path, so the number
/// depends on the node's own context. No level has more than 1 / `least` nodes with children, whatever is drawn.
///
/// A model that `estimates_acceptance`, of a depth or after a token, ends its branches where it expects little. Without
/// `rates` those of each row hold (`draft::rates_of_row`).
class reach_shape {
public:
    static constexpr shape_depends_on depends_on = shape_depends_on::own_context;

    /// `least`: what a child adds to the accepted tokens at least, in (0, 1]; `children`: of a node at most, >= 1; as
    /// many `levels` at most, >= 0. Throws `invalid_input` for others.
    reach_shape(double least, index_t children, std::int32_t levels,
                std::optional<draft::child_rates> const& rates = {})
        : least_(least), children_(children), levels_(levels), rates_(rates) {
        if (!(least > 0 && least <= 1)) refuse("least", least, "what a child adds lies in (0, 1]");
        if (children < 1) refuse("children", children, "a node has one child or more");
        if (levels < 0) refuse("levels", levels, "a tree has 0 levels below the root or more");
    }

    /// Levels below the root at most.
    [[nodiscard]] std::int32_t depth() const noexcept { return levels_; }

    /// Begins a step: the root is reached.
    template <class... Args>
    void start(Args const&...) {
        reach_.assign(1, 1.0);
        read_.row = none;
    }

    /// How many children a node gets whose row was made. One pass over the row, or none where the node before had it or
    /// where no child can pay.
    template <class Model, class Sampler>
    [[nodiscard]] index_t children(host_group const& g, Model const& model, block_rows<Model> const& rows, index_t row,
                                   node_id node, token_id token, sampling_params const& w, Sampler const& sampler) {
        double const reach = reach_[static_cast<std::size_t>(node)] / least_;
        if (!(reach > 1)) return 0;  // no child can pay
        if (row != read_.row || static_cast<std::size_t>(children_) != read_.tokens.size()) {
            read_.tokens.assign(static_cast<std::size_t>(children_), none);
            rows.likeliest(g, row, w, read_.tokens, read_.likeliest);
            read_.row = row;
        }
        draft::child_rates rates = rates_.value_or(draft::child_rates{});
        if constexpr (estimates_acceptance_after<Model>)
            rates = rates.scaled_to(model.confidence(rows[row].depth, token));
        else if constexpr (estimates_acceptance<Model>)
            rates = rates.scaled_to(model.confidence(rows[row].depth));
        else if (!rates_ && !w.greedy())
            rates = draft::rates_of_row(read_.likeliest);
        draft::depth_outlook const outlook{read_.likeliest, rates, corrections_};
        auto const chosen = [&](auto const& by) {
            index_t const n = draft::best_children(reach, children_,
                                                   [&](index_t k) { return draft::chances_of(by, outlook, k).any(); });
            if (n > 0) chances_ = draft::chances_of(by, outlook, n);
            if (n > 0) usual_chances_ = draft::chances_of(by, read_.likeliest, n, rates);
            return n;
        };
        return w.greedy() ? chosen(draft::top_n{}) : chosen(sampler);
    }
    /// The children that were drawn then.
    void drawn(node_id node, node_range drawn) {
        for (index_t k = 0; k < drawn.count; ++k)
            reach_.push_back(reach_[static_cast<std::size_t>(node)] * chances_.of_child(read_.likeliest, k));
    }

protected:
    /// Sets the price of a child, the children of a node at most, and for the nodes that follow the corrections of the
    /// rates (`draft::depth_outlook`). None may depend on what is drawn in the step.
    void use(double least, index_t children, std::span<double const> corrections) noexcept {
        least_ = least;
        children_ = children;
        corrections_ = corrections;
    }
    /// The chance of child k of the last node with children by the rates alone.
    [[nodiscard]] double usual_chance(index_t k) const noexcept { return usual_chances_.of_child(read_.likeliest, k); }

private:
    double least_;
    index_t children_;
    std::int32_t levels_;
    std::optional<draft::child_rates> rates_;
    std::span<double const> corrections_;
    std::vector<double> reach_;  ///< of each node
    struct {
        index_t row = none;  ///< of the node before
        std::vector<token_id> tokens;
        std::vector<double> likeliest;
    } read_;
    draft::child_chances chances_;
    draft::child_chances usual_chances_;
};

}  // namespace MULTIDRAFT_NAMESPACE
