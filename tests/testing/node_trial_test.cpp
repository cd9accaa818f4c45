// Trials of one node: enumeration agrees with the formulas, for verifiers of nodes and of whole trees.
#include "multidraft/testing/node_trial.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace node_trial_test {
namespace {

namespace analysis = multidraft::analysis;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace testing_ = multidraft::testing;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::invalid_input;
using row = std::vector<double>;

row const p{0.15, 0.35, 0.30, 0.20};
row const q{0.40, 0.10, 0.20, 0.30};

/// The probability that the child of each rank is accepted.
template <class Trial>
std::vector<double> by_rank(Trial trial) {
    std::vector<double> result(static_cast<std::size_t>(trial.children()), 0.0);
    testing_::enumerate([&](testing_::enumerating_source& source) {
        index_t const rank = trial.run(source);
        if (rank != multidraft::none) result.at(static_cast<std::size_t>(rank)) += source.probability();
    });
    return result;
}

template <class RateOf>
void expect_in_turn(std::vector<double> const& found, RateOf rate_of) {
    double sum = 0;
    for (std::size_t k = 0; k < found.size(); ++k) {
        sum += found[k];
        EXPECT_NEAR(sum, rate_of(static_cast<index_t>(k) + 1), 1e-12) << "rank " << k;
    }
}

TEST(node_trial, has_the_rates_of_the_formulas_by_rank) {
    expect_in_turn(by_rank(testing_::node_trial(draft::iid{}, verify::recursive_rejection<law::iid>{}, p, q, 3)),
                   [](index_t n) { return analysis::acceptance_recursive_iid(p, q, n); });
    expect_in_turn(
        by_rank(testing_::node_trial(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, 3)),
        [](index_t n) { return analysis::acceptance_recursive_sequential(p, q, n); });
    expect_in_turn(by_rank(testing_::node_trial(draft::iid{}, verify::naive<law::iid>{}, p, q, 3)),
                   [](index_t n) { return analysis::acceptance_naive_iid(p, q, n); });
}

TEST(node_trial, takes_verifiers_of_whole_trees) {
    auto const nodes =
        by_rank(testing_::node_trial(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, 2));
    auto const trees =
        by_rank(testing_::node_trial(draft::sequential{}, verify::traversal<law::sequential>{}, p, q, 2));
    for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(trees[k], nodes[k], 1e-12);
    auto const blocks =
        by_rank(testing_::node_trial(draft::stratified{}, verify::ranked_block<law::stratified>{}, p, q, 2));
    EXPECT_GT(blocks[0] + blocks[1], nodes[0]);
}

TEST(node_trial, of_more_children_than_tokens_draws_what_there_is) {
    row const two{0.6, 0.4, 0, 0};
    auto const found = by_rank(testing_::node_trial(draft::sequential{}, verify::naive<law::sequential>{}, p, two, 4));
    EXPECT_NEAR(found[0] + found[1], 0.5, 1e-12);
    EXPECT_EQ(found[2] + found[3], 0);
}

TEST(node_trial, estimates_what_the_formulas_compute) {
    std::int64_t const trials = 20000;
    testing_::node_trial trial(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, 2, 5);
    auto const found = analysis::estimate_acceptance(trial, trials);
    double const rate = analysis::acceptance_recursive_sequential(p, q, 2);
    EXPECT_NEAR(found.rate, rate, 5 * found.standard_error);
    EXPECT_NEAR(found.by_rank[0], analysis::acceptance_recursive_sequential(p, q, 1), 5 * found.standard_error);
    // The same draws again; others for another seed.
    testing_::node_trial again(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, 2, 5);
    EXPECT_EQ(analysis::estimate_acceptance(again, trials).by_rank, found.by_rank);
    testing_::node_trial other(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, 2, 6);
    EXPECT_NE(analysis::estimate_acceptance(other, trials).by_rank, found.by_rank);
}

TEST(node_trial, refuses_what_is_no_node) {
    using trial = testing_::node_trial<draft::iid, verify::naive<law::iid>>;
    EXPECT_THROW(trial({}, {}, p, q, 0), invalid_input);
    EXPECT_THROW(trial({}, {}, p, row{0.5, 0.5}, 1), invalid_input);
    EXPECT_THROW(trial({}, {}, row{0.5, 0.4, 0, 0}, q, 1), invalid_input);
    EXPECT_THROW(trial({}, {}, p, row{0.5, 0.5, std::nan(""), 0}, 1), invalid_input);
    EXPECT_THROW(static_cast<void>(trial({}, {}, p, q, 1)(-1)), invalid_input);
}

}  // namespace
}  // namespace node_trial_test
