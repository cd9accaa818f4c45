// What a verifier says of itself: what it reads, which trees and laws it takes, how much memory it needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "multidraft/base/abi.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// What a verifier says of itself, by `static constexpr verifier_traits traits{.lossless = true, ..}`. All have a
/// default, and a misspelt one does not compile.
struct verifier_traits {
    /// The output has the target's law; else it counts as lossy.
    bool lossless = false;
    /// Without it the draft's rows are not read, and a decision at a node gets `no_draft_rows`.
    bool reads_draft = true;
    /// It reads a row for each child of a node (`child_row_source`), as they were drawn by several models.
    bool reads_rows_of_children = false;
    allowed_trees trees = allowed_trees::any;
    /// For laws with certain children.
    allowed_draws draws = allowed_draws::any;
    /// The most children that a node may have; 0: any number.
    index_t most_children = 0;
    /// See `lists_may_be_shared`; by default whether it decides node by node.
    std::optional<bool> lists_may_be_shared{};
    /// See `shape_may_depend_on`; by default what was drawn before the node's own children if it decides node by node,
    /// else nothing.
    std::optional<shape_depends_on> shape_may_depend_on{};
};

template <class Self, draft_law Law>
class node_by_node;

/// A verifier that walks down the tree and decides at each node by its own `decide`.
template <class V>
concept decides_by_node = std::is_base_of_v<node_by_node<V, typename V::law>, V>;

/// Whether the output of a verifier has the target's law.
template <class V>
inline constexpr bool is_lossless = V::traits.lossless;

/// Whether a verifier reads the draft's rows.
template <class V>
inline constexpr bool reads_draft = V::traits.reads_draft;

/// The trees that a verifier takes.
template <class V>
inline constexpr allowed_trees trees_of = V::traits.trees;

/// The laws that ranked verification is for: certain tokens and independent draws from the others.
template <draft_law Law>
inline constexpr bool is_ranked_law = std::is_same_v<Law, law::iid> || std::is_same_v<Law, law::stratified>;

/// Whether a verifier is lossless too where several nodes of a depth have the same list of children, or lists that
/// depend on one another (`law::shared_lists`).
///
/// - Verifiers that decide node by node: yes. They decide a node before they look at anything below, and never return,
///   so the list of each node that they reach is new to them.
/// - `ranked_block`: yes; it decides along one path, by draws of its own.
/// - All others: no. `traversal` learns about a list below the first child before it tries the second one;
///   `multi_path_block` and `nested_ranked_block` weigh several subtrees against each other.
///
/// A verifier may say otherwise in its `traits`.
template <class V>
inline constexpr bool lists_may_be_shared = V::traits.lists_may_be_shared.value_or(decides_by_node<V>);

/// Whether a verifier takes trees drawn by a law: its own, or its own with shared lists where it allows them.
template <class V, class Drawn>
concept takes_law = draft_law<Drawn> && std::is_same_v < law_of_list<Drawn>,
typename V::law > &&(lists_may_be_shared<V> || !has_shared_lists<Drawn>);

/// Fails to compile, with one message, where a verifier gets trees of a law that it does not take.
template <class V, draft_law Drawn>
MULTIDRAFT_HD constexpr void require_law() noexcept {
    constexpr bool same = std::is_same_v<law_of_list<Drawn>, typename V::law>;
    static_assert(same,
                  "multidraft: the tree was drawn by another law than this verifier is for: say "
                  "drawn_by<Sampler::law>(trees) for a batch and drafted<Sampler::law>{tree} for one tree, and "
                  "name that law in the verifier, such as verify::recursive_rejection<law::sequential>; "
                  "verify::naive<Law> fits every law");
    static_assert(!same || takes_law<V, Drawn>,
                  "multidraft: nodes of this tree share their list of children (law::shared_lists), and this verifier "
                  "is biased then: draw the children of each node afresh, or take verify::ranked_block or a verifier "
                  "that decides node by node, such as verify::recursive_rejection (verify/traits.hpp)");
}

/// A placeholder for the draft's rows where a verifier never reads them.
struct no_draft_rows {};

/// The draft rows that a verifier which does not read them accepts: those of nodes (`row_source`), those of children
/// (`child_row_source`), or `no_draft_rows`.
template <class Rows, class G>
concept draft_row_source = row_source<Rows, G> || child_row_source<Rows, G> || std::same_as<Rows, no_draft_rows>;

