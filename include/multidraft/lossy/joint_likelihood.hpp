// MTAD's acceptance by joint likelihood: the longest prefix that is likely enough as a whole under the target. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Accepts the longest prefix x_1 .. x_j of a drafted path with min(1, p(x_1 .. x_j) / q(x_1 .. x_j)) > tau, then emits
/// a token from p ([MTAD] 3.2, Alg. 1, with line 11 storing the position i and eta = 0 where no prefix passes).
///
/// Not lossless: acceptance is deterministic, and a prefix passes when its target likelihood is almost as high as its
/// draft likelihood, so texts are biased towards the draft. MTAD bounds the perplexity (its Theorem 3.5), not the law.
/// A later token may compensate for an earlier one that was too unlikely. With tau = 1 nothing is accepted and each
/// token is drawn from p: that alone is lossless.
///
/// For chains, of any law (MTAD drafts by beam sampling): a node with more than one child is an `invalid_input` on the
/// host ("no token" on a device). The likelihoods are kept as sums of logarithms. Cost: O(1) per level, down to the
/// first token without mass under p; one pass for the emitted token.
template <draft_law Law>
class joint_likelihood : public verify::whole_tree<joint_likelihood<Law>, Law> {
public:
    static constexpr verify::verifier_traits traits{.lossless = false, .trees = allowed_trees::chains};

    joint_likelihood() = default;
    /// `tau` in [0, 1]. Throws `invalid_input` on the host for other values.
    MULTIDRAFT_HD explicit joint_likelihood(float tau) : tau_(tau) {
#if !MULTIDRAFT_ON_DEVICE
        if (!(tau >= 0 && tau <= 1)) refuse("tau", tau, "the threshold of a joint likelihood is in [0, 1]");
#endif
    }

    /// The verdict on one path; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path) const {
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        tree_view const tree = drafts.tree;
        if (!verify::detail::is_chain<G>(tree, "the joint likelihood is that of one path: one child per node"))
            return {};
        auto const least = fp::log(static_cast<real>(tau_));  // minus infinity for 0
        std::int32_t accepted = 0;
        real ratio = 0;  // log p - log q of the prefix
        for (node_id v = 0; v + 1 < tree.size(); ++v) {
            token_id const x = tree.tokens[v + 1];
            if constexpr (!G::throws)
                if (is_absent(x)) break;
            real const qx = draft(g, v)(x);
            if (!(qx > 0)) {
                verify::detail::refuse_node_on_host(g, drafts, target, draft, v);
                return {};
            }
            real const px = target(g, v)(x);
            if (!(px > 0)) break;  // longer prefixes have no mass either
            ratio += fp::log(px) - fp::log(qx);
            // min(1, e^ratio) > tau: never for tau = 1, whatever the ratio.
            if (ratio > least && tau_ < 1) accepted = v + 1;
        }
        token_id const next = verify::emit_at(g, target, accepted, source, draw_site{position, accepted});
        return verify::detail::accepted_path(g, drafts, target, draft, accepted, next, path);
    }

private:
    float tau_ = 0.1F;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
