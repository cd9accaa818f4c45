// Typical acceptance: its law is not the target's, and how far from it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "multidraft/draft/top_n.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "support/tree_cases.hpp"

namespace typical_acceptance_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
namespace lossy = multidraft::lossy;
using namespace multidraft::testing;

TEST(lossy, typical_acceptance_is_not_the_target) {
    for (shape const& children : std::vector<shape>{{2}, {3}, {2, 1}, {2, 2}}) {
        double mean = 0;
        double accepted = 0;
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            auto const models = random_models(kind::plain, 4, static_cast<int>(children.size()), seed);
            auto const found =
                law_of_step(draft::top_n{}, lossy::typical_acceptance<law::deterministic>{}, children, models);
            double const tv = total_variation(found.law, law_of_target(models.target, children.size() + 1));
            EXPECT_GE(tv, 0);
            mean += tv / 10;
            accepted += found.mean_accepted / 10;
        }
        std::printf("    %-4s total variation %.3f, accepted %.2f\n", print(children).c_str(), mean, accepted);
        EXPECT_GT(mean, 0.05);
    }
    // At temperature 0 it accepts the tokens of greedy decoding.
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        auto const models = random_models(kind::greedy, 4, 2, seed);
        EXPECT_LT(
            (distance_from_target(draft::top_n{}, lossy::typical_acceptance<law::deterministic>{}, {2, 1}, models)),
            1e-12);
    }
    EXPECT_THROW((lossy::typical_acceptance<law::deterministic>(0.0F, 0.3F)), multidraft::invalid_input);
    EXPECT_THROW((lossy::typical_acceptance<law::deterministic>(0.1F, 1.5F)), multidraft::invalid_input);
}

}  // namespace
}  // namespace typical_acceptance_test
