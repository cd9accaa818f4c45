// Candidates in heats: the best of each heat is tried against the exact law of the best. An invented verifier whose
// variations are bugs; this one is lossless.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "bugs/plain_rejection.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::bugs {

/// The correct rules of a heat.
struct heat_rules {
    /// Whether the best of a heat is chosen by the residual of the target; else by the original target.
    static constexpr bool updates_order = true;
    /// Whether the law of the best counts tokens of one ratio one after another; else each as if it were the first.
    static constexpr bool breaks_ties = true;
};

/// Independent candidates in heats of `Size`, in the order drawn. In each heat the token with the largest r/q is tried:
/// it is the best of `Size` draws, whose law b is known exactly, so it is accepted with min(1, r / b), else r <-
/// Norm[(r - b)+]. A token emitted in the end that was drafted counts as accepted. With heats of one it is recursive
/// rejection.
template <int Size, class Rules = heat_rules>
struct plain_heats : verify::node_by_node<plain_heats<Size, Rules>, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, verify::candidate_list candidates,
                                              Source& source, draw_site site) const {
        auto const stale = copy_of(p);
        auto r = stale;
        auto const d = copy_of(q);
        for (index_t first = 0; first < candidates.count(); first += Size) {
            index_t const end = std::min(first + Size, candidates.count());
            auto const fresh = order_of_ratios(r, d);
            auto const used = Rules::updates_order ? fresh : order_of_ratios(stale, d);
            index_t best = first;
            for (index_t k = first + 1; k < end; ++k)
                if (rank_in(used, candidates[k]) < rank_in(used, candidates[best])) best = k;
            auto const b = law_of_best(fresh, r, d, end - first);
            token_id const x = candidates[best];
            if (source.bernoulli(site(purpose::acceptance, first), r[at(x)], b[at(x)])) return {best, x};
            subtract(r, b);
        }
        return verify::found_among(candidates, draw(g, r, source, site(purpose::residual, 0)));
    }

private:
    /// Tokens by r/q, largest first, ties to the lower token.
    template <class Real>
    static std::vector<token_id> order_of_ratios(std::vector<Real> const& r, std::vector<Real> const& d) {
        std::vector<token_id> order(r.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](token_id a, token_id b) { return r[at(a)] * d[at(b)] > r[at(b)] * d[at(a)]; });
        return order;
    }

    static index_t rank_in(std::vector<token_id> const& order, token_id x) {
        return static_cast<index_t>(std::find(order.begin(), order.end(), x) - order.begin());
    }

    /// The law of the best of `draws` independent draws.
    template <class Real>
    static std::vector<Real> law_of_best(std::vector<token_id> const& order, std::vector<Real> const& r,
                                         std::vector<Real> const& d, index_t draws) {
        std::vector<Real> law(d.size(), Real(0));
        double above = 1;  // the mass of tokens that are not better
        double tied = 1;   // the same at the first token of this ratio
        for (std::size_t k = 0; k < order.size(); ++k) {
            token_id const x = order[k];
            token_id const before = order[k > 0 ? k - 1 : 0];
            if (r[at(x)] * d[at(before)] != r[at(before)] * d[at(x)]) tied = above;
            double const from = Rules::breaks_ties ? above : tied;
            double const below = std::max(from - static_cast<double>(d[at(x)]), 0.0);
            law[at(x)] = static_cast<Real>(std::pow(from, draws) - std::pow(below, draws));
            above = std::max(above - static_cast<double>(d[at(x)]), 0.0);
        }
        return law;
    }
};

}  // namespace multidraft::bugs
