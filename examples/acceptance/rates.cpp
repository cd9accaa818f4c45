#include "acceptance/rates.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_then_one.hpp"

namespace multidraft::examples {

rate recursive_sequential(analysis::ratio_rows const& rows, index_t drafts, estimation const& how) {
    if (analysis::can_walk_prefixes(rows.support(), drafts))
        return {analysis::acceptance_by_rejected_prefixes(rows, drafts)};
    auto const estimate = analysis::estimate_recursive_sequential(rows, drafts, how.samples, how.seed);
    return {estimate.mean, estimate.standard_error};
}

namespace {

/// The rate of n candidates that are tried one after the other. The fate of the first k does not depend on later ones,
/// so candidate k adds the rate of k minus that of k - 1.
template <class RateOf>
rate in_turn(index_t n, estimation const& how, RateOf rate_of) {
    rate result = rate_of(n);
    if (!how.by_rank) return result;
    double before = 0;
    for (index_t k = 1; k <= n; ++k) {
        double const now = k < n ? rate_of(k).value : result.value;
        result.by_rank.push_back(now - before);
        before = now;
    }
    return result;
}

/// K-SEQ accepts each candidate with the same probability beta: 1 - (1 - beta)^n in all.
rate k_seq(row_pair const& x, index_t n, estimation const& how) {
    rate result{analysis::acceptance_k_seq(x.p, x.q, n)};
    if (!how.by_rank) return result;
    double const refused = std::pow(1 - result.value, 1.0 / n);
    double left = 1;
    for (index_t k = 0; k < n; ++k, left *= refused) result.by_rank.push_back(left * (1 - refused));
    return result;
}

/// By rank: a certain child is accepted whenever the target's token equals it, as the verifier is lossless and the
/// draws are other tokens. Exchangeable draws share the rest.
rate shared(double value, draft::certain_selection const& chosen, row_pair const& x, index_t n, estimation const& how) {
    rate result{value};
    if (!how.by_rank) return result;
    result.by_rank.assign(static_cast<std::size_t>(n), 0.0);
    double rest = value;
    std::size_t const certain = chosen.tokens.size();
    for (std::size_t k = 0; k < certain; ++k)
        rest -= result.by_rank[k] = x.p[static_cast<std::size_t>(chosen.tokens[k])];
    for (index_t k = 0; k < chosen.draws; ++k)
        result.by_rank[certain + static_cast<std::size_t>(k)] = std::max(rest, 0.0) / chosen.draws;
    return result;
}

/// The pair of SpecHub begins with the most likely token. It is always there, so it is accepted whenever the target's
/// token equals it.
rate spec_hub(row_pair const& x, analysis::ratio_rows const& rows, estimation const& how) {
    rate result{analysis::alpha_star_stratified(rows, 2, 1)};
    if (!how.by_rank) return result;
    auto const top = static_cast<std::size_t>(std::max_element(x.q.begin(), x.q.end()) - x.q.begin());
    result.by_rank = {x.p[top], std::max(result.value - x.p[top], 0.0)};
    return result;
}

}  // namespace

double ranked_iid(row_pair const& pair, index_t drafts) { return analysis::alpha_star_iid(pair.p, pair.q, drafts); }

double ranked_stratified(row_pair const& pair, index_t drafts) {
    draft::certain_selection const chosen(draft::stratified{}, pair.q, drafts);
    auto const certain = static_cast<index_t>(chosen.tokens.size());
    if (chosen.draws == 0) return analysis::alpha_star_deterministic(pair.p, pair.q, certain);
    return analysis::alpha_star_stratified(pair.p, pair.q, certain + chosen.draws, chosen.draws);
}

std::vector<measure> const& measures() {
    using pair = row_pair const&;
    using rows = analysis::ratio_rows const&;
    using how = estimation const&;
    auto const greedy_bound = [](pair, rows r, index_t n, how) -> rate {
        return {analysis::alpha_star_stratified(r, n, 1)};
    };
    auto const top_bound = [](pair, rows r, index_t n, how) -> rate {
        return {analysis::alpha_star_deterministic(r, n)};
    };
    // Processing may leave fewer tokens than drafts; drafts without replacement are then all of them.
    static std::vector<measure> const all{
        {"iid", "", [](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_iid(r, n)}; }},
        {"iid", "recursive_rejection",
         [](pair x, rows, index_t n, how e) {
             return in_turn(n, e, [&](index_t k) -> rate { return {analysis::acceptance_recursive_iid(x.p, x.q, k)}; });
         }},
        {"iid", "k_seq", [](pair x, rows, index_t n, how e) { return k_seq(x, n, e); }},
        {"iid", "ranked",
         [](pair x, rows, index_t n, how e) {
             rate result{ranked_iid(x, n)};
             // Every candidate has the best rank with equal probability.
             if (e.by_rank) result.by_rank.assign(static_cast<std::size_t>(n), result.value / n);
             return result;
         }},
        {"iid", "naive",
         [](pair x, rows, index_t n, how e) {
             return in_turn(n, e, [&](index_t k) -> rate { return {analysis::acceptance_naive_iid(x.p, x.q, k)}; });
         }},
        {"sequential", "",
         [](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_sequential(r, n)}; }},
        {"sequential", "recursive_rejection",
         [](pair, rows r, index_t n, how e) {
             return in_turn(n, e, [&](index_t k) { return recursive_sequential(r, k, e); });
         }},
        {"sequential", "naive",
         [](pair x, rows, index_t n, how e) {
             return in_turn(n, e,
                            [&](index_t k) -> rate { return {analysis::acceptance_naive_sequential(x.p, x.q, k)}; });
         }},
        {"conditional_poisson", "",
         [](pair, rows r, index_t n, how) -> rate {
             return {analysis::alpha_star_conditional_poisson(r, std::min(n, r.support()))};
         }},
        {"stratified", "",
         [](pair x, rows r, index_t n, how) -> rate {
             draft::certain_selection const chosen(draft::stratified{}, x.q, n);
             auto const certain = static_cast<index_t>(chosen.tokens.size());
             if (chosen.draws == 0) return {analysis::alpha_star_deterministic(r, certain)};
             return {analysis::alpha_star_stratified(r, certain + chosen.draws, chosen.draws)};
         }},
        {"stratified", "ranked",
         [](pair x, rows, index_t n, how e) {
             return shared(ranked_stratified(x, n), {draft::stratified{}, x.q, n}, x, n, e);
         }},
        // The verifiers of these three laws attain their bounds ([OptimalMDSD], Theorem 7 and 5.3).
        {"top_then_one", "", greedy_bound},
        {"top_then_one", "greedy_optimal",
         [](pair x, rows r, index_t n, how e) {
             return shared(analysis::alpha_star_stratified(r, n, 1), {draft::top_then_one{}, x.q, n}, x, n, e);
         }},
        {"top_paired", "", greedy_bound, 2, 2},
        {"top_paired", "spec_hub", [](pair x, rows r, index_t, how e) { return spec_hub(x, r, e); }, 2, 2},
        {"deterministic", "", top_bound},
        {"deterministic", "naive",
         [](pair, rows r, index_t n, how e) {
             return in_turn(n, e, [&](index_t k) -> rate { return {analysis::alpha_star_deterministic(r, k)}; });
         }},
    };
    return all;
}

}  // namespace multidraft::examples
