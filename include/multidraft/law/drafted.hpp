// A draft tree together with the law of its children: what samplers give and verifiers take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

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
