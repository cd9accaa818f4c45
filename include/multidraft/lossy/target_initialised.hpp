// The target-initialised tree: its first tokens are drawn from the target, and the longest accepted path wins. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"
#include "multidraft/verify/whole_tree.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// The children of the root were drawn from the target itself; below each of them `Verifier` decides node by node, and
/// the longest of the paths is kept, the first one of equal length ([ImprovingMCSD] 3.1).
///
/// Not lossless, though each path by itself is: keeping the longest prefers first tokens that are easy to continue. At
/// temperature 0 with starts that are the target's n best it emits tokens that greedy decoding would not. Its accepted
/// lengths count the start, a token that any method would have drawn from the target, and are not comparable with
/// those of lossless methods.
///
/// Where there is no start a token is emitted from the target. Cost: that of `Verifier` along
/// one path for each start.
template <verify::verifier Verifier>
class target_initialised
    : public verify::whole_tree<target_initialised<Verifier>, law::target_initialised<typename Verifier::law>> {
public:
    using law = multidraft::law::target_initialised<typename Verifier::law>;
    static constexpr verify::verifier_traits traits{.lossless = false, .reads_draft = verify::reads_draft<Verifier>};

    target_initialised() = default;
    /// Wraps a verifier that has parameters.
    MULTIDRAFT_HD explicit target_initialised(Verifier verifier) : verifier_(verifier) {}

    /// The wrapped verifier's scratch, if it needs some.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(
        node_id nodes, std::int32_t depth) requires verify::needs_scratch<Verifier> {
        return Verifier::scratch_bytes(nodes, depth);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it. The draft's row of the root
    /// is not read.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      [[maybe_unused]] span<std::byte> scratch = {}) const {
        auto const starts = drafts.tree.children(0);
        verify::detail::walk_end best;
        for (node_id start = starts.first; start < starts.end(); ++start) {
            if (is_absent(drafts.tree.tokens[start])) break;
            auto walk =
                verify::detail::walk_down(g, verifier_, drafts, target, draft, start, source, position, scratch);
            if (walk.result.next == none) return {};
            ++walk.result.accepted;  // the start
            if (walk.result.accepted > best.result.accepted) best = walk;
        }
        if (best.result.accepted == 0) best.result.next = verify::emit_at(g, target, 0, source, draw_site{position, 0});
        return verify::detail::accepted_path(g, drafts, target, verify::no_draft_rows{}, best.last, best.result.next,
                                             path);
    }

private:
    [[no_unique_address]] Verifier verifier_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
