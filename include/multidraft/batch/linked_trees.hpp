// The trees of a batch in engines' formats, by links or by EAGLE's lists: into level order and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/links.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The arrays for the trees in level order. Each request keeps its number of nodes, so `offsets` stay valid.
struct built_trees {
    node_id* parents = nullptr;
    token_id* tokens = nullptr;      ///< may be null for `cuda::build_trees`
    node_id* order = nullptr;        ///< the node's number in the input; may be null
    std::int32_t* depths = nullptr;  ///< levels below the root; may be null
    std::int32_t* faults = nullptr;  ///< per request, the number of nodes not connected to the root; may be null
    index_t* certain = nullptr;      ///< certain children of each node, if the input has them; may be null
    /// `offsets[b] + order`: each node's row in the order of the input, as `row_of` for rows in that order; of a slot
    /// outside the tree the root's. May be null.
    std::int64_t* rows = nullptr;
};

/// The links of all nodes of a batch (see `write_links`), counted from each request's own root, node 0, and their
/// tokens. Node v of request b is entry `offsets[b] + v`. `Id`: `std::int64_t` (SGLang's `retrive_next_token`,
/// `retrive_next_sibling` and `candidates`) or `std::int32_t`.
template <std::integral Id>
struct link_batch {
    Id const* first_child = nullptr;
    Id const* next_sibling = nullptr;
    Id const* tokens = nullptr;  ///< `support_ended`, `padding`: no child (tree/absent_tokens.hpp)
};

/// The lists of all trees of a batch (see `eagle_lists`): request b has `list_size` parents from `parents + b *
/// list_size`, and one selected candidate for each node but the root from `selected + offsets[b] - b`.
template <std::integral Id>
struct eagle_batch {
    Id const* parents = nullptr;
    std::int64_t list_size = 0;
    Id const* selected = nullptr;
    std::int32_t beams = 1;

    /// The lists of the tree of request b.
    [[nodiscard]] MULTIDRAFT_HD eagle_lists<Id> operator()(tree_batch const& trees, std::int32_t b) const noexcept {
        auto const nodes = static_cast<std::size_t>(trees.size(b));
        return {{parents + b * list_size, static_cast<std::size_t>(list_size)},
                {selected + trees.offsets[b] - b, nodes < 1 ? 0 : nodes - 1},
                beams};
    }
};

namespace detail {

/// Builds the tree of one request.
template <class Id>
struct build_from_links {
    tree_batch trees;
    link_batch<Id> links;
    built_trees out;

    MULTIDRAFT_HD void operator()(std::int64_t request) const noexcept {
        auto const b = static_cast<std::int32_t>(request);
        std::int64_t const first = trees.offsets[b];
        auto const nodes = static_cast<std::size_t>(trees.size(b));
        span<node_id> const parents(out.parents + first, nodes);
        span<node_id> const order(out.order + first, nodes);
        node_id const linked = write_level_order<Id>({links.first_child + first, nodes},
                                                     {links.next_sibling + first, nodes}, order, parents);
        // Nodes outside the tree go to the end.
        for (node_id k = linked; k < trees.size(b); ++k) {
            parents[k] = k > 1 ? parents[k - 1] : 0;
            order[k] = none;
        }
        for (node_id k = 0; k < trees.size(b); ++k) {
            std::int64_t const from = first + (k < linked ? order[k] : 0);
            out.tokens[first + k] = k < linked ? narrow_token(links.tokens[from]) : padding;
            if (out.depths != nullptr) out.depths[first + k] = k == 0 ? 0 : out.depths[first + parents[k]] + 1;
            if (out.certain != nullptr)
                out.certain[first + k] = trees.certain != nullptr && k < linked ? trees.certain[from] : 0;
            if (out.rows != nullptr) out.rows[first + k] = from;
        }
        if (out.faults != nullptr) out.faults[b] = trees.size(b) - linked;
    }
};

template <class Id>
struct write_links_of_request {
    tree_batch trees;
    Id* first_child;
    Id* next_sibling;

    MULTIDRAFT_HD void operator()(std::int64_t request) const noexcept {
        auto const b = static_cast<std::int32_t>(request);
        std::int64_t const first = trees.offsets[b];
        auto const nodes = static_cast<std::size_t>(trees.size(b));
        write_links<Id>(trees.parents_of(b), {first_child + first, nodes}, {next_sibling + first, nodes});
    }
};

template <class Id>
struct write_eagle_parent {
    tree_batch trees;
    eagle_batch<Id> lists;
    node_id* parents;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = trees.request_of(k);
        parents[k] = lists(trees, b)(static_cast<node_id>(k - trees.offsets[b]));
    }
};

}  // namespace detail