/// The draft rows that a verifier takes: those that it reads, or any where it reads none.
template <class V, class Rows, class G>
concept draft_rows_for = (!reads_draft<V> && draft_row_source<Rows, G>) ||
                         (V::traits.reads_rows_of_children ? child_row_source<Rows, G> : row_source<Rows, G>);

/// The alignment of scratch in bytes.
inline constexpr std::size_t scratch_alignment = 16;

/// A verifier that needs memory for a tree: it declares how many bytes a tree of that many nodes and levels takes, and
/// gets them as its last argument. The memory belongs to the caller, is visible to all lanes of the group, aligned to
/// `scratch_alignment`, 16 bytes, and may have any content. On the host too few bytes or a misaligned address are an
/// `invalid_input`, which states the requirement.
template <class V>
concept needs_scratch = requires(node_id nodes, std::int32_t depth) {
    { V::scratch_bytes(nodes, depth) } -> std::same_as<std::size_t>;
};

namespace detail {

/// The next address in scratch that is a multiple of 16.
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t whole_16(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace detail

/// Bytes that `verify_tree` needs for trees of up to `nodes` nodes (root included) and `depth` levels below the root: 0
/// for a verifier without scratch (`needs_scratch`). Nondecreasing in both arguments; a multiple of 16.
template <class V>
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
    if constexpr (needs_scratch<V>)
        return detail::whole_16(V::scratch_bytes(nodes, depth));
    else
        return 0;
}

/// Scratch that owns its memory, for hosts: it grows as needed and is reused by later calls.
class scratch_memory {
public:
    /// Scratch for `verify_tree` and trees of up to that many nodes and levels. Valid until the next call.
    template <class V>
    [[nodiscard]] span<std::byte> of(node_id nodes, std::int32_t depth) {
        return of(scratch_bytes<V>(nodes, depth));
    }

    /// Scratch of that many bytes. Valid until the next call.
    [[nodiscard]] span<std::byte> of(std::size_t bytes) {
        std::size_t const blocks = detail::whole_16(bytes) / sizeof(block);
        if (blocks_.size() < blocks) blocks_.resize(blocks);
        return {reinterpret_cast<std::byte*>(blocks_.data()), bytes};
    }

private:
    struct alignas(scratch_alignment) block {
        std::byte bytes[scratch_alignment];
    };
    std::vector<block> blocks_;
};

/// What the shape of a tree may depend on, at most, for a verifier to be lossless.
///
/// A verifier says it in its `traits`. Of those that do not, one that decides node by node may look at what was drawn
/// before the node's own children, and any other at nothing.
///
/// Where nodes share their lists (`law::shared_lists`), what was drawn for a cousin is the node's own list: then the
/// shape may depend on the node's own context at most, except for `naive`.
template <class V>
inline constexpr shape_depends_on shape_may_depend_on = V::traits.shape_may_depend_on.value_or(
    decides_by_node<V> ? shape_depends_on::earlier_draws : shape_depends_on::nothing);

/// Whether children that were drawn may be left out of the tree for any reason: where the shape may depend on
/// everything, and where the law is given up anyway.
template <class V>
inline constexpr bool children_may_be_left_out =
    shape_may_depend_on<V> == shape_depends_on::everything || !is_lossless<V>;

namespace detail {

/// The limit for trees of a law.
template <class V, draft_law Law>
constexpr shape_depends_on shape_limit_under() noexcept {
    constexpr shape_depends_on limit = shape_may_depend_on<V>;
    constexpr bool narrower = has_shared_lists<Law> && limit < shape_depends_on::everything;
    return narrower && limit > shape_depends_on::own_context ? shape_depends_on::own_context : limit;
}

}  // namespace detail

/// The tree of a `draft::tree_growth`, for `verify_tree` with this verifier. Does not compile where the verifier is for
/// another law, or where the shape depends on more than this verifier allows.
///
/// Throws `invalid_input` as `tree_growth::drafts` does.
template <class Verifier, class Growth>
[[nodiscard]] drafted<typename Growth::law> drafts_for(Verifier const& /*verifier*/, Growth const& growth) {
    require_law<Verifier, typename Growth::law>();
    static_assert(Growth::shape_depends_on <= detail::shape_limit_under<Verifier, typename Growth::law>(),
                  "multidraft: the shape of this tree depends on draws that this verifier does not allow it to depend "
                  "on: grow it with a smaller shape_depends_on, or take a verifier that allows more, such as "
                  "verify::recursive_rejection or verify::naive (verify/traits.hpp)");
    return growth.drafts_of_any_shape();
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
