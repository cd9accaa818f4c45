// Recursive rejection as written in papers, with rows that are copied and changed: the base of the bugs in this
// directory. This one is lossless, which validates the parts that the bugs reuse.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::bugs {

[[nodiscard]] constexpr std::size_t at(token_id x) noexcept { return static_cast<std::size_t>(x); }

/// A copy of a row that may be changed.
template <distribution D>
[[nodiscard]] auto copy_of(D const& row) {
    std::vector<probability_of<D>> copy(at(row.size()));
    for (index_t i = 0; i < row.size(); ++i) copy[at(i)] = row(i);
    return copy;
}

/// r / sum r; unchanged when r has no mass.
template <class Real>
void normalise(std::vector<Real>& r) {
    Real sum = 0;
    for (Real const x : r) sum += x;
    if (!(sum > 0)) return;
    for (Real& x : r) x /= sum;
}

/// r <- Norm[(r - q)+]; r is unchanged if the result has no mass.
template <class Real>
void subtract(std::vector<Real>& r, std::vector<Real> const& q) {
    std::vector<Real> left(r.size());
    Real sum = 0;
    for (std::size_t i = 0; i < r.size(); ++i) {
        left[i] = r[i] > q[i] ? r[i] - q[i] : Real(0);
        sum += left[i];
    }
    if (!(sum > 0)) return;
    normalise(left);
    r = left;
}

/// q <- q without x, renormalised.
template <class Real>
void take_out(std::vector<Real>& q, token_id x) {
    q[at(x)] = 0;
    normalise(q);
}

/// A token drawn from a row of weights.
template <group G, class Real, draw_source Source>
[[nodiscard]] token_id draw(G const& g, std::vector<Real> const& row, Source& source, address a) {
    auto const weight = [&row](index_t i) { return row[at(i)]; };
    auto const n = static_cast<index_t>(row.size());
    auto const sums = g.sum_chunks(n, weight);
    return source.categorical(g, sums, n, weight, {}, a);
}

/// Recursive rejection without a bug.
template <draft_law Law>
struct plain_rejection : verify::node_by_node<plain_rejection<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(p);
        auto d = copy_of(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
