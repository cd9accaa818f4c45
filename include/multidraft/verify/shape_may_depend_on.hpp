// Which verifiers take trees whose shape depends on what was drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/takes_law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

template <class V>
concept says_of_shapes = requires {
    { V::shape_may_depend_on } -> std::convertible_to<shape_depends_on>;
};

template <class V>
constexpr shape_depends_on shape_limit_of() noexcept {
    if constexpr (says_of_shapes<V>)
        return V::shape_may_depend_on;
    else if constexpr (decides_by_node<V>)
        return shape_depends_on::earlier_draws;
    else
        return shape_depends_on::nothing;
}

}  // namespace detail

/// What the shape of a tree may depend on, at most, for a verifier to be lossless.
///
/// A verifier says it by a static member of the same name. Of those that do not, one that decides node by node may look
/// at what was drawn before the node's own children, and any other at nothing.
///
/// Where nodes share their lists (`law::shared_lists`), what was drawn for a cousin is the node's own list: then the
/// shape may depend on the node's own context at most, except for `naive`.
template <class V>
inline constexpr shape_depends_on shape_may_depend_on = detail::shape_limit_of<V>();

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
                  "verify::recursive_rejection or verify::naive (verify/shape_may_depend_on.hpp)");
    return growth.drafts_of_any_shape();
}

}  // namespace MULTIDRAFT_NAMESPACE::verify
