// Acceptance rates from trials: counts, standard errors, and errors.
#include "multidraft/analysis/estimate_acceptance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace estimate_acceptance_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::invalid_input;

/// Accepts by a list, cyclically.
struct listed_trial {
    std::vector<index_t> ranks;
    index_t wanted = 3;

    [[nodiscard]] index_t children() const { return wanted; }
    index_t operator()(std::int64_t k) const { return ranks[static_cast<std::size_t>(k) % ranks.size()]; }
};

TEST(estimate_acceptance, counts_ranks) {
    auto const found = analysis::estimate_acceptance(listed_trial{{0, multidraft::none, 2, 0}}, 400);
    EXPECT_EQ(found.rate, 0.75);
    EXPECT_EQ(found.by_rank, (std::vector<double>{0.5, 0, 0.25}));
    EXPECT_EQ(found.trials, 400);
    EXPECT_DOUBLE_EQ(found.standard_error, std::sqrt(0.75 * 0.25 / 399));
    EXPECT_EQ(analysis::estimate_acceptance(listed_trial{{1}}, 2).standard_error, 0);
}

TEST(estimate_acceptance, refuses_ranks_that_no_child_has) {
    EXPECT_THROW(static_cast<void>(analysis::estimate_acceptance(listed_trial{{3}}, 10)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::estimate_acceptance(listed_trial{{-2}}, 10)), invalid_input);
    EXPECT_THROW(static_cast<void>(analysis::estimate_acceptance(listed_trial{{0}}, 1)), invalid_input);
}

}  // namespace
}  // namespace estimate_acceptance_test
