// How a node's probability of being reached is divided among its children.
#include "multidraft/draft/child_shares.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace multidraft {
namespace child_shares_test {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

TEST(child_shares, are_those_of_the_sampler) {
    std::vector<std::vector<double>> const rows{{0.9, 0.05, 0.03, 0.02},  {0.4, 0.3, 0.2, 0.1},
                                                {0.25, 0.25, 0.25, 0.25}, {1, 0, 0, 0},
                                                {0.5, 0.5, 0, 0},         {0.6, 0.39, 0.01, 0}};
    host_group const g;
    for (auto const& row : rows)
        for (index_t n = 1; n <= 5; ++n) {
            probabilities<double> const q(row.data(), 4);
            auto sums = g.sum_chunks(4, weight_of{q});
            std::vector<token_id> out(at(n), none);
            addressed_source source;
            drawn_children const drawn = draft::stratified{}(g, q, sums, source, {}, span<token_id>(out));
            auto const shares = draft::shares_of(draft::stratified{}, row, n);
            if (drawn.count == n) {
                EXPECT_EQ(shares.certain, drawn.certain) << n;
            }
            EXPECT_EQ(shares.certain + shares.draws, n);
            double sum = shares.left;
            for (index_t k = 0; k < shares.certain; ++k) sum += row[at(k)];
            EXPECT_NEAR(sum, 1, 1e-12);
            auto const iid = draft::shares_of(draft::iid{}, row, n);
            EXPECT_EQ(iid.draws, n);
            EXPECT_NEAR(iid.of_draw(), 1.0 / n, 1e-15);
        }
}

/// By hand: certain children by their probabilities, draws by the rate that none of them is accepted.
TEST(child_chances, follow_from_shares_and_rates) {
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    draft::child_rates const rates{.certain = 1, .draw = 0.6, .other = 0.4};
    auto const of = [&](index_t n) { return draft::chances_of(draft::stratified{}, row, n, rates); };
    EXPECT_NEAR(of(1).any(), 0.6, 1e-15) << "one draw";
    EXPECT_NEAR(of(2).any(), 0.5 + 0.5 * 0.4, 1e-15) << "one certain child, one draw beside it";
    EXPECT_NEAR(of(2).of_draw(0), 0.5 * 0.4, 1e-15);
    EXPECT_NEAR(of(3).any(), 0.8 + 0.2 * 0.4, 1e-15);
    double const three = 1 - std::pow(0.4, std::pow(3, 0.45));
    EXPECT_NEAR(draft::chances_of(draft::iid{}, row, 3, rates).any(), three, 1e-15);
    EXPECT_NEAR(draft::chances_of(draft::iid{}, row, 3, rates).of_draw(0), three / 3, 1e-15);
    // No sum of chances exceeds 1, whatever the rates.
    for (double const certain : {0.0, 0.5, 1.0, 1.5, 3.0})
        for (double const draw : {0.0, 0.5, 1.0})
            for (index_t n = 1; n <= 6; ++n) {
                auto const chances = draft::chances_of(draft::stratified{}, row, n, {certain, draw, draw});
                EXPECT_LE(chances.any(), 1 + 1e-12);
                EXPECT_GE(chances.of_draw(0), 0);
            }
}

/// Draws without replacement are tried one by one: those after the first are accepted where the others are not, so that
/// more of them take nothing from the first.
TEST(child_chances, of_draws_that_are_tried_in_turn_are_those_of_the_first_ones_alone) {
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    draft::child_rates const rates{.certain = 1, .draw = 0.6, .other = 0.4};
    for (index_t n = 1; n <= 5; ++n) {
        auto const chances = draft::chances_of(draft::sequential{}, row, n, rates);
        double sum = 0;
        for (index_t k = 0; k < n; ++k) {
            double const two = 1 - std::pow(0.4, std::pow(k + 1, 0.45));
            double const one = k == 0 ? 0 : 1 - std::pow(0.4, std::pow(k, 0.45));
            EXPECT_NEAR(chances.of_child(row, k), two - one, 1e-12) << n << ", " << k;
            sum += chances.of_child(row, k);
        }
        EXPECT_NEAR(sum, chances.any(), 1e-12);
        auto const scaled = chances.scaled_by(0.5);
        EXPECT_NEAR(scaled.of_child(row, 0), 0.3, 1e-12);
    }
}

TEST(best_children, have_the_largest_gain) {
    std::vector<double> const row{0.5, 0.3, 0.15, 0.05};
    auto const best = [&](double reach, index_t most = 4) {
        return draft::best_children(draft::stratified{}, row, {.certain = 1, .draw = 0.6, .other = 0.4}, reach, most);
    };
    EXPECT_EQ(best(1), 0) << "0.6 - 1 < 0";
    EXPECT_EQ(best(2), 1) << "1.2 - 1 > 0, 1.4 - 2 < 0";
    EXPECT_EQ(best(10), 3) << "5, 5, 5.8, 5.7";
    EXPECT_EQ(best(13), 4) << "6.8, 7.1, 8.44, 8.61";
    EXPECT_EQ(best(13, 2), 2) << "no more than allowed";
    for (double reach = 0; reach < 40; reach += 0.25) EXPECT_LE(best(reach), best(reach + 0.25)) << reach;
}

}  // namespace
}  // namespace child_shares_test
}  // namespace multidraft
