// Typical acceptance: accepts candidates that are typical enough under the target, without a draw. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Typical acceptance ([Medusa]): a candidate x passes when p(x) > min(eps, delta exp(-H(p))), H the entropy of p; the
/// longest path of passing candidates is accepted (the first in level order among equals), then a token from p is
/// emitted.
///
/// Not lossless: a candidate that passes is always accepted, however rarely the target would emit it, so texts are
/// biased towards the draft's candidates. The bias is measured in tests/proof/typical_acceptance_test.cpp. At
/// temperature 0 it is greedy decoding. For trees of any law; the draft's rows are not read (`no_draft_rows`). Cost:
/// one pass for each passing node that has children.
template <draft_law Law>
class typical_acceptance : public verify::whole_tree<typical_acceptance<Law>, Law> {
public:
    static constexpr verify::verifier_traits traits{.lossless = false, .reads_draft = false};

    typical_acceptance() = default;
    /// `eps` in (0, 1], `delta` in (0, 1]; Medusa uses 0.09 and 0.3. Throws `invalid_input` on the host for other
    /// values.
    MULTIDRAFT_HD typical_acceptance(float eps, float delta) : eps_(eps), delta_(delta) {
#if !MULTIDRAFT_ON_DEVICE
        if (!(eps > 0 && eps <= 1)) refuse("eps", eps, "the threshold of typical acceptance is in (0, 1]");
        if (!(delta > 0 && delta <= 1)) refuse("delta", delta, "the factor of typical acceptance is in (0, 1]");
#endif
    }

    /// One flag per node.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t /*depth*/) {
        return static_cast<std::size_t>(nodes);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const&,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        tree_view const tree = drafts.tree;
        node_id const deepest = deepest_passing(g, tree, target, scratch.data());
        token_id const next = verify::emit_at(g, target, deepest, source, draw_site{position, deepest});
        return verify::detail::accepted_path(g, drafts, target, verify::no_draft_rows{}, deepest, next, path);
    }

private:
    /// The deepest node on a path of passing nodes, the first in level order among equals; `passes` is memory, one flag
    /// per node.
    template <group G, class Target>
    [[nodiscard]] MULTIDRAFT_HD node_id deepest_passing(G const& g, tree_view tree, Target const& target,
                                                        std::byte* passes) const {
        if (g.leader()) passes[0] = std::byte{1};
        g.barrier();
        node_id deepest = 0;
        std::int32_t depth = 0;
        for (node_id v = 0; v < tree.size(); ++v) {
            auto const children = tree.children(v);
            if (children.empty()) continue;
            if (passes[v] != std::byte{1}) {  // its row may not have been written
                if (g.leader())
                    for (node_id c = children.first; c < children.end(); ++c) passes[c] = std::byte{0};
                g.barrier();
                continue;
            }
            auto const p = target(g, v);
            auto const threshold = threshold_of(g, p);
            for (node_id c = children.first; c < children.end(); ++c) {
                token_id const x = tree.tokens[c];
                bool const ok = x >= 0 && p(x) > threshold;
                if (g.leader()) passes[c] = ok ? std::byte{1} : std::byte{0};
                if (!ok) continue;
                std::int32_t const levels = tree.depth(c);
                if (levels > depth) {
                    depth = levels;
                    deepest = c;
                }
            }
            g.barrier();
        }
        return deepest;
    }

    /// min(eps, delta exp(-H(p))).
    template <group G, distribution P>
    [[nodiscard]] MULTIDRAFT_HD auto threshold_of(G const& g, P const& p) const {
        using real = probability_of<P>;
        real const minus_entropy = g.sum(p.size(), [p](index_t i) {
            real const x = p(i);
            return x > 0 ? fp::mul(x, fp::log(x)) : real(0);
        });
        real const typical = fp::mul(static_cast<real>(delta_), fp::exp(minus_entropy));
        real const least = static_cast<real>(eps_);
        return typical < least ? typical : least;
    }

    float eps_ = 0.09F;
    float delta_ = 0.3F;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
