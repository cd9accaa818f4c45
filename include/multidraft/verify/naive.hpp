// Naive verification: draw from the target, accept if it was drafted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Draws y from p; if y is among the candidates its first occurrence is accepted, else y is emitted ([SpecInfer]).
///
/// Lossless for every law, since y does not depend on the candidates; optimal for `law::deterministic`, where its
/// acceptance rate p(S) cannot be exceeded. Reads one row of p for each level and none of q (`no_draft_rows` can be
/// passed for the draft's rows). Cost: one pass for each level.
template <draft_law Law>
class naive : public node_by_node<naive<Law>, Law> {
public:
    /// Its token does not depend on the candidates. Draft rows that are passed nevertheless are not read.
    static constexpr verifier_traits traits{
        .lossless = true, .reads_draft = false, .shape_may_depend_on = shape_depends_on::everything};

    /// The decision at one node: a token from p in one pass, accepted when a candidate is that token. No token where p
    /// has no mass.
    template <group G, distribution P, class Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& /*q*/,
                                                    span<token_id const> candidates, Source& source,
                                                    draw_site site) const {
        weight_of const w{p};
        auto const sums = g.sum_chunks(p.size(), w);
        if (!(sums.total > 0)) return {};
        return found_among(candidates, source.categorical(g, sums, p.size(), w, {}, site(purpose::naive, 0)));
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
