// The concept `drafter`: grows the candidate tree of one step, from no, one or several models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Grows the tree of one step. It owns the tree and declares the law by which the children of each node were drawn; its
/// models belong to the caller.
///
/// - `law`: of the children of one node; the verifier must be for the same.
/// - `shape_depends_on_draws`: whether the number of children of a node depends on tokens drawn before them. Verifiers
///   that decide node by node are lossless for such trees; for a verifier of whole trees this must be proved, so the
///   loop does not accept it. A drafter may declare a static `shape_depends_on`; then every verifier that allows this
///   dependence is accepted (`verify::shape_may_depend_on`).
/// - `check(vocabulary)`: throws `invalid_input` when the drafter's models cannot draft for a target of that
///   vocabulary.
/// - `reset()`: clears the text. `read(context)`: reads a prompt except for its last token; it may leave that to
///   `grow`.
/// - `depth_limit(length)`: the deepest tree it can grow below a text of that many tokens.
/// - `grow(g, text, depth, sampling, source, metrics)`: the tree below the last token of `text`, at most `depth` levels
///   deep; 0 gives the root alone, without a call of a model. Counts its calls, nodes and seconds.
/// - `tree()`, `tokens()`, `positions()`, `mask()`: of the nodes, the root first, in level order; valid until the next
///   `grow`. `rows()`: what the verifier reads as the draft's rows (a `row_source`, or a
///   `child_row_source`), `verify::no_draft_rows` where there are none.
/// - `keep(context, nodes)`: the models' caches keep the entries up to `context` and those of `nodes` (the root and
///   then a path below it), as far as the models have read them.
///
/// Optional members: `learn(outcome)` (`learns_from_steps`); `observe(features, positions)` and `feature_size()`
/// (`observes_features`); `calls(model)`, whether one of its models is at that address: the loop refuses its target.
template <class D>
concept drafter = requires {
    typename D::law;
    requires draft_law<typename D::law>;
    { D::shape_depends_on_draws } -> std::convertible_to<bool>;
}
&&requires(D& d, D const& fixed, host_group const& g, std::span<token_id const> text, std::int32_t number,
           sampling_params const& w, addressed_source& source, generation_metrics& m, std::span<node_id const> nodes) {
    fixed.check(number);
    d.reset();
    d.read(text);
    { fixed.depth_limit(number) } -> std::convertible_to<std::int32_t>;
    d.grow(g, text, number, w, source, m);
    { fixed.size() } -> std::convertible_to<node_id>;
    { fixed.tree() } -> std::same_as<drafted<typename D::law>>;
    { fixed.tokens() } -> std::convertible_to<std::span<token_id const>>;
    { fixed.positions() } -> std::convertible_to<std::span<std::int32_t const>>;
    { fixed.mask() } -> std::convertible_to<mask_view>;
    { fixed.rows() } -> verify::draft_row_source<host_group>;
    d.keep(number, nodes);
};

namespace detail {

template <class D>
concept says_what_shape_depends_on = requires {
    { D::shape_depends_on } -> std::convertible_to<shape_depends_on>;
};

template <class D>
concept knows_its_models = requires(D const& drafter, void const* model) {
    { drafter.calls(model) } -> std::convertible_to<bool>;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
