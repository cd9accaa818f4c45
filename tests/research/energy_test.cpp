// The decomposition of energy by MTAD (9): by hand, and the paper's conclusions from it.
#include "multidraft/research/energy.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "support/refusal.hpp"

namespace energy_test {
namespace {

namespace research = multidraft::research;
using multidraft::testing::refusal;

TEST(modelled_joules, is_the_formula) {
    // 10^9 parameters of 2 bytes, 3 calls of 4 rows: 24 * 10^9 operations, 6 * 10^9 bytes.
    auto const work = research::work_of_calls(1e9, 2, 3, 12);
    EXPECT_DOUBLE_EQ(work.operations, 24e9);
    EXPECT_DOUBLE_EQ(work.bytes, 6e9);
    research::machine_powers const machine{1e12, 1e11, 50, 100};
    EXPECT_DOUBLE_EQ(research::modelled_joules(work, machine), 50 * 0.024 + 100 * 0.06);
}

// Fewer calls of the target read less, and the extra computation does not matter while memory dominates the time.
TEST(modelled_joules, falls_with_the_calls_of_the_target) {
    research::machine_powers const machine{1e14, 1e12, 100, 100};
    double const tokens = 1000;
    auto const plain = research::work_of_calls(7e9, 2, tokens, tokens);
    double const calls = tokens / 2.5;
    auto speculative = research::work_of_calls(7e9, 2, calls, 5 * calls);
    speculative += research::work_of_calls(7e7, 2, 4 * calls, 4 * calls);
    double const ratio = research::modelled_joules(speculative, machine) / research::modelled_joules(plain, machine);
    EXPECT_GT(ratio, 1 / 2.5);
    EXPECT_LT(ratio, 0.5);
    // Inputs in one call share the bytes read: the energy per input falls with the batch (the paper's table 2).
    double last = 1e300;
    for (int batch = 1; batch <= 16; batch *= 2) {
        auto const work = research::work_of_calls(7e9, 2, 1, batch);
        double const each = research::modelled_joules(work, machine) / batch;
        EXPECT_LT(each, last);
        last = each;
    }
}

TEST(modelled_joules, refuses_other_numbers) {
    EXPECT_EQ(refusal([] {
                  return research::modelled_joules({1, 1}, {0, 1, 1, 1});
              }),
              "operations_per_second = 0: it is finite and positive");
    EXPECT_EQ(refusal([] {
                  return research::modelled_joules({1, 1}, {1, 1, -1, 1});
              }),
              "watts_of_operations = -1: it is finite and not negative");
    EXPECT_EQ(refusal([] {
                  return research::modelled_joules({-1, 1}, {1, 1, 1, 1});
              }),
              "operations = -1: it is finite and not negative");
    EXPECT_EQ(refusal([] { return research::work_of_calls(1, 1, std::numeric_limits<double>::infinity(), 1); }),
              "calls = inf: it is finite and not negative");
}

}  // namespace
}  // namespace energy_test
