// What verifiers of whole trees share: the call with named rows, the check of the law, the checks of the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

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
