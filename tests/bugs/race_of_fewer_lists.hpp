// Bug: the target's race uses the lists of its most likely children only, not all lists.
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/random/race_noise.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// Uses only the lists whose drafted token is more likely than not to be the target's: so which noise is used depends
/// on the noise.
struct race_of_fewer_lists : verify::whole_tree<race_of_fewer_lists, multidraft::law::shared_randomness> {
    static constexpr multidraft::verify::verifier_traits traits{.reads_draft = false};

    template <class G, class Target, class Draft>
    verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const&,
                        addressed_source const& source, std::int32_t position, span<node_id>) const {
        auto const p = target(g, 0);
        race_noise const noise{source.uniforms(), position};
        auto const children = drafts.tree.children(0);
        index_t const x = g.argmax(p.size(), [&](index_t i) {
            double best = 0;
            for (node_id v = children.first; v < children.end(); ++v) {
                if (v > children.first && drafts.tree.tokens[static_cast<std::size_t>(v)] != i) continue;
                double const key = p(i) / static_cast<double>(noise(v - children.first, i));
                best = key > best ? key : best;
            }
            return best;
        });
        return {0, x};
    }
};

}  // namespace multidraft::bugs
