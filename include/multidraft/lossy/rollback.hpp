// BiLD: the draft continues alone while it is confident, and drafted tokens that are not too unlikely are kept. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// The fallback policy of BiLD (Kim et al. 2023): the target is called when the largest probability of the draft falls
/// below a threshold. A stop rule for chains:
///
/// `make_speculative<lossy::rollback<law::iid>>(target, static_tree_drafter<Draft, draft::iid,
/// lossy::fallback_rule>(draft, chain(10), {}, lossy::fallback_rule(0.6)), lossy::rollback<law::iid>(3))`.
///
/// The rule itself keeps a lossless verifier lossless; only the rollback is lossy.
class fallback_rule {
public:
    static constexpr bool reads_hidden_state = false;

    fallback_rule() = default;
    /// Throws `invalid_input` for a threshold outside [0, 1].
    explicit fallback_rule(double threshold) : threshold_(threshold) {
        if (!(threshold >= 0 && threshold <= 1)) refuse("threshold", threshold, "a probability lies in [0, 1]");
    }

    /// The largest probability of q.
    template <group G, distribution Q>
    [[nodiscard]] double operator()(G const& g, Q const& q, std::span<float const>) const {
        return static_cast<double>(q(g.argmax(q.size(), weight_of{q})));
    }
    /// A level is not drawn if that is less at each of its nodes.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    double threshold_ = 0.6;
};

static_assert(stop_rule<fallback_rule>);

/// Accepts the first candidate x with -log p(x) <= threshold, else emits a token from p (the rollback policy of BiLD,
/// [BiLD]; used with `lossy::fallback_rule`).
///
/// Not lossless: a token that the draft prefers is kept even if it is merely possible under the target, so the text is
/// biased towards the draft. At temperature 0 it is the greedy text, since every other token has p = 0. A threshold of
/// 0 keeps only tokens of probability 1; a larger one keeps more. Accepts every law, since it does not use how a token
/// was drawn. O(1) per candidate, one pass where none is kept.
template <draft_law Law>
class rollback : public verify::node_by_node<rollback<Law>, Law> {
public:
    static constexpr verify::verifier_traits traits{.lossless = false, .reads_draft = false};

    rollback() = default;
    /// `threshold` in nats. Throws `invalid_input` on the host for one below 0 or NaN.
    explicit rollback(float threshold) : threshold_(threshold) {
        if (!(threshold >= 0)) refuse("threshold", threshold, "a rollback threshold is not negative");
    }

    /// The decision at one node: the first candidate of p above the threshold, O(1) each, else a token from p in one
    /// pass.
    template <group G, distribution P, class Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD verify::node_verdict decide(G const& g, P const& p, Q const& /*q*/,
                                                            span<token_id const> candidates, Source& source,
                                                            draw_site site) const {
        using real = probability_of<P>;
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            real const px = p(x);
            if (px > 0 && -fp::log(px) <= static_cast<real>(threshold_)) return {static_cast<index_t>(k), x};
        }
        return {none, verify::emit(g, p, source, site)};
    }

private:
    float threshold_ = 3.0F;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
