#include "acceptance/rates.hpp"

#include <algorithm>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/k_seq.hpp"
#include "multidraft/analysis/naive.hpp"
#include "multidraft/analysis/recursive_rejection.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/certain_selection.hpp"
#include "multidraft/testing/reference/ranked_node.hpp"

namespace multidraft::examples {

rate recursive_sequential(analysis::ratio_rows const& rows, index_t drafts, estimation const& how) {
    if (analysis::can_walk_prefixes(rows.support(), drafts))
        return {analysis::acceptance_recursive_sequential(rows, drafts)};
    auto const estimate = analysis::estimate_recursive_sequential(rows, drafts, how.samples, how.seed);
    return {estimate.mean, estimate.standard_error};
}

namespace {

probabilities<double> view(std::vector<double> const& row) { return {row.data(), static_cast<index_t>(row.size())}; }

}  // namespace

double ranked_iid(row_pair const& pair, index_t drafts) {
    return multidraft::testing::reference::ranked_node(view(pair.p), view(pair.q), {}, drafts).acceptance();
}

double ranked_stratified(row_pair const& pair, index_t drafts) {
    testing::certain_selection const chosen(draft::stratified{}, pair.q, drafts);
    return multidraft::testing::reference::ranked_node(view(pair.p), view(pair.q), span<token_id const>(chosen.tokens),
                                                       chosen.draws)
        .acceptance();
}

std::vector<measure> const& measures() {
    using pair = row_pair const&;
    using rows = analysis::ratio_rows const&;
    using how = estimation const&;
    auto* const greedy =
        +[](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_stratified(r, n, 1)}; };
    auto* const top = +[](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_deterministic(r, n)}; };
    // Processing may leave fewer tokens than are asked for; drafts without replacement then are all of them.
    static std::vector<measure> const all{
        {"iid", "", [](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_iid(r, n)}; }},
        {"iid", "recursive_rejection",
         [](pair x, rows, index_t n, how) -> rate { return {analysis::acceptance_recursive_iid(x.p, x.q, n)}; }},
        {"iid", "k_seq",
         [](pair x, rows, index_t n, how) -> rate { return {analysis::acceptance_k_seq(x.p, x.q, n)}; }},
        {"iid", "ranked", [](pair x, rows, index_t n, how) -> rate { return {ranked_iid(x, n)}; }},
        {"iid", "naive",
         [](pair x, rows, index_t n, how) -> rate { return {analysis::acceptance_naive_iid(x.p, x.q, n)}; }},
        {"sequential", "",
         [](pair, rows r, index_t n, how) -> rate { return {analysis::alpha_star_sequential(r, n)}; }},
        {"sequential", "recursive_rejection",
         [](pair, rows r, index_t n, how e) { return recursive_sequential(r, n, e); }},
        {"sequential", "naive",
         [](pair x, rows, index_t n, how) -> rate { return {analysis::acceptance_naive_sequential(x.p, x.q, n)}; }},
        {"conditional_poisson", "",
         [](pair, rows r, index_t n, how) -> rate {
             return {analysis::alpha_star_conditional_poisson(r, std::min(n, r.support()))};
         }},
        {"stratified", "",
         [](pair x, rows r, index_t n, how) -> rate {
             testing::certain_selection const chosen(draft::stratified{}, x.q, n);
             auto const certain = static_cast<index_t>(chosen.tokens.size());
             if (chosen.draws == 0) return {analysis::alpha_star_deterministic(r, certain)};
             return {analysis::alpha_star_stratified(r, certain + chosen.draws, chosen.draws)};
         }},
        {"stratified", "ranked", [](pair x, rows, index_t n, how) -> rate { return {ranked_stratified(x, n)}; }},
        // The verifiers of these three laws reach their bounds (Optimal MDSD, Theorem 7 and 5.3).
        {"top_then_one", "", greedy},
        {"top_then_one", "greedy_optimal", greedy},
        {"top_paired", "", greedy, 2, 2},
        {"top_paired", "spec_hub", greedy, 2, 2},
        {"deterministic", "", top},
        {"deterministic", "naive", top},
    };
    return all;
}

}  // namespace multidraft::examples
