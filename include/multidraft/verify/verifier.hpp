// The concept of a verifier, a uniform call for all, and the base of those that decide on whole trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

template <class V, class G, class P, class Q, class Source>
concept decides = needs_scratch<V> || requires(V const& v, G const& g, P const& p, Q const& q,
                                               candidate_list candidates, Source& source, draw_site site) {
    { v.decide(g, p, q, candidates, source, site) } -> std::same_as<node_verdict>;
};
template <class V, class G, class P, class Q, class Source>
concept decides_in_scratch =
    !needs_scratch<V> || requires(V const& v, G const& g, P const& p, Q const& q, candidate_list candidates,
                                  Source& source, draw_site site, span<std::byte> scratch) {
    { v.decide(g, p, q, candidates, source, site, scratch) } -> std::same_as<node_verdict>;
};

template <class V, class Tree, class Rows, class Source>
concept verifies = needs_scratch<V> || requires(V const& v, host_group const& g, Tree const& tree, Rows const& rows,
                                                Source& source, std::int32_t position, span<node_id> path) {
    { v(g, tree, target_rows(rows), draft_rows(rows), source, position, path) } -> std::same_as<verdict>;
};
template <class V, class Tree, class Rows, class Source>
concept verifies_in_scratch =
    !needs_scratch<V> || requires(V const& v, host_group const& g, Tree const& tree, Rows const& rows, Source& source,
                                  std::int32_t position, span<node_id> path, span<std::byte> scratch) {
    { v(g, tree, target_rows(rows), draft_rows(rows), source, position, path, scratch) } -> std::same_as<verdict>;
};

}  // namespace detail

/// A decision at one node, which `node_by_node` turns into a verifier of whole trees.
///
/// `v.decide(g, p, q, candidates, source, site)` gives a `node_verdict`, from the target's row p, the draft's row q
/// (`no_draft_rows` where the verifier does not read it) and the children in the order drawn, a `candidate_list` or a
/// span of tokens. A decision that needs scratch (`needs_scratch`) gets it as one more argument.
template <class V, class G, class P, class Q, class Source>
concept node_decision = detail::decides<V, G, P, Q, Source> && detail::decides_in_scratch<V, G, P, Q, Source>;

namespace detail {

template <class V>
using archetype_of_draft_row =
    std::conditional_t<reads_draft<V>, multidraft::detail::row_archetype::row, no_draft_rows>;

template <class V>
concept has_law = requires {
    typename V::law;
    requires draft_law<typename V::law>;
};
template <class V>
concept has_traits = requires {
    { V::traits } -> std::same_as<verifier_traits const&>;
};
template <class V>
concept has_its_decision =
    !decides_by_node<V> ||
    node_decision<V, host_group, multidraft::detail::row_archetype::row, archetype_of_draft_row<V>, addressed_source>;
template <class V, class Tree = drafted<typename V::law>, class Rows = multidraft::detail::row_archetype::source>
concept is_called = verifies<V, Tree, Rows, addressed_source> && verifies_in_scratch<V, Tree, Rows, addressed_source>;

}  // namespace detail

/// Decides which path of a draft tree is accepted, and which token follows it. A function object without mutable state,
/// which many threads may call.
///
/// - `V::law`: the law of the trees that it accepts; a tree of another law does not compile (see `drafted`).
/// - `v(g, tree, target_rows(p), draft_rows(q), source, position, path)` gives a `verdict`, for every group, every
///   `row_source` of the target and of the draft, and every `draw_source`; one more argument, a `span<std::byte>`,
///   where it `needs_scratch`. For the arguments, results and errors see `whole_tree::operator()`. The return type is
///   spelled out: with `auto` the concept would have to instantiate the function.
/// - `V::traits`: what it says of itself, a `verifier_traits`.
/// - `V::scratch_bytes(nodes, depth)`, where it needs memory (`needs_scratch`).
///
/// A decision at one node (`node_decision`) becomes a verifier by `node_by_node`, and is checked here; one on a whole
/// tree becomes a verifier by `whole_tree`.
template <class V>
concept verifier = detail::has_law<V> && detail::has_traits<V> && detail::has_its_decision<V> && detail::is_called<V>;

