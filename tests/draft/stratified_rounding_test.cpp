// Stratified draws where next to nothing is left beside the certain tokens: the support ends there.
#include <gtest/gtest.h>

#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/random/source.hpp"

namespace {

using namespace multidraft;

index_t drawn(std::vector<float> const& q, std::size_t wanted) {
    host_group const g;
    probabilities<float> const row(q.data(), static_cast<index_t>(q.size()));
    auto sums = g.weigh(row.size(), weight_of{row});
    addressed_source source;
    std::vector<token_id> out(wanted, -5);
    return draft::stratified{}(g, row, sums, source, place{0, 0}, out);
}

TEST(stratified_rounding, what_a_float_cannot_tell_from_nothing_is_not_drawn) {
    EXPECT_EQ(drawn({1.0F, 1e-30F, 1e-31F}, 3), 1);
    EXPECT_EQ(drawn({1.0F, 0.0F, 0.0F}, 3), 1);
    EXPECT_EQ(drawn({0.75F, 0.25F, 0.0F}, 3), 2);
    EXPECT_EQ(drawn({0.5F, 0.25F, 0.25F}, 3), 3);
    EXPECT_EQ(drawn({0.5F, 0.25F, 0.25F}, 0), 0);
    EXPECT_EQ(drawn({0.0F, 0.0F, 0.0F}, 2), 0);
}

}  // namespace
