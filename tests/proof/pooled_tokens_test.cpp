// Rows most of whose tokens have negligible mass: these are pooled, and the law stays exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include "bugs/pool_forgotten.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/detail/ratio_histogram.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"

namespace pooled_tokens_test {
namespace {

using namespace multidraft;
using multidraft::testing::distance_from_target;
using multidraft::testing::model_pair;
using multidraft::testing::small_model;
using row = std::vector<double>;

/// Two tokens, and six of negligible q; the target's mass on those is `forgotten`.
model_pair models(double forgotten, int depth) {
    model_pair result{small_model(8, depth), small_model(8, depth)};
    for (std::size_t c = 0; c < result.target.contexts(); ++c) {
        double const f = forgotten;
        result.target[c] = {f / 2, 0.6 - f / 2, f / 4, 0, 0.4 - f / 2, f / 8, f / 16, f / 16};
        result.draft[c] = {1e-8, 0.3, 2e-8, 5e-9, 0.7 - 4.1e-8, 1e-9, 0, 5e-9};
    }
    return result;
}

TEST(pooled_tokens, keep_the_law_of_the_target) {
    for (double const forgotten : {0.0, 1e-8, 1e-3, 0.5})
        for (std::vector<int> const& children : {std::vector<int>{1}, {2}, {3}, {1, 1}}) {
            SCOPED_TRACE(forgotten);
            auto const given = models(forgotten, static_cast<int>(children.size()));
            EXPECT_LT(distance_from_target(draft::iid{}, verify::ranked<law::iid>{}, children, given), 1e-12);
            EXPECT_LT(distance_from_target(draft::stratified{}, verify::ranked<law::stratified>{}, children, given),
                      1e-12);
            EXPECT_LT(distance_from_target(draft::iid{}, verify::ranked_block<law::iid>{}, children, given), 1e-12);
            EXPECT_LT(
                distance_from_target(draft::stratified{}, verify::ranked_block<law::stratified>{}, children, given),
                1e-12);
        }
}

TEST(pooled_tokens, are_not_forgotten_by_the_law) {
    double const off = distance_from_target(draft::iid{}, bugs::pool_forgotten{}, {2}, models(0.5, 1));
    std::printf("    pool_forgotten: total variation %.1e\n", off);
    EXPECT_GT(off, 1e-10);  // the largest effect of tokens of mass 4e-8
}

/// How much of alpha* is lost, and whether tokens were pooled.
double lost(row const& p, row const& q, index_t draws, bool& pooled) {
    auto const size = static_cast<index_t>(p.size());
    using row_of = probabilities<double>;
    std::vector<token_id> const children(static_cast<std::size_t>(draws), 0);
    verify::detail::ranked_rows<row_of, verify::detail::in_units_of<row_of, double>> rows(
        host_group{}, {p.data(), size}, verify::detail::in_units<double>(row_of(q.data(), size)), children);
    verify::detail::rank_table table;
    verify::detail::grid_density<double> density[verify::detail::rank_table::grid_points];
    EXPECT_TRUE(rows.build<false>(host_group{}, verify::detail::best_rank_cdf{draws}, table, density));
    pooled = rows.where.pooled > 0;
    auto const m = rows.law(density);
    double accepted = 0;
    double all = 0;
    for (index_t i = 0; i < size; ++i) {
        accepted += std::min(rows.where.p(i), m(i));
        all += m(i);
    }
    EXPECT_NEAR(all, 1, 1e-12);
    return analysis::alpha_star_stratified(p, q, draws, draws) - accepted;
}

TEST(pooled_tokens, cost_less_than_a_thousandth) {
    multidraft::testing::test_numbers numbers(5);
    double worst = 0;
    // As much mass as may be pooled, and a target with little or much mass on half of those tokens.
    constexpr std::size_t size = 20000;
    constexpr double each = 0.9 * 0x1p-13 / size;
    for (double const cared : {0.0, 1e-4, 1e-2, 0.9})
        for (index_t const draws : {1, 2, 4, 8}) {
            row p(size, 0.0);
            row q(size, each);
            for (std::size_t i = 0; i < size; i += 2) p[i] = cared;
            row heads_p;
            row heads_q;
            for (std::size_t i = 0; i < 8; ++i) {
                heads_p.push_back(numbers());
                heads_q.push_back(numbers());
            }
            double const all_p = std::accumulate(heads_p.begin(), heads_p.end(), 0.0);
            double const all_q = std::accumulate(heads_q.begin(), heads_q.end(), 0.0);
            for (std::size_t i = 0; i < 8; ++i) {
                p[7 + i * 2000] = (1 - cared) * heads_p[i] / all_p;
                q[7 + i * 2000] = (1 - each * (size - 8)) * heads_q[i] / all_q;
            }
            for (std::size_t i = 0; i < size; i += 2) p[i] /= size / 2;
            bool pooled = false;
            double const here = lost(p, q, draws, pooled);
            EXPECT_TRUE(pooled);
            EXPECT_LT(here, 1e-3) << cared << " cared for, " << draws << " draws";
            worst = std::max(worst, here);
        }
    std::printf("    at most %.2e is lost\n", worst);
}

TEST(pooled_tokens, are_most_and_light_or_left_alone) {
    bool pooled = true;
    EXPECT_LT(lost({0.25, 0.25, 0.5 - 1e-9, 1e-9}, {0.5, 0.25, 0.25 - 1e-9, 1e-9}, 2, pooled), 1e-3);
    EXPECT_FALSE(pooled);  // most tokens are not small
    row many(40000, 2e-8);
    many[0] = 1 - 39999 * 2e-8;
    EXPECT_LT(lost(many, many, 2, pooled), 1e-3);
    EXPECT_FALSE(pooled);  // small ones, of 8e-4 together
}

}  // namespace
}  // namespace pooled_tokens_test
