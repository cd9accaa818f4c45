// Draft laws: how the children of one node were drawn, as types, and trees that carry theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What is known of a law: its name, and whether the following holds.
struct law_traits {
    std::string_view name;        ///< not empty
    bool counts_certain = false;  ///< some of a node's children may be certain, not drawn; its trees carry how many
    bool tokens_differ = false;   ///< the children of a node are different tokens
    /// A node has fewer children than wanted only where no token was left to draw: none with mass besides the certain
    /// children, and besides all children where these are different tokens. `validate_batch` then finds children that
    /// were drawn and left out.
    bool ends_with_support = false;
    /// The noise is fixed by a position in the text, whatever the tree: the draw site of a node has its own position,
    /// not that of the root.
    bool addressed_by_text = false;
};

namespace law {

// A law is that of the children of one node, given the tokens from the root to it and the draft's row there. Given
// these, the lists of different nodes are independent of one another: each node draws for itself, also where nodes have
// the same row. Where they do not, the law is `shared_lists`. And every token that was drawn is in the tree: leaving
// one out because of what it is gives another law.

/// n independent draws from q; duplicates are possible and are kept ([MCSD] 3.1, [SpecTr]).
struct iid {
    static constexpr law_traits traits{.name = "iid", .ends_with_support = true};
};

/// Without replacement: x_k is drawn from q with x_1 .. x_{k-1} removed and renormalised ([MCSD] 3.2, [RSD] (5)-(7)).
/// Gumbel-top-k draws this law. When fewer than n tokens have mass there are fewer children.
struct sequential {
    static constexpr law_traits traits{.name = "sequential", .tokens_differ = true, .ends_with_support = true};
};

/// The n most likely tokens of q, in order: no randomness (EAGLE-2, Medusa, prompt look-up).
struct deterministic {
    static constexpr law_traits traits{.name = "deterministic"};
};

/// The n - 1 most likely tokens of q, in order, with certainty, then one draw from the rest ([OptimalMDSD] 5.1,
/// "greedy"); no draw where nothing is left to draw from.
struct top_then_one {
    static constexpr law_traits traits{
        .name = "top_then_one", .counts_certain = true, .tokens_differ = true, .ends_with_support = true};
};

/// Two tokens, the most likely one and another: one token from q; if that is the most likely one, the other from the
/// rest of q ([SpecHub]; [OptimalMDSD] 5.3). The most likely one stands first and counts as certain; which of several
/// equally likely tokens it is is said by its place, not by its number. A node of one child has a draw from q.
struct top_paired {
    static constexpr law_traits traits{
        .name = "top_paired", .counts_certain = true, .tokens_differ = true, .ends_with_support = true};
};

/// n different tokens, the set S with probability proportional to the product of its q: n independent draws conditioned
/// on being different. In increasing order of the token; the order carries no information ([OptimalMDSD] 4.2.2 has its
/// bound).
struct conditional_poisson {
    static constexpr law_traits traits{.name = "conditional_poisson", .tokens_differ = true, .ends_with_support = true};
};

/// x_k from a distribution q_k of its own, one draft model each; duplicates are kept ([SpecInfer]).
struct independent {
    static constexpr law_traits traits{.name = "independent"};
};

/// The k-th token wins a race over a list S^(k) of exponential noise, argmin S_i^(k) / q_i. The verifier has the same
/// noise: it is fixed by a position in the text, a list and a token. Duplicates are kept (Gumbel-max lists).
struct shared_randomness {
    static constexpr law_traits traits{.name = "shared_randomness", .addressed_by_text = true};
};

/// The children of the root are drawn from the target's own row, those of other nodes from the draft's by another law
/// ([ImprovingMCSD] 3.1).
template <class Below>
struct target_initialised {
    static constexpr law_traits traits{.name = "target_initialised", .counts_certain = Below::traits.counts_certain};
    using below = Below;
};

/// Some tokens with certainty, then independent draws from the rest of q, duplicates kept. Which tokens are certain,
/// and how many, is a function of the text, of the draft's row and of the number of children wanted, of nothing drawn:
/// `draft::stratified` takes the most likely ones by the certainty rule, and they may come from elsewhere, such as a
/// look-up. The drawn tree carries their number (`drafted`), so that verifiers do not need the rule.
struct stratified {
    static constexpr law_traits traits{.name = "stratified", .counts_certain = true, .ends_with_support = true};
};

/// The lists of several nodes of one depth are the same, drawn once by `OfList`, or depend on one another in any other
/// way, such as draws with common noise: product trees of drafters that have one row for each depth (Medusa with draws,
/// block drafters). The list is independent of everything above its depth, and was drawn from the row of each node that
/// has it. Verifiers that take such trees: `verify::lists_may_be_shared`.
template <class OfList>
struct shared_lists {
    static constexpr law_traits traits{.name = "shared_lists",
                                       .counts_certain = OfList::traits.counts_certain,
                                       .tokens_differ = OfList::traits.tokens_differ,
                                       .ends_with_support = OfList::traits.ends_with_support};
    using of_list = OfList;
};

}  // namespace law

