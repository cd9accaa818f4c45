// The most likely tokens with certainty, then independent draws from the rest.
#pragma once

#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/certainty.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::draft {

/// The children of `law::stratified_by`: certain ones by the certainty rule (`certain_children`), in the order of q,
/// then independent draws from the other tokens, duplicates kept.
///
/// Cost: one pass for the top n - 1, one chunk of the row for each certain token, and one for each draw. When the
/// support of q is not larger than n it is drawn as a whole: fewer children than asked for. What is below 1e-24
/// of the whole beside certain tokens counts as nothing.
template <int ThetaThousandths = multidraft::law::stratified::theta_thousandths>
struct stratified_by {
    using law = multidraft::law::stratified_by<ThetaThousandths>;

    template <group G, distribution Q, class Ledger, draw_source Source>
    MULTIDRAFT_HD index_t operator()(G const& g, Q const& q, Ledger& sums, Source& source, place where,
                                     span<token_id> out) const {
        weight_of const w{q};
        auto const n = static_cast<index_t>(out.size());
        if (n == 0 || !(sums.total > 0)) return 0;
        index_t certain = 0;
        if (n > 1) {
            auto const top = out.first(out.size() - 1);
            g.top(q.size(), w, top);
            g.barrier();
            certain = certain_children(q, top, n, law::theta_thousandths / 1000.0);
            g.barrier();  // every lane has read them before the first draw is written over them
        }
        // Beyond what a float can tell from nothing: the support ends there.
        auto const nothing = sums.total * static_cast<decltype(sums.total)>(1e-24);
        for (index_t k = 0; k < certain; ++k)
            if (!(q.weight(out[static_cast<std::size_t>(k)]) > nothing)) return k;
        auto const taken = span<token_id const>(out).first(static_cast<std::size_t>(certain));
        for (token_id const x : taken) g.reweigh(sums, q.size(), w, taken, x);
        if (certain > 0 && !(sums.total > nothing)) return certain;
        for (index_t k = certain; k < n; ++k) {
            if (!(sums.total > 0)) return k;
            index_t const x = source.pick(g, sums, q.size(), w, taken, where(purpose::draft, k));
            if (x == none) return k;
            out[static_cast<std::size_t>(k)] = x;
        }
        return n;
    }
};

/// `stratified_by` with the threshold that did best.
using stratified = stratified_by<>;

}  // namespace multidraft::draft
