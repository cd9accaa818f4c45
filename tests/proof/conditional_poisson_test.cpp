// Conditional Poisson sampling: the exact law of its sets, and naive verification of them on trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/naive.hpp"
#include "support/tree_cases.hpp"

namespace conditional_poisson_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;
using multidraft::draw_site;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::none;
using multidraft::probabilities;
using multidraft::span;
using multidraft::token_id;
using multidraft::weight_of;

TEST(conditional_poisson, draws_sets_in_proportion_to_their_products) {
    host_group const g;
    for (kind const k : all_kinds) {
        // 40 tokens: beyond the listed ones too.
        for (index_t const vocabulary : {1, 2, 5, 6, 40}) {
            auto const models = random_models(k, vocabulary, 0, 3);
            auto const& q = models.draft[0];
            auto const support = static_cast<int>(std::count_if(q.begin(), q.end(), [](double x) { return x > 0; }));
            for (int n = 1; n <= (vocabulary > 6 ? 2 : 4); ++n) {
                std::map<std::vector<token_id>, double> found;
                multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
                    probabilities<double> const row(q.data(), vocabulary);
                    auto sums = g.sum_chunks(vocabulary, weight_of{row});
                    std::vector<token_id> out(static_cast<std::size_t>(n), none);
                    auto const drawn =
                        draft::conditional_poisson{}(g, row, sums, source, draw_site{0, 0}, span<token_id>(out));
                    ASSERT_EQ(drawn.count, std::min(n, support)) << name_of(k);
                    out.resize(static_cast<std::size_t>(drawn.count));
                    found[out] += source.probability();
                });
                double total = 0;
                auto const product = [&](std::vector<token_id> const& s) {
                    double value = 1;
                    for (token_id const x : s) value *= q[static_cast<std::size_t>(x)];
                    return value;
                };
                for (auto const& [set, chance] : found) total += product(set);
                for (auto const& [set, chance] : found) {
                    EXPECT_TRUE(std::adjacent_find(set.begin(), set.end()) == set.end());
                    EXPECT_NEAR(chance, product(set) / total, 1e-12)
                        << name_of(k) << ", V " << vocabulary << ", n " << n;
                }
                // All sets occur, except those whose probability is too small for a draw in doubles.
                if (k == kind::steep_draft || k == kind::steep) continue;
                double sets = 1;
                for (int i = 0; i < std::min(n, support); ++i) sets = sets * (support - i) / (i + 1);
                EXPECT_EQ(static_cast<double>(found.size()), std::round(sets)) << name_of(k);
            }
        }
    }
}

TEST(lossless, naive_verification_of_conditional_poisson_drafts) {
    expect_lossless_trees<draft::conditional_poisson, verify::naive<law::conditional_poisson>>(
        {{{1}, 3}, {{2}, 4}, {{3}, 4}, {{2, 1}, 3}, {{2, 2}, 3}});
}

}  // namespace
}  // namespace conditional_poisson_test
