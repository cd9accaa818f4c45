// Equal candidates that share a subtree: whichever is accepted, the walk continues below the first of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// A verifier of one node, for trees in which independent sequences share nodes while they agree: equal candidates are
/// all present, and the tree continues below the first of them (`sequence_drafter`).
///
/// Which of several equal candidates is accepted does not affect the text; the walk takes the first. Lossless if the
/// wrapped verifier is.
template <verifier Verifier>
class merged : public node_by_node<merged<Verifier>, typename Verifier::law> {
public:
    static constexpr verifier_traits traits{.lossless = Verifier::traits.lossless,
                                            .reads_draft = verify::reads_draft<Verifier>,
                                            .reads_rows_of_children = Verifier::traits.reads_rows_of_children,
                                            .trees = trees_of<Verifier>,
                                            .draws = Verifier::traits.draws,
                                            .most_children = Verifier::traits.most_children};

    merged() = default;
    /// Wraps a verifier that has parameters.
    MULTIDRAFT_HD explicit merged(Verifier verifier) : verifier_(verifier) {}

    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) requires
        needs_scratch<Verifier> {
        return Verifier::scratch_bytes(nodes, depth);
    }

    /// `scratch`: the wrapped verifier's, if it needs some.
    template <group G, distribution P, class Q, draw_source Source, class... Scratch>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, candidate_list candidates,
                                                    Source& source, draw_site site, Scratch... scratch) const {
        node_verdict const result = verifier_.decide(g, p, q, candidates, source, site, scratch...);
        return result.child == none ? result : found_among(candidates, result.token);
    }

private:
    Verifier verifier_;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
