// Trees that grow at any node: level order, what moves with the nodes, removed nodes, masks, growth after `arrange`.
#include "multidraft/tree/tree_builder.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/links.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"

namespace tree_builder_test {
namespace {

using namespace multidraft;

TEST(tree_builder, brings_nodes_added_anywhere_into_level_order) {
    multidraft::testing::test_numbers numbers(3);
    tree_builder tree;
    for (int round = 0; round < 200; ++round) {
        tree.start(7, 20);
        std::vector<node_id> parents{none};
        for (node_id v = 1; v < 1 + round % 90; ++v) {
            parents.push_back(numbers.below(v));
            EXPECT_EQ(tree.add(parents.back(), v), v);
            if (v % 3 == 0) tree.set_entry(v, 2 * v);
        }
        tree.arrange();
        std::vector<node_id> const order = level_order(parents);
        tree_nodes const& nodes = tree.nodes();
        ASSERT_EQ(nodes.parents, parents_in_order(parents, order));
        ASSERT_TRUE(nodes.tree().is_tree());
        tree.extend_mask();
        ancestor_mask const mask(nodes.parents);
        for (std::size_t k = 0; k < order.size(); ++k) {
            node_id const v = order[k];
            EXPECT_EQ(tree.node_at(static_cast<node_id>(k)), v);
            EXPECT_EQ(tree.place(v), static_cast<node_id>(k));
            EXPECT_EQ(nodes.tokens[k], v == 0 ? 7 : v);
            EXPECT_EQ(nodes.depths[k], nodes.tree().depth(static_cast<node_id>(k)));
            EXPECT_EQ(nodes.positions[k], 20 + nodes.depths[k]);
            EXPECT_EQ(nodes.entries[k], v > 0 && v % 3 == 0 ? 2 * v : none);
            if (k > 0) {
                EXPECT_EQ(nodes.ranks[k], static_cast<node_id>(k) - nodes.tree().children(nodes.parents[k]).first);
            }
            for (std::size_t j = 0; j < order.size(); ++j)
                ASSERT_EQ(tree.mask()(static_cast<node_id>(k), static_cast<node_id>(j)),
                          mask.view()(static_cast<node_id>(k), static_cast<node_id>(j)));
        }
    }
}

TEST(tree_builder, leaves_out_what_was_removed_and_grows_on) {
    topology const shape = branching({3, 2});
    tree_builder tree;
    tree.start(0, 5);
    EXPECT_EQ(tree.add(0, std::vector<token_id>{1, 2, 3}, 2, &shape), (node_range{1, 3}));
    EXPECT_EQ(tree.add(2, std::vector<token_id>{4, 5, 6}, 0, &shape), (node_range{4, 3}));
    EXPECT_EQ(tree.nodes().shape_nodes, (std::vector<node_id>{0, 1, 2, 3, 6, 7, none})) << "more than the shape has";
    tree.arrange();
    EXPECT_EQ(tree.node_at(6), 6) << "it was in level order";
    tree.add(1, 7, &shape);
    EXPECT_THROW(static_cast<void>(tree.nodes()), invalid_input);
    tree.remove(1);
    tree.remove(5);
    tree.remove_below(3);
    tree.add(3, 8);
    tree.arrange();
    EXPECT_EQ(tree.nodes().tokens, (std::vector<token_id>{0, 2, 3, 4, 6}));
    EXPECT_EQ(tree.nodes().parents, (std::vector<node_id>{none, 0, 0, 1, 1}));
    EXPECT_EQ(tree.nodes().certain, (std::vector<index_t>{1, 0, 0, 0, 0})) << "one of two certain children is left";
    EXPECT_EQ(tree.place(1), none);
    EXPECT_EQ(tree.place(7), none) << "below a removed node";
    tree.set_entry(4, 9);
    EXPECT_EQ(tree.nodes().entries[3], 9);
    EXPECT_EQ(tree.child_count(2), 3);
    tree.add(4, 10);
    tree.arrange();
    EXPECT_EQ(tree.nodes().tokens.back(), 10);
    tree.extend_mask();
    EXPECT_TRUE(tree.mask()(5, 3) && tree.mask()(5, 1) && !tree.mask()(5, 2));
}

TEST(tree_builder, says_what_is_missing) {
    auto const reason = [](tree_builder const& tree) {
        try {
            static_cast<void>(tree.nodes());
        } catch (invalid_input const& e) {
            return e.reason();
        }
        return std::string();
    };
    tree_builder tree;
    tree.add(0, 1);
    tree.add(1, 2);
    EXPECT_EQ(reason(tree), "");
    tree.remove(2);
    EXPECT_EQ(reason(tree), "nodes were cut or dropped: call arrange()");
    tree.add(0, 3);
    EXPECT_EQ(reason(tree), "the nodes were added in another order: call arrange()");
}

}  // namespace
}  // namespace tree_builder_test
