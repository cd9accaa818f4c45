// The concept `sampler`: draws the children of one node from a draft distribution.
#pragma once

#include <concepts>

#include "multidraft/core/group.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft {

/// `sampler(g, q, sums, source, where, out)` draws up to `out.size()` children of the node `where.node` from the
/// distribution q, whose weights have the ledger `sums`, writes them in the order drawn and returns how many there are.
/// `S::law` is their law.
///
/// The ledger may be changed. Fewer than `out.size()` children mean that q's support was exhausted.
template <class S>
concept sampler = requires {
    typename S::law;
    requires draft_law<typename S::law>;
}
&&requires(S const& s, host_group const& g, probabilities<float> const& q, ledger<float>& sums,
           addressed_source& source, place where, span<token_id> out) {
    { s(g, q, sums, source, where, out) } -> std::same_as<index_t>;
};

}  // namespace multidraft
