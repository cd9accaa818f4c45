// Batches as launches take them: ragged trees, the rows of their nodes, and the addresses of their draws, in views.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/distribution/row_view.hpp"
#include "multidraft/distribution/sampling_params.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/address.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"
#include "multidraft/verify/node_by_node.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// The trees of R requests, one after another in two arrays of N nodes.
///
/// The nodes of request r are [offsets(r), offsets(r + 1)); their parents count from the tree's own root, as in
/// `tree_view`. Launches do not look whether the trees are trees: `check_trees` does.
template <class Memory>
struct tree_batch {
    Kokkos::View<std::int64_t const*, Memory> offsets;  ///< R + 1 entries, from 0, increasing
    Kokkos::View<node_id const*, Memory> parents;       ///< N entries
    Kokkos::View<token_id const*, Memory> tokens;       ///< N entries; a launch that reads no tokens takes none
    /// N entries: of each node how many of its first children are certain (see `children_batch`); none for laws without
    /// certain children.
    Kokkos::View<index_t const*, Memory> certain;

    // These structs have constructors because g++ 12 does not construct a view that an aggregate is given as `{}`.
    tree_batch() = default;
    /// The views are shared, not copied; `certain_children` is left out for laws without certain children.
    tree_batch(decltype(offsets) offsets_of_trees, decltype(parents) all_parents, decltype(tokens) all_tokens,
               decltype(certain) certain_children = {})
        : offsets(offsets_of_trees), parents(all_parents), tokens(all_tokens), certain(certain_children) {}

    /// How many trees there are.
    [[nodiscard]] std::size_t requests() const { return offsets.extent(0) > 0 ? offsets.extent(0) - 1 : 0; }

    /// Where the nodes of a request begin.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t first(int request) const { return offsets(request); }
    [[nodiscard]] MULTIDRAFT_HD node_id size(int request) const {
        return static_cast<node_id>(offsets(request + 1) - offsets(request));
    }
    /// The parents of a request's nodes, counted from its own root.
    [[nodiscard]] MULTIDRAFT_HD span<node_id const> parents_of(int request) const {
        return {parents.data() + first(request), static_cast<std::size_t>(size(request))};
    }
    /// The tree of a request.
    [[nodiscard]] MULTIDRAFT_HD tree_view operator()(int request) const {
        return {parents_of(request), {tokens.data() + first(request), static_cast<std::size_t>(size(request))}};
    }
    /// How many children of each node of a request are certain; empty where the law has none.
    [[nodiscard]] MULTIDRAFT_HD span<index_t const> certain_of(int request) const {
        if (certain.extent(0) == 0) return {};
        return {certain.data() + first(request), static_cast<std::size_t>(size(request))};
    }
};

/// The trees of R requests with the law that all of them were drawn by: what `verify_trees` and `check_trees` take. The
/// law is part of the type, so that a verifier of another law does not compile.
template <draft_law Law, class Memory>
struct drafted_batch {
    using law = Law;
    tree_batch<Memory> trees;
};

/// Says by which law the trees were drawn: that of the sampler.
template <draft_law Law, class Memory>
[[nodiscard]] drafted_batch<Law, Memory> drawn_by(tree_batch<Memory> const& trees) {
    return {trees};
}

/// The addresses of the draws of R requests: see `addressed_uniforms`.
template <class Memory>
struct draw_batch {
    Kokkos::View<std::uint64_t const*, Memory> seeds;     ///< one a request
    Kokkos::View<std::int32_t const*, Memory> positions;  ///< of each request's root in its text
    Kokkos::View<std::uint32_t const*, Memory> requests;  ///< tells equal seeds apart; no entries: 0 for all

    draw_batch() = default;
    /// The views are shared, not copied; without `numbers` every request has the number 0.
    draw_batch(decltype(seeds) all_seeds, decltype(positions) all_positions, decltype(requests) numbers = {})
        : seeds(all_seeds), positions(all_positions), requests(numbers) {}

    /// Where the draws of a request come from.
    [[nodiscard]] MULTIDRAFT_HD addressed_source source(int request) const {
        return addressed_source{addressed_uniforms(seeds(request), requests.extent(0) > 0 ? requests(request) : 0U)};
    }
};

