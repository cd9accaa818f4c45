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
