// Ranked verification from a histogram: the exact law of its output, and its acceptance.
#include "multidraft/verify/ranked.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "bugs/certain_with_ratio.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "support/golden.hpp"
#include "support/tree_cases.hpp"

namespace ranked_test {
namespace {

namespace analysis = multidraft::analysis;
namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::model_pair;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::small_model;
using multidraft::testing::tree_case;
using row = std::vector<double>;

double lost = 0;  ///< of alpha*, at most

std::vector<tree_case> trees() {
    return {{{1}, 1}, {{1}, 3}, {{2}, 1}, {{2}, 2},    {{2}, 3},    {{2}, 5},
            {{3}, 3}, {{3}, 4}, {{4}, 2}, {{1, 1}, 3}, {{2, 1}, 3}, {{2, 2}, 2}};
}

TEST(ranked, is_lossless) {
    multidraft::testing::expect_lossless_trees<draft::iid, verify::ranked<law::iid>>(trees(), {}, {}, 1);
    multidraft::testing::expect_lossless_trees<draft::stratified, verify::ranked<law::stratified>>(trees(), {}, {}, 2);
}

/// The acceptance rate, from the law of the candidate: certain tokens and sum min(p, m).
template <class Law, class Sampler>
double acceptance(Sampler const& sampler, row const& p, row const& q, index_t n) {
    multidraft::host_group const g;
    auto const size = static_cast<index_t>(p.size());
    multidraft::probabilities<double> const target(p.data(), size);
    multidraft::probabilities<double> const model(q.data(), size);
    std::vector<token_id> children(static_cast<std::size_t>(n));
    auto sums = g.sum_chunks(size, multidraft::weight_of{model});
    multidraft::addressed_source source;
    auto const drawn = sampler(g, model, sums, source, {}, span<token_id>(children));
    verify::candidate_list const candidates(span<token_id const>(children).first(static_cast<std::size_t>(drawn.count)),
                                            drawn.certain);
    double result = 0;
    double best = 0;
    if (candidates.draws() == 0) {
        for (token_id const x : candidates.tokens) result += target(x);
        best = analysis::alpha_star_deterministic(p, q, drawn.count);
    } else {
        auto const draft_row = verify::detail::in_units<double>(model);
        verify::detail::ranked_rows<multidraft::probabilities<double>, std::decay_t<decltype(draft_row)>> rows(
            g, target, draft_row, candidates);
        static verify::detail::rank_table table;
        verify::detail::grid_density<double> density[verify::detail::rank_table::grid_points];
        EXPECT_TRUE(rows.template build<false>(g, verify::detail::best_rank_cdf{candidates.draws()}, table, density));
        auto const m = rows.law(density);
        result = rows.certain_mass;
        double total = 0;
        for (index_t i = 0; i < size; ++i) {
            result += std::min(target(i), m(i));
            total += m(i);
        }
        EXPECT_NEAR(total, 1, 1e-12);
        best = analysis::alpha_star_stratified(p, q, candidates.count(), candidates.draws());
    }
    // The bound for verifiers of this law.
    EXPECT_LE(result, best + 1e-12);
    EXPECT_GT(result, best - 1e-3);
    lost = std::max(lost, best - result);
    return result;
}

TEST(ranked, accepts_almost_what_any_verifier_can) {
    lost = 0;
    for (auto const& c : multidraft::testing::golden_cases()) {
        acceptance<law::iid>(draft::iid{}, c.p, c.q, c.n);
        acceptance<law::stratified>(draft::stratified{}, c.p, c.q, c.n);
    }
    for (kind const k : multidraft::testing::all_kinds)
        for (std::uint64_t seed = 1; seed <= 40; ++seed)
            for (index_t n = 1; n <= 6; ++n) {
                auto const models = random_models(k, 30, 0, 300 + seed);
                acceptance<law::iid>(draft::iid{}, models.target[0], models.draft[0], n);
                acceptance<law::stratified>(draft::stratified{}, models.target[0], models.draft[0], n);
            }
    std::printf("    at most %.2e is lost\n", lost);
}

TEST(ranked, accepts_at_the_rate_of_its_law) {
    for (kind const k : multidraft::testing::all_kinds) {
        auto const models = random_models(k, 4, 1, 300);
        row const& p = models.target[0];
        row const& q = models.draft[0];
        for (int n = 1; n <= 3; ++n) {
            SCOPED_TRACE(multidraft::testing::name_of(k));
            EXPECT_NEAR(law_of_step(draft::iid{}, verify::ranked<law::iid>{}, {n}, models).mean_accepted,
                        acceptance<law::iid>(draft::iid{}, p, q, n), 1e-6);
            EXPECT_NEAR(law_of_step(draft::stratified{}, verify::ranked<law::stratified>{}, {n}, models).mean_accepted,
                        acceptance<law::stratified>(draft::stratified{}, p, q, n), 1e-6);
        }
    }
}

/// The law of the candidate for rows of one type.
template <class Real>
std::vector<double> law_in(std::vector<float> const& p, std::vector<float> const& q, index_t draws) {
    std::vector<Real> const target(p.begin(), p.end());
    std::vector<Real> const model(q.begin(), q.end());
    auto const size = static_cast<index_t>(p.size());
    using row_of = multidraft::probabilities<Real>;
    std::vector<token_id> const children(static_cast<std::size_t>(draws), 0);
    using draft_row = verify::detail::in_units_of<row_of, Real>;
    verify::detail::ranked_rows<row_of, draft_row> rows(multidraft::host_group{}, row_of(target.data(), size),
                                                        verify::detail::in_units<Real>(row_of(model.data(), size)),
                                                        children);
    verify::detail::rank_table table;
    verify::detail::grid_density<Real> density[verify::detail::rank_table::grid_points];
    EXPECT_TRUE(
        rows.template build<false>(multidraft::host_group{}, verify::detail::best_rank_cdf{draws}, table, density));
    std::vector<double> law;
    for (index_t i = 0; i < size; ++i) law.push_back(static_cast<double>(rows.law(density)(i)));
    return law;
}

// The law is proved in double; rows of floats keep their densities otherwise.
TEST(ranked, has_one_law_in_float_and_double) {
    for (kind const k : multidraft::testing::all_kinds)
        for (index_t const draws : {1, 2, 5}) {
            auto const models = random_models(k, 30, 0, 500);
            std::vector<float> const p(models.target[0].begin(), models.target[0].end());
            std::vector<float> const q(models.draft[0].begin(), models.draft[0].end());
            auto const in_float = law_in<float>(p, q, draws);
            auto const in_double = law_in<double>(p, q, draws);
            for (std::size_t i = 0; i < p.size(); ++i)
                EXPECT_NEAR(in_float[i], in_double[i], 2e-6) << multidraft::testing::name_of(k) << ", token " << i;
        }
}

TEST(ranked, bugs_are_caught) {
    double worst = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
        worst =
            std::max(worst, multidraft::testing::distance_from_target(draft::stratified{}, bugs::certain_with_ratio{},
                                                                      {2}, random_models(kind::plain, 3, 1, seed)));
    std::printf("    certain_with_ratio: total variation up to %.4f\n", worst);
    EXPECT_GT(worst, 1e-3);
}

}  // namespace
}  // namespace ranked_test
