// Which verifiers take trees of a law: those of the verifier's own law, and lists that several nodes share where the
// verifier allows it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

template <class Self, draft_law Law>
class node_by_node;

/// A verifier that walks down the tree and decides at each node by its own `decide`.
template <class V>
concept decides_by_node = std::is_base_of_v<node_by_node<V, typename V::law>, V>;

namespace detail {

template <class V>
concept says_of_lists = requires {
    { V::lists_may_be_shared } -> std::convertible_to<bool>;
};

template <class V>
constexpr bool allows_shared_lists() noexcept {
    if constexpr (says_of_lists<V>)
        return V::lists_may_be_shared;
    else
        return decides_by_node<V>;
}

}  // namespace detail

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
///   `multi_path_block` and `nested_ranked_block` weigh several subtrees against each other. A user's verifier may
///   declare a static member `lists_may_be_shared`.
template <class V>
inline constexpr bool lists_may_be_shared = detail::allows_shared_lists<V>();

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
                  "that decides node by node, such as verify::recursive_rejection (verify/takes_law.hpp)");
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