/// Calls a verifier, with scratch if it needs some: `verify_tree(v, g, tree, target_rows(p), draft_rows(q), ..)`. See
/// `whole_tree::operator()` for the arguments.
template <verifier V, group G, draft_law Law, class Target, class Draft, draw_source Source>
requires row_source<std::remove_cvref_t<Target>, G> && draft_row_source<std::remove_cvref_t<Draft>, G>
    MULTIDRAFT_HD verdict verify_tree(V const& v, G const& g, drafted<Law> const& tree,
                                      target_rows<Target> const& target, draft_rows<Draft> const& draft, Source& source,
                                      std::int32_t position, span<node_id> path, span<std::byte> scratch) {
    if constexpr (needs_scratch<V>)
        return v(g, tree, target, draft, source, position, path, scratch);
    else
        return v(g, tree, target, draft, source, position, path);
}

/// A verifier that decides on a whole tree at once: `Self::decide_tree(g, tree, target, draft, source, position, path)`
/// gets the arguments of the call below after all checks, the tree under the verifier's own law and the rows without
/// their marks. A verifier that needs memory declares how much by `static std::size_t Self::scratch_bytes(nodes,
/// depth)`, and gets it as its last argument, a `span<std::byte>` (see `needs_scratch`).
template <class Self, draft_law Law>
class whole_tree {
public:
    using law = Law;

    /// Verifies one tree.
    ///
    /// - `tree`: nodes in level order, node 0 the root, children in the order drawn.
    /// - `p`, as `target_rows(rows)`: `rows(g, node)` is the target's distribution after a node. Rows may have a
    ///   `with_sums(g, node)` (see `emit_at`).
    /// - `q`, as `draft_rows(rows)`: `rows(g, node)` is the draft's distribution at a node with children, the one they
    ///   were drawn from. `draft_rows(no_draft_rows{})` for a verifier that reads none.
    /// - `position`: of the root in the text; with the node it addresses the draws.
    /// - `path`: receives the accepted nodes, root excluded, in order; at least as long as the tree is deep.
    /// - `scratch`: for verifiers that need it, `scratch_bytes` of it, else left out.
    ///
    /// Host errors: `invalid_input` for an invalid tree, tokens outside the vocabulary, children impossible under the
    /// law (duplicates where it draws different tokens), rows of different vocabularies, a short path and too little
    /// scratch. So are a candidate that the draft cannot have drawn, and a row without mass or with NaN where it is
    /// read. On a device the verdict's token is then `none`.
    template <group G, draft_law Drawn, class Target, class Draft, draw_source Source>
    requires row_source<std::remove_cvref_t<Target>, G> && draft_rows_for<Self, std::remove_cvref_t<Draft>, G>
        MULTIDRAFT_HD verdict operator()(G const& g, drafted<Drawn> const& tree, target_rows<Target> const& p,
                                         draft_rows<Draft> const& q, Source& source, std::int32_t position,
                                         span<node_id> path, [[maybe_unused]] span<std::byte> scratch = {}) const {
        require_law<Self, Drawn>();
        if constexpr (takes_law<Self, Drawn>) {
            auto const& target = detail::named<G>(p.rows, "target");
            auto const& draft = detail::named<G>(q.rows, "draft");
            auto const drafts = multidraft::detail::under_law<Law>(tree);
            detail::check_input<Self>(g, drafts, target, draft, path, scratch);
            auto const& self = static_cast<Self const&>(*this);
            if constexpr (needs_scratch<Self>)
                return self.decide_tree(g, drafts, target, draft, source, position, path, scratch);
            else
                return self.decide_tree(g, drafts, target, draft, source, position, path);
        } else {
            return {};
        }
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