/// Brings trees given by links into level order, one request per thread. `trees` has `requests`, `nodes` and `offsets`,
/// and `certain` if the law has certain children. The children of a node keep the order of their links, which is that
/// of the draws. `out.parents`, `out.tokens` and `out.order` are required. `verify_batch` takes a `tree_batch` of
/// these, and `out.rows` as `row_of` for rows in the engine's order.
///
/// Nodes without a link to them go to the end as `padding`: no verifier considers them. `out.faults` is their number.
/// They are unused slots, not nodes that were drawn and then left out (tree/absent_tokens.hpp).
/// An id outside the range of tokens becomes `none`.
///
/// On a host throws `invalid_input`, before anything is written, for missing arrays and links that do not form a tree
/// (see `validate_links`), with the node's index in the batch; this allocates. In a launch nothing is checked: invalid
/// links give a valid tree with at most as many nodes. O(N) per request.
template <execution_policy P, std::integral Id>
auto build_trees(P const& policy, tree_batch const& trees, link_batch<Id> const& links, built_trees const& out) {
    auto const refuse_bad_links = [&] {
        detail::refuse_bad_counts(trees);
        if (trees.requests == 0) return;
        detail::refuse_null(links.first_child, "links.first_child");
        detail::refuse_null(links.next_sibling, "links.next_sibling");
        detail::refuse_null(links.tokens, "links.tokens");
        detail::refuse_null(out.parents, "out.parents");
        detail::refuse_null(out.tokens, "out.tokens");
        detail::refuse_null(out.order, "out.order");
        if constexpr (host_policy<P>) detail::refuse_bad_offsets(trees);
        for (std::int32_t b = 0; host_policy<P> && b < trees.requests; ++b) {
            std::int64_t const first = trees.offsets[b];
            auto const nodes = static_cast<std::size_t>(trees.size(b));
            try {
                validate_links<Id>({links.first_child + first, nodes}, {links.next_sibling + first, nodes});
            } catch (invalid_input const& e) {
                refuse_member("links", e, ", request " + std::to_string(trees.first_request + b), first);
            }
        }
    };
    return detail::checked(policy, refuse_bad_links, [&] {
        return for_each(policy, trees.requests, detail::build_from_links<Id>{trees, links, out});
    });
}

/// Writes the links of all trees of a batch, one request per thread (see `write_links`). Nodes may be in any order.
/// Both arrays have one entry for each node of the batch. `trees.tokens` is not read. O(N) per request.
template <execution_policy P, std::integral Id>
auto write_links(P const& policy, tree_batch const& trees, Id* first_child, Id* next_sibling) {
    auto const refuse_bad_arrays = [&] {
        detail::refuse_bad_trees(trees, false);
        if (trees.requests == 0) return;
        detail::refuse_null(first_child, "first_child");
        detail::refuse_null(next_sibling, "next_sibling");
        if constexpr (host_policy<P>) detail::refuse_bad_offsets(trees);
    };
    return detail::checked(policy, refuse_bad_arrays, [&] {
        return for_each(policy, trees.requests, detail::write_links_of_request<Id>{trees, first_child, next_sibling});
    });
}

/// Writes the parents of all nodes of trees given by EAGLE's lists, one node per thread, in the engine's order: parents
/// come before their children, but the nodes are not in level order. Masks, positions and `write_links` take these
/// parents; verifiers take the trees that `build_trees` makes from the links. `trees` has `requests`, `nodes` and
/// `offsets`.
///
/// A node whose parent was not selected gets the parent -1 and no link. O(N) per node.
template <execution_policy P, std::integral Id>
auto write_eagle_parents(P const& policy, tree_batch const& trees, eagle_batch<Id> const& lists, node_id* parents) {
    auto const refuse_bad_lists = [&] {
        detail::refuse_bad_counts(trees);
        if (trees.requests == 0) return;
        detail::refuse_null(lists.parents, "lists.parents");
        detail::refuse_null(lists.selected, "lists.selected");
        detail::refuse_null(parents, "parents");
        if (lists.beams < 1) refuse("lists.beams", lists.beams, "a level has 1 beam or more");
        if (lists.list_size < 1) refuse("lists.list_size", lists.list_size, "the first beam is the root");
    };
    return detail::checked(policy, refuse_bad_lists, [&] {
        return for_each(policy, trees.nodes, detail::write_eagle_parent<Id>{trees, lists, parents});
    });
}

}  // namespace MULTIDRAFT_NAMESPACE
