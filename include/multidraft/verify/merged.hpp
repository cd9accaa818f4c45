// Equal candidates that share what follows: whichever is accepted, the walk goes on below the first of them.
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::verify {

/// A verifier of one node, for trees in which independent sequences share nodes while they agree: the candidates of
/// one token are all there, and the tree goes on below the first of them (`sequence_drafter`).
///
/// Which of equal candidates is accepted is no matter for the text; the walk takes the first. As lossless as the
/// verifier that it wraps.
template <class Verifier>
class merged : public node_by_node<merged<Verifier>, typename Verifier::law> {
public:
    static constexpr bool lossless = Verifier::lossless;

    merged() = default;
    MULTIDRAFT_HD explicit merged(Verifier verifier) : verifier_(verifier) {}

    template <group G, distribution P, class Q, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                                    Source& source, place where) const {
        node_verdict result = verifier_.decide(g, p, q, candidates, source, where);
        for (index_t k = 0; k < result.child; ++k)
            if (candidates[static_cast<std::size_t>(k)] == result.token) result.child = k;
        return result;
    }

private:
    [[no_unique_address]] Verifier verifier_;
};

}  // namespace multidraft::verify