/// A law is an empty type that says what is known of it: `static constexpr law_traits traits{.name = "mine"}`. An
/// engine may add its own; a verifier must list it before the two compile together.
template <class L>
concept draft_law = std::is_empty_v<L> && requires {
    { L::traits } -> std::same_as<law_traits const&>;
    requires !L::traits.name.empty();
};

/// Whether trees of a law say which children are certain (`law_traits`).
template <draft_law Law>
inline constexpr bool counts_certain = Law::traits.counts_certain;

/// Whether the children of a node are different tokens (`law_traits`).
template <draft_law Law>
inline constexpr bool tokens_differ = Law::traits.tokens_differ;

/// Whether the lists of different nodes may be the same or depend on one another.
template <draft_law Law>
inline constexpr bool has_shared_lists = false;
template <draft_law Law>
inline constexpr bool has_shared_lists<law::shared_lists<Law>> = true;

namespace detail {

template <draft_law Law>
struct of_list {
    using type = Law;
};
template <draft_law Law>
struct of_list<law::shared_lists<Law>> {
    using type = Law;
};

}  // namespace detail

/// The law of the children of a single node: `Law`, or the one that `law::shared_lists` names.
template <draft_law Law>
using law_of_list = typename detail::of_list<Law>::type;

/// A law that is given by its conditionals ([RSD] (1): any dependence): `L::conditional(g, q, drawn)` is the row, a
/// `distribution`, that the next child of a node is drawn from. q is the draft's row of the node, and `drawn` are the
/// tokens of the children before it, in the order drawn. If the row has no mass there is no further child.
///
/// `verify::recursive_rejection<L>` is lossless for such a law; tests/support/by_conditionals.hpp draws from it. All
/// lanes of a group call it together. It returns equal rows for equal arguments, by value: views and numbers that own
/// no memory. tests/support/reweighted.hpp makes such a row from q.
template <class L, class G, class Q>
concept gives_conditionals = draft_law<L> && requires(G const& g, Q const& q, span<token_id const> drawn) {
    L::conditional(g, q, drawn);
};

/// A draft tree together with the law of its children: what a verifier takes.
///
/// Drafters produce it; an engine that drew the tree itself states the law by naming the type.
template <draft_law Law>
struct drafted {
    using law = Law;
    tree_view tree;
};

/// The same for laws with certain children: for each node, how many of its first children are certain (0 for a leaf),
/// as the sampler returned it. Certain tokens are different, and no draw gives one of them.
template <draft_law Law>
requires counts_certain<Law>
struct drafted<Law> {
    using law = Law;
    tree_view tree;
    span<index_t const> certain;
};

/// The tree with its law; `certain`, one number for each node, is left out where the law has no certain children.
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD constexpr drafted<Law> make_drafted(tree_view tree,
                                                                [[maybe_unused]] span<index_t const> certain) noexcept {
    if constexpr (counts_certain<Law>)
        return {tree, certain};
    else
        return {tree};
}

namespace detail {

/// A tree under a verifier's law, which was checked to take it.
template <draft_law Law, draft_law Drawn>
[[nodiscard]] MULTIDRAFT_HD constexpr drafted<Law> under_law(drafted<Drawn> const& drafts) noexcept {
    static_assert(counts_certain<Law> == counts_certain<Drawn>);
    if constexpr (counts_certain<Law>)
        return {drafts.tree, drafts.certain};
    else
        return {drafts.tree};
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
