// The draws of a node's children while its tree grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Draws up to `count` children of a node of `tree` from the draft's distribution there into `out`, which gets their
/// number; `sums` are the chunk sums of q's weights. The tree is not changed: `tree.add(node, out, certain)` adds them.
/// Noise that is fixed by a position in the text is that of the node's position, all other of the root's.
template <group G, sampler Sampler, distribution Q, class Sums, draw_source Source>
drawn_children draw_children(G const& g, tree_builder const& tree, node_id node, index_t count, Sampler const& sampler,
                             Q const& q, Sums const& sums, Source& source, std::vector<token_id>& out) {
    out.resize(static_cast<std::size_t>(count));
    if (count == 0) return {};
    constexpr bool by_text = Sampler::law::traits.addressed_by_text;
    draw_site const site{tree.added().positions[static_cast<std::size_t>(by_text ? node : 0)], node};
    drawn_children const drawn = sampler(g, q, sums, source, site, span<token_id>(out));
    out.resize(static_cast<std::size_t>(drawn.count));
    return drawn;
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
