// Where a verifier gets the rows of a tree, and the marks that say which are the target's and which the draft's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The part common to both concepts below: the number of rows and the size of the vocabulary.
template <class Rows>
concept counted_rows = requires(Rows const& rows) {
    { rows.rows() } -> std::convertible_to<index_t>;
    { rows.size() } -> std::convertible_to<index_t>;
};

}  // namespace detail

/// The rows of a tree as distributions, one for each node: what verifiers take from the target and from the draft.
/// `logit_rows` and `probability_rows` read them from an engine's memory; a user's type can model the concept too.
///
/// - `rows.rows()`: how many there are. The target has one for each node; the draft has one for each node with
///   children, indexed by the node. Further rows are not read.
/// - `rows.size()`: V, entries of a row.
/// - `rows(g, node)`: the distribution after a node (the root's comes after the context), for a group of type `G`. It
///   is returned by value: a view of the row with a few numbers. It may be called more than once, or not at all.
///
/// All lanes of a group call it together, with the same node. It does not change the rows, so that one source may serve
/// many threads. On a host it may throw `invalid_input` for a row that is not a distribution; where a group may not
/// throw, such a row has no mass or a NaN, and the verdict's token is `none`.
///
/// Optional: `rows.with_sums(g, node)` (`has_with_sums`), the row and the chunk sums of its weights where making the
/// row computes them anyway. A verifier that draws from the row then saves a pass.
template <class Rows, class G>
concept row_source = detail::counted_rows<Rows> && requires(Rows const& rows, G const& g, node_id node) {
    { rows(g, node) } -> distribution;
};

/// Rows that are normalised when read, and return the chunk sums of the row's weights with it: `rows.with_sums(g,
/// node)` has the members `row` and `sums`.
template <class Rows, class G>
concept has_with_sums = requires(Rows const& rows, G const& g, node_id node) {
    rows.with_sums(g, node).row;
    rows.with_sums(g, node).sums;
};

/// The rows that the children of nodes were drawn from, one for each child, by several draft models
/// (`law::independent`, `verify::multi_round`). `rows(g, node, k)` is the row of child k of a node; the rest is as in
/// `row_source`.
template <class Rows, class G>
concept child_row_source = detail::counted_rows<Rows> &&
    requires(Rows const& rows, G const& g, node_id node, index_t k) {
    { rows(g, node, k) } -> distribution;
};

/// The type of row that a source returns for a node.
template <class Rows, class G>
using row_of = std::decay_t<decltype(std::declval<Rows const&>()(std::declval<G const&>(), node_id{}))>;

namespace detail {

/// Archetypes of rows, for checking the concepts of verifiers.
namespace row_archetype {
struct row {
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return 0; }
    [[nodiscard]] MULTIDRAFT_HD float operator()(index_t) const noexcept { return 0.0F; }
    [[nodiscard]] MULTIDRAFT_HD float weight(index_t) const noexcept { return 0.0F; }
};
struct source {
    [[nodiscard]] MULTIDRAFT_HD index_t rows() const noexcept { return 0; }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return 0; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD row operator()(G const&, node_id) const noexcept {
        return {};
    }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD row operator()(G const&, node_id, index_t) const noexcept {
        return {};
    }
};
}  // namespace row_archetype

}  // namespace detail

/// Marks rows as the target's: `target_rows(p)`, with the rows of one tree (`row_source`) or of a batch (`row_batch`).
/// Passing the draft's rows in their place does not compile.
///
/// A named source of the rows of a tree is referred to, and must outlive this object; a temporary one and the rows of a
/// batch are held by value.
template <class Rows>
struct target_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit target_rows(Rows const& of_target) noexcept : rows(of_target) {}
};

/// Marks rows as the draft's, as `target_rows` does for the target's: `draft_rows(q)`, or
/// `draft_rows(verify::no_draft_rows{})` for verifiers that read none.
template <class Rows>
struct draft_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit draft_rows(Rows const& of_draft) noexcept : rows(of_draft) {}
};

template <detail::counted_rows Rows>
MULTIDRAFT_GUIDE target_rows(Rows const&)->target_rows<Rows const&>;
template <detail::counted_rows Rows>
requires(!std::is_reference_v<Rows>) target_rows(Rows&&)
->target_rows<Rows>;

template <detail::counted_rows Rows>
MULTIDRAFT_GUIDE draft_rows(Rows const&)->draft_rows<Rows const&>;
template <detail::counted_rows Rows>
requires(!std::is_reference_v<Rows>) draft_rows(Rows&&)
->draft_rows<Rows>;

/// The rows of several draft models (`child_row_source`): child k of a node was drawn from model k modulo their number.
/// `Rows` is a `row_source`.
template <class Rows>
class rows_of_models {
public:
    /// One source for each model, one at least, all with one vocabulary; they belong to the caller.
    explicit rows_of_models(span<Rows const> models) noexcept : models_(models) {}

    /// How many nodes have a row of every model.
    [[nodiscard]] index_t rows() const {
        index_t fewest = models_[0].rows();
        for (Rows const& model : models_) fewest = model.rows() < fewest ? model.rows() : fewest;
        return fewest;
    }
    [[nodiscard]] index_t size() const { return models_[0].size(); }
    /// The row that child k of a node was drawn from.
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t k) const {
        return models_[static_cast<std::size_t>(k) % models_.size()](g, node);
    }
    /// The row of the first model, for verifiers that read none.
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node) const {
        return (*this)(g, node, 0);
    }

private:
    span<Rows const> models_;
};

/// Rows by an index for each node: node v has row `row_of_node[v]` of `rows`, or `none` if it has no row, as a leaf has
/// no row of the draft. Wraps any rows (`logit_rows`, `prepared_rows`, ..); the index array belongs to the caller.
///
/// Reading the row of a node without one is an `invalid_input` on the host.
template <class Rows>
class indexed_rows {
public:
    /// Throws `invalid_input` on the host for an index outside the rows. O(nodes).
    MULTIDRAFT_HD indexed_rows(Rows rows, span<index_t const> row_of_node)
        : rows_(std::move(rows)), row_of_node_(row_of_node) {
#if !MULTIDRAFT_ON_DEVICE
        for (std::size_t v = 0; v < row_of_node.size(); ++v)
            if (row_of_node[v] < none || row_of_node[v] >= rows_.rows())
                refuse("row_of_node", static_cast<std::int64_t>(v), row_of_node[v],
                       "there are " + std::to_string(rows_.rows()) + " rows; -1: none");
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept {
        return static_cast<index_t>(row_of_node_.size());
    }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return rows_(g, row_of<G>(node));
    }
    /// The row with the chunk sums of its weights, if the wrapped rows have them.
    template <group G>
    requires requires(Rows const& rows, G const& g) { rows.with_sums(g, node_id{}); }
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return rows_.with_sums(g, row_of<G>(node));
    }

private:
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD index_t row_of(node_id node) const {
        index_t const row = row_of_node_[node];
#if !MULTIDRAFT_ON_DEVICE
        if constexpr (G::throws)
            if (row == none) refuse("row_of_node", node, row, "the row of this node is read, and it has none");
#endif
        return row;
    }

    Rows rows_;
    span<index_t const> row_of_node_;
};

}  // namespace MULTIDRAFT_NAMESPACE
