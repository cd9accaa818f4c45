// The sets of ranks of one node, from masses at grid points.
#include "multidraft/verify/detail/rank_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "multidraft/verify/detail/left_curtain_coupling.hpp"
#include "multidraft/verify/detail/ratio_histogram.hpp"

namespace rank_table_test {
namespace {

using multidraft::index_t;
using multidraft::verify::detail::best_rank_cdf;
using multidraft::verify::detail::rank_table;
using multidraft::verify::detail::ratio_grid;

/// Lengths by ratio of p to q; the rest of q lies at ratio 0.15.
rank_table table_of(std::map<double, double> const& masses) {
    rank_table table{};
    double left = 1;
    for (auto const& [ratio, mass] : masses) {
        table.length[ratio_grid::of(static_cast<float>(ratio)).grid_point] += mass;
        left -= mass;
    }
    table.length[ratio_grid::of(0.15F).grid_point] += left;
    return table;
}

/// The sum of min(p, m).
double accepted(rank_table const& table) {
    double sum = 0;
    for (index_t b = 0; b < rank_table::grid_points; ++b)
        sum += table.length[b] * std::min(ratio_grid::ratio(b), table.density[b]);
    return sum;
}

TEST(rank_table, divides_the_unit_interval) {
    auto table = table_of({{7.0, 0.01}, {2.0, 0.1}, {1.2, 0.2}, {0.9, 0.3}});
    for (index_t const draws : {1, 2, 3, 8, 40}) {
        table.build(best_rank_cdf{draws}, 0.0);
        double all = 0;
        double mass = 0;
        std::map<double, double> pieces;
        for (index_t b = 0; b < rank_table::grid_points; ++b) {
            double length = 0;
            for (std::int32_t k = 0; k < table.count[b]; ++k) {
                auto const piece = table.pieces[table.first[b] + k];
                length += piece.end - piece.begin;
                pieces[piece.begin] = piece.end;  // grid points that share the floor or the cap share pieces
            }
            EXPECT_TRUE(table.length[b] == 0 || length >= table.length[b] - 1e-12) << b;
            all += table.length[b];
            mass += table.length[b] * table.density[b];
        }
        EXPECT_NEAR(all, 1, 1e-12);
        EXPECT_NEAR(mass, 1, 1e-12);
        double end = 0;
        for (auto const& [begin, last] : pieces) {
            EXPECT_NEAR(begin, end, 1e-12);
            end = last;
        }
        EXPECT_NEAR(end, 1, 1e-12);
    }
}

// The mass of a grid point of negligible mass does not determine its place. If it were put far right, only the flat end
// of the curve would be left for the others.
TEST(rank_table, is_not_spoilt_by_a_grid_point_of_next_to_no_mass) {
    std::map<double, double> const masses{{7.7, 0.0001}, {1.9, 0.05}, {1.05, 0.6}};
    for (index_t const draws : {2, 4, 8, 16}) {
        auto table = table_of(masses);
        table.build(best_rank_cdf{draws}, 0.0);
        double const without = accepted(table);
        for (double tiny = 1e-13; tiny < 1e-5; tiny *= 1.07) {
            auto more = masses;
            more[2.7] = tiny;
            table = table_of(more);
            table.build(best_rank_cdf{draws}, 0.0);
            ASSERT_NEAR(accepted(table), without, 1e-4) << draws << " draws, a grid_point of " << tiny;
        }
    }
}

}  // namespace
}  // namespace rank_table_test
