// Trees in any order brought into level order: the definition, on random relabelled trees; errors.
#include "multidraft/tree/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/topology.hpp"

namespace level_order_test {
namespace {

using namespace multidraft;

std::size_t at(node_id v) { return static_cast<std::size_t>(v); }

TEST(level_order, leaves_level_order_alone) {
    std::vector<node_id> const parents{none, 0, 0, 1, 1, 2, 5};
    std::vector<node_id> order(parents.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(level_order(parents), order);
    EXPECT_EQ(parents_in_order(parents, order), parents);
    EXPECT_EQ(level_order(std::vector<node_id>{none}), std::vector<node_id>{0});
}

TEST(level_order, keeps_the_order_of_children) {
    // Depth first, the root in the middle.
    std::vector<node_id> const parents{3, 0, 0, none, 3, 4};
    std::vector<node_id> const order{3, 0, 4, 1, 2, 5};
    EXPECT_EQ(level_order(parents), order);
    EXPECT_EQ(parents_in_order(parents, order), (std::vector<node_id>{none, 0, 0, 1, 1, 2}));
}

TEST(level_order, is_a_tree_with_the_same_children_on_random_trees) {
    multidraft::testing::test_numbers numbers(5);
    for (int round = 0; round < 200; ++round) {
        auto const n = static_cast<node_id>(1 + round % 40);
        std::vector<node_id> place(at(n));  // which number each node gets
        std::iota(place.begin(), place.end(), 0);
        for (node_id v = n - 1; v > 0; --v) std::swap(place[at(v)], place[at(numbers.below(v + 1))]);
        std::vector<node_id> parents(at(n), none);
        for (node_id v = 1; v < n; ++v) parents[at(place[at(v)])] = place[at(numbers.below(v))];

        std::vector<node_id> const order = level_order(parents);
        std::vector<node_id> const sorted = parents_in_order(parents, order);
        ASSERT_NO_THROW(validate_tree(sorted));
        for (std::size_t k = 0; k < order.size(); ++k) {
            node_id const up = parents[at(order[k])];
            EXPECT_EQ(sorted[k] == none ? none : order[at(sorted[k])], up);
            // Siblings follow one another as they did.
            if (k > 0 && sorted[k] == sorted[k - 1]) {
                EXPECT_LT(order[k - 1], order[k]);
            }
        }
        std::vector<node_id> all = order;
        std::sort(all.begin(), all.end());
        for (node_id v = 0; v < n; ++v) EXPECT_EQ(all[at(v)], v);
    }
}

void expect_refused(std::vector<node_id> const& parents, std::int64_t index, std::string const& reason) {
    try {
        static_cast<void>(level_order(parents));
        ADD_FAILURE() << "not refused: " << reason;
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.index(), index);
        EXPECT_NE(e.reason().find(reason), std::string::npos) << e.what();
    }
}

TEST(level_order, refuses_what_is_no_tree) {
    expect_refused({}, -1, "at least its root");
    expect_refused({none, none}, 1, "second root");
    expect_refused({none, 2}, 1, "is a node");
    expect_refused({none, -2}, 1, "is a node");
    expect_refused({1, 0}, 0, "has a root");
    expect_refused({none, 0, 3, 2}, 2, "is not connected to the root");
    expect_refused({none, 1}, 1, "is not connected to the root");
}

}  // namespace
}  // namespace level_order_test