namespace detail {

/// The entries of a row: adjacent where the view's type says so, else the view's second stride apart.
template <class View>
using layout_of =
    std::conditional_t<std::is_same_v<typename View::array_layout, Kokkos::LayoutRight>, contiguous, strided>;

template <class View>
using entry_of = std::remove_const_t<typename View::value_type>;

template <class View>
[[nodiscard]] MULTIDRAFT_HD rows_view<entry_of<View>, layout_of<View>> rows_from(View const& rows, std::int64_t first,
                                                                                 index_t count) {
    layout_of<View> layout;
    if constexpr (std::is_same_v<layout_of<View>, strided>) layout.step = static_cast<std::int64_t>(rows.stride(1));
    auto const stride = static_cast<std::int64_t>(rows.stride(0));
    return {rows.data() + first * stride, count, static_cast<index_t>(rows.extent(1)), stride, layout};
}

/// The rows of request r begin with its nodes, or where `firsts` says.
template <class Firsts>
[[nodiscard]] MULTIDRAFT_HD std::int64_t first_row(Firsts const& firsts, int request, std::int64_t first_node) {
    return firsts.extent(0) > 0 ? firsts(request) : first_node;
}

template <class View>
void check_vocabulary(View const& rows, std::string const& name) {
    static_assert(View::rank == 2, "multidraft: rows are a view of rank 2: a row, a token");
    validate_row_size(rows.extent(1), name.c_str(), ".extent(1)");
}

template <class View>
void check_extent(View const& view, std::string const& name, std::size_t wanted, std::string const& why) {
    if (view.extent(0) != wanted)
        refuse(name + ".extent(0)", view.extent(0), why + ": " + std::to_string(wanted) + " are wanted");
}

}  // namespace detail

/// The rows of a batch as logits, with sampling parameters a request. `View` has rank 2: a row, a token; its value type
/// is float, double, `half`, `bfloat16` or an engine's own with a `to_real`. LayoutRight rows are read as adjacent
/// entries, other layouts with the view's strides.
///
/// Row i belongs to node i of the batch; or, with `firsts`, row firsts(r) + v to node v of request r, so that a draft
/// need not have rows for leaves. The normaliser of a row is made where the row is first read.
template <class View>
struct logit_batch {
    using memory = typename View::memory_space;
    using rows_type = logit_rows<detail::entry_of<View>, detail::layout_of<View>>;

    View rows;
    Kokkos::View<sampling_params const*, memory> sampling;  ///< one a request, valid
    Kokkos::View<std::int64_t const*, memory> firsts;       ///< one a request; no entries: the rows are the nodes'

    logit_batch() = default;
    /// The views are shared, not copied; without `first_rows` row i belongs to node i of the batch.
    explicit logit_batch(View all_rows, decltype(sampling) all_sampling, decltype(firsts) first_rows = {})
        : rows(all_rows), sampling(all_sampling), firsts(first_rows) {}

    /// The rows of a request, by its nodes, the first of which is node `first_node` of the batch.
    [[nodiscard]] MULTIDRAFT_HD rows_type operator()(int request, std::int64_t first_node, node_id nodes) const {
        return {detail::rows_from(rows, detail::first_row(firsts, request, first_node), nodes), sampling(request)};
    }

    void check(std::string const& name, std::size_t requests, std::size_t nodes) const {
        detail::check_vocabulary(rows, name + ".rows");
        detail::check_extent(sampling, name + ".sampling", requests, "there are sampling parameters for every request");
        if (firsts.extent(0) > 0)
            detail::check_extent(firsts, name + ".firsts", requests, "there is one first row a request");
        else
            detail::check_extent(rows, name + ".rows", nodes, "there is one row a node");
    }
    /// Entries of a row.
    [[nodiscard]] std::size_t vocabulary() const { return rows.extent(1); }
};

/// The same for rows that hold probabilities already.
template <class View>
struct probability_batch {
    using memory = typename View::memory_space;
    using rows_type = probability_rows<detail::entry_of<View>, detail::layout_of<View>>;

    View rows;
    Kokkos::View<std::int64_t const*, memory> firsts;  ///< one a request; no entries: the rows are the nodes'

    probability_batch() = default;
    /// The views are shared, not copied; without `first_rows` row i belongs to node i of the batch.
    explicit probability_batch(View all_rows, decltype(firsts) first_rows = {}) : rows(all_rows), firsts(first_rows) {}

