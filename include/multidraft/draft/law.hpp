// Draft laws: how the children of one node were drawn. A law is a type, so that a sampler and a verifier that do not
// fit do not compile together.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "multidraft/tree/topology.hpp"

namespace multidraft {

namespace law {

/// n independent draws from q; duplicates are possible and keep their places (MCSD 3.1, SpecTr).
struct iid {
    static constexpr std::string_view name = "iid";
};

/// Without replacement: x_k is drawn from q with x_1 .. x_{k-1} removed and renormalised (MCSD 3.2, RSD (5)-(7)).
/// Gumbel-top-k draws this law. When fewer than n tokens have mass there are fewer children.
struct sequential {
    static constexpr std::string_view name = "sequential";
};

/// The n most likely tokens of q, in order: no randomness (EAGLE-2, Medusa, prompt look-up).
struct deterministic {
    static constexpr std::string_view name = "deterministic";
};

/// The n - 1 most likely tokens of q, in order, then one draw from the rest (Optimal MDSD 5.1, "greedy").
struct top_then_one {
    static constexpr std::string_view name = "top_then_one";
};

/// Two tokens: x_1 from q; if that is the most likely one, x_2 from the rest, else x_2 is the most likely one (SpecHub;
/// Optimal MDSD 5.3).
struct top_paired {
    static constexpr std::string_view name = "top_paired";
};

/// n different tokens, the set S with probability in proportion to the product of its q: n independent draws given that
/// they are different. In increasing order of the token; the order says nothing (Optimal MDSD 4.2.2 has its bound).
struct conditional_poisson {
    static constexpr std::string_view name = "conditional_poisson";
};

/// x_k from a distribution q_k of its own, one draft model each; duplicates keep their places (SpecInfer).
struct independent {
    static constexpr std::string_view name = "independent";
};

/// The k-th token wins the race of a list S^(k) of exponential noise, argmin S_i^(k) / q_i, with noise that the
/// verifier has as well: it belongs to a position in the text, a list and a token. Duplicates keep their places
/// (Gumbel-max lists).
struct shared_randomness {
    static constexpr std::string_view name = "shared_randomness";
};

/// The children of the root are drawn from the target's own row, those of other nodes from the draft's by another law
/// (Improving MCSD 3.1).
template <class Below>
struct target_initialised {
    static constexpr std::string_view name = "target_initialised";
    using below = Below;
};

/// The n - j most likely tokens of q with certainty, in order, then j independent draws from the rest, duplicates kept;
/// j is a function of q and n alone, by the certainty rule with threshold theta (see `certainty`).
///
/// Theta, in thousandths, is part of the law: a verifier has to know which children were certain.
template <int ThetaThousandths>
struct stratified_by {
    static_assert(ThetaThousandths > 0 && ThetaThousandths <= 1000, "multidraft: theta lies in (0, 1]");
    static constexpr std::string_view name = "stratified";
    static constexpr int theta_thousandths = ThetaThousandths;
};

/// `stratified_by` with the threshold that did best: 0.7.
using stratified = stratified_by<700>;

}  // namespace law

/// A law is an empty type with a name. An engine may add its own; a verifier must list it before the two compile
/// together.
template <class L>
concept draft_law = std::is_empty_v<L> && requires {
    { L::name } -> std::convertible_to<std::string_view>;
};

/// A draft tree together with the law of its children: what a verifier takes.
///
/// Samplers give it; an engine that drew the tree itself states the law by naming the type.
template <draft_law Law>
struct drafted {
    using law = Law;
    tree_view tree;
};

}  // namespace multidraft
