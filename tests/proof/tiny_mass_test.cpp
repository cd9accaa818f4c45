// Drafts that are almost certain: the other tokens have tiny mass, and are drawn once nothing else is left.
#include <gtest/gtest.h>

#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace tiny_mass_test {
namespace {

using namespace multidraft;
using multidraft::testing::distance_from_target;
using multidraft::testing::model_pair;
using multidraft::testing::small_model;

/// A target that spreads its mass, and a draft that leaves `tiny` for all tokens but one, the same in every context.
model_pair models(double tiny, int depth) {
    model_pair result{small_model(4, depth), small_model(4, depth)};
    for (std::size_t c = 0; c < result.target.contexts(); ++c) {
        result.target[c] = {0.3, 0.5, 0.1, 0.1};
        result.draft[c] = {tiny, 1.0 - tiny - tiny / 3, tiny / 3, 0.0};
    }
    return result;
}

TEST(tiny_mass, is_drawn_and_judged_like_any_other) {
    for (double const tiny : {1e-9, 1e-30, 1e-40, 1e-100, 1e-200, 1e-300}) {
        SCOPED_TRACE(tiny);
        for (std::vector<int> const& children : {std::vector<int>{2}, {3}, {2, 1}, {2, 2}}) {
            auto const given = models(tiny, static_cast<int>(children.size()));
            using multidraft::draft::sequential;
            EXPECT_LT(distance_from_target(sequential{}, verify::naive<law::sequential>{}, children, given), 1e-12);
            EXPECT_LT(
                distance_from_target(sequential{}, verify::recursive_rejection<law::sequential>{}, children, given),
                1e-12);
            EXPECT_LT(distance_from_target(sequential{}, verify::traversal<law::sequential>{}, children, given), 1e-12);
            EXPECT_LT(distance_from_target(draft::iid{}, verify::traversal<law::iid>{}, children, given), 1e-12);
            EXPECT_LT(distance_from_target(draft::stratified{}, verify::ranked<law::stratified>{}, children, given),
                      1e-12);
        }
    }
}

}  // namespace
}  // namespace tiny_mass_test