    /// The rows of a request, by its nodes, the first of which is node `first_node` of the batch.
    [[nodiscard]] MULTIDRAFT_HD rows_type operator()(int request, std::int64_t first_node, node_id nodes) const {
        return rows_type{detail::rows_from(rows, detail::first_row(firsts, request, first_node), nodes)};
    }

    void check(std::string const& name, std::size_t requests, std::size_t nodes) const {
        detail::check_vocabulary(rows, name + ".rows");
        if (firsts.extent(0) > 0)
            detail::check_extent(firsts, name + ".firsts", requests, "there is one first row a request");
        else
            detail::check_extent(rows, name + ".rows", nodes, "there is one row a node");
    }
    /// Entries of a row.
    [[nodiscard]] std::size_t vocabulary() const { return rows.extent(1); }
};

/// Stands for the draft's rows where the verifier never reads them (`verify::naive`).
struct no_draft_rows {
    /// What verifiers take where there are no rows.
    [[nodiscard]] MULTIDRAFT_HD verify::no_draft_rows operator()(int, std::int64_t, node_id) const noexcept {
        return {};
    }
};

/// Looks whether the trees of a batch are trees: `faults(r)` becomes `none`, or the first node of request r that is
/// wrong: a parent not before its child, parents that decrease, a second root, a token outside the vocabulary (but the
/// last children of a node may be `none`), two children alike where the law draws different tokens, certain children
/// that cannot be, and 0 for offsets that are none. One thread a request, O(nodes), or O(nodes x children) where the
/// law draws different tokens. Enqueued on `space`; nothing is waited for.
///
/// Throws `invalid_input` for extents that do not fit.
template <class Space, draft_law Law, class Memory>
void check_trees(Space const& space, drafted_batch<Law, Memory> const& drafts, index_t vocabulary,
                 Kokkos::View<node_id*, Memory> faults) {
    tree_batch<Memory> const trees = drafts.trees;
    detail::check_extent(trees.tokens, "trees.tokens", trees.parents.extent(0), "there is one token a node");
    if constexpr (counts_certain<Law>)
        detail::check_extent(trees.certain, "trees.certain", trees.parents.extent(0),
                             "a tree of this law says of each node how many of its children are certain");
    detail::check_extent(faults, "faults", trees.requests(), "there is one entry a request");
    auto const total = static_cast<std::int64_t>(trees.parents.extent(0));
    Kokkos::parallel_for(
        "multidraft::check_trees",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0,
                                                                    static_cast<std::int64_t>(trees.requests())),
        KOKKOS_LAMBDA(std::int64_t i) {
            auto const r = static_cast<int>(i);
            std::int64_t const first = trees.offsets(r);
            std::int64_t const end = trees.offsets(r + 1);
            node_id fault = none;
            if (first < 0 || end <= first || end > total || end - first > max_nodes ||
                trees.parents(static_cast<std::size_t>(first)) != none) {
                fault = 0;
            } else {
                tree_view const tree = trees(r);
                for (std::size_t v = 1; v < tree.parents.size() && fault == none; ++v) {
                    node_id const up = tree.parents[v];
                    bool const ordered = up >= 0 && up < static_cast<node_id>(v) && up >= tree.parents[v - 1];
                    token_id const token = tree.tokens[v];
                    bool const after_none = v > 1 && up == tree.parents[v - 1] && tree.tokens[v - 1] == none;
                    bool const known = token == none || (token >= 0 && token < vocabulary && !after_none);
                    auto const node = static_cast<node_id>(v);
                    bool const again = tokens_differ<Law> && verify::is_drawn_again(tree, node);
                    if (!ordered || !known || again) fault = node;
                }
                auto const certain = counts_certain<Law> ? trees.certain_of(r) : span<index_t const>{};
                for (std::size_t v = 0; v < certain.size() && fault == none; ++v) {
                    auto const node = static_cast<node_id>(v);
                    node_range children = tree.children(node);
                    while (children.count > 0 && tree.tokens[static_cast<std::size_t>(children.end() - 1)] == none)
                        --children.count;
                    auto const tokens = tree.tokens.subspan(static_cast<std::size_t>(children.first),
                                                            static_cast<std::size_t>(children.count));
                    if (!verify::is_certain_count(tokens, certain[v]) && verify::is_present(tree, node)) fault = node;
                }
            }
            faults(r) = fault;
        });
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
