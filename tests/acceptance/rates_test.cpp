// Rates by rank: those that the program computes are those of the library's samplers and verifiers, enumerated.
#include "acceptance/rates.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "acceptance/own_verifier.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "reference/ranked.hpp"

namespace rates_test {
namespace {

using namespace multidraft;
using namespace multidraft::examples;

std::vector<double> random_row(std::mt19937_64& numbers, std::size_t size) {
    std::vector<double> row(size);
    double sum = 0;
    for (double& x : row) sum += x = static_cast<double>(numbers() >> 40U) + 1;
    for (double& x : row) x /= sum;
    return row;
}

template <class Sampler, class Verifier>
void expect_ranks(row_pair const& pair, index_t n, std::string const& name, double tolerance = 1e-10) {
    multidraft::testing::node_trial trial(Sampler{}, Verifier{}, pair.p, pair.q, n);
    std::vector<double> wanted(static_cast<std::size_t>(n), 0.0);
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        index_t const rank = trial.run(source);
        if (rank != none) wanted.at(static_cast<std::size_t>(rank)) += source.probability();
    });
    analysis::ratio_rows const rows(pair.p, pair.q);
    estimation how;
    how.by_rank = true;
    bool is_there = false;
    for (measure const& m : measures()) {
        if (m.name() != name || !m.applies(n)) continue;
        is_there = true;
        rate const found = m.compute(pair, rows, n, how);
        ASSERT_EQ(found.by_rank.size(), wanted.size()) << name;
        double sum = 0;
        for (std::size_t k = 0; k < wanted.size(); ++k) {
            EXPECT_NEAR(found.by_rank[k], wanted[k], tolerance) << name << ", n = " << n << ", rank " << k;
            sum += found.by_rank[k];
        }
        EXPECT_NEAR(sum, found.value, 1e-10) << name;
    }
    EXPECT_TRUE(is_there) << name;
}

TEST(rates, by_rank_are_those_of_the_verifiers) {
    std::mt19937_64 numbers(11);
    for (int round = 0; round < 4; ++round)
        for (index_t n = 1; n <= 3; ++n) {
            row_pair const pair{random_row(numbers, 4), random_row(numbers, 4)};
            expect_ranks<draft::iid, verify::recursive_rejection<law::iid>>(pair, n, "recursive_rejection/iid");
            // The verifier's factor is close to the best one, not equal to it.
            expect_ranks<draft::iid, verify::k_seq<law::iid>>(pair, n, "k_seq/iid", 1e-5);
            expect_ranks<draft::iid, multidraft::testing::reference::ranked<law::iid>>(pair, n, "ranked/iid");
            expect_ranks<draft::iid, verify::naive<law::iid>>(pair, n, "naive/iid");
            expect_ranks<draft::sequential, verify::recursive_rejection<law::sequential>>(
                pair, n, "recursive_rejection/sequential");
            expect_ranks<draft::sequential, verify::naive<law::sequential>>(pair, n, "naive/sequential");
            expect_ranks<draft::stratified, multidraft::testing::reference::ranked<law::stratified>>(
                pair, n, "ranked/stratified");
            expect_ranks<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>(pair, n,
                                                                                         "greedy_optimal/top_then_one");
            expect_ranks<draft::top_n, verify::naive<law::deterministic>>(pair, n, "naive/deterministic");
            if (n == 2)
                expect_ranks<draft::top_paired, verify::spec_hub<law::top_paired>>(pair, n, "spec_hub/top_paired");
        }
}

TEST(rates, of_a_verifier_of_ones_own_are_estimated) {
    std::mt19937_64 numbers(12);
    row_pair const pair{random_row(numbers, 50), random_row(numbers, 50)};
    analysis::ratio_rows const rows(pair.p, pair.q);
    auto const own = make_own_verifier("mine", draft::iid{}, verify::recursive_rejection<law::iid>{});
    EXPECT_EQ(own.at_a_node.name(), "mine/iid");
    EXPECT_TRUE(own.at_a_node.lossless);
    estimation how;
    how.trials = 20000;
    how.by_rank = true;
    rate const found = own.at_a_node.compute(pair, rows, 3, how);
    for (measure const& m : measures()) {
        if (m.name() != "recursive_rejection/iid") continue;
        rate const exact = m.compute(pair, rows, 3, how);
        ASSERT_TRUE(found.standard_error);
        EXPECT_NEAR(found.value, exact.value, 5 * *found.standard_error);
        for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(found.by_rank[k], exact.by_rank[k], 5 * *found.standard_error);
    }
    // Trees: the root and two children, of a token that is accepted about half the time.
    token_id token = 0;
    auto const from_half = [&](token_id x) {
        auto const i = static_cast<std::size_t>(x);
        return std::abs(pair.p[i] / pair.q[i] - 0.5);
    };
    for (token_id x = 1; x < 50; ++x)
        if (from_half(x) < from_half(token)) token = x;
    tree_rows tree{{none, 0, 0}, {0, token, token}, {0, 0, 0}, {}, {}, 50};
    for (int node = 0; node < 3; ++node) {
        tree.target.insert(tree.target.end(), pair.p.begin(), pair.p.end());
        tree.draft.insert(tree.draft.end(), pair.q.begin(), pair.q.end());
    }
    std::int64_t accepted = 0;
    for (std::int32_t k = 0; k < 1000; ++k) accepted += own.of_trees.accepted(tree, 3, 0, k);
    EXPECT_GT(accepted, 0);
    EXPECT_LT(accepted, 1000);
}

}  // namespace
}  // namespace rates_test
