// Ranked verification: the optimal verifier of one node for independent and stratified draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "reference/ranked_node.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

namespace detail {

/// The law of a node's candidate as a row.
struct candidate_row {
    ranked_node const* node;
    index_t entries;

    [[nodiscard]] index_t size() const { return entries; }
    [[nodiscard]] double operator()(index_t i) const { return node->candidate_law(i); }
    [[nodiscard]] double weight(index_t i) const { return node->candidate_law(i); }
};

}  // namespace detail

/// The reference of `verify::ranked` ([Ranked] 3): every draw gets a random rank in its token's set of ranks, and the
/// one with the best rank is the candidate. The candidate has the exact law m. It is accepted with min(1, p / m);
/// otherwise a token from Norm[(p - m)+] is emitted, which may be one of the certain children.
///
/// Lossless whatever m is, since it is the candidate's exact law. With the m of `ranked_marginal` the acceptance rate
/// is alpha*, the largest of any lossless verifier of its law ([OptimalMDSD] (8)), for `law::iid` and
/// `law::stratified`. ([GlobalResolution] reaches alpha* for independent drafts by convex minimisation.) Where every
/// candidate is certain a token is drawn from p.
///
/// On the host, exactly, with memory of the size of the vocabulary: see `ranked_node`. Cost: a pass over p and q and a
/// sort of the tokens that are not pooled.
template <draft_law Law>
class ranked : public verify::node_by_node<ranked<Law>, Law> {
    static_assert(verify::is_ranked_law<Law>,
                  "multidraft: verify::ranked is for candidates drawn independently, law::iid and law::stratified; for "
                  "law::sequential use verify::recursive_rejection or verify::traversal; verify::naive<Law> fits every "
                  "law");

public:
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    ranked() = default;
    /// `pooled`: tokens with less than this of the draws' law are pooled. At most that much acceptance is lost per
    /// token.
    explicit ranked(double pooled) noexcept : pooled_(pooled) {}

    /// Accepts the candidate of best rank with probability min(1, p / m); O(V log V).
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates,
                                              Source& source, draw_site site) const {
        if (!verify::detail::may_be_drawn(q, candidates)) return {};
        if (candidates.draws() == 0) return verify::found_among(candidates, verify::emit(g, p, source, site));
        ranked_node const node(p, q, candidates.certain_tokens(), candidates.draws(), {}, pooled_);
        if (!node.valid()) return {};
        index_t const best = best_ranked(g, node, candidates, source, site);
        token_id const x = candidates[best];
        using real = probability_of<P>;
        if (source.bernoulli(site(purpose::acceptance, 0), p(x), static_cast<real>(node.candidate_law(x))))
            return {best, x};
        auto const r = verify::residual_of_path(p, detail::candidate_row{&node, p.size()}, real(1));
        return emit_or_accept(g, p, r, candidates, candidates, source, site);
    }

private:
    double pooled_ = 0x1p-26;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
