// Trees from parents: derived data against brute force, and errors.
#include "multidraft/tree/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tree/random_tree.hpp"

namespace topology_test {
namespace {

using multidraft::invalid_input;
using multidraft::node_id;
using multidraft::node_range;
using multidraft::token_id;
using multidraft::topology;
using multidraft::tree_view;
using multidraft::validate_tokens;
using multidraft::validate_tree;

std::size_t at(node_id i) { return static_cast<std::size_t>(i); }

void check_against_brute_force(std::vector<node_id> const& parents) {
    auto const n = static_cast<node_id>(parents.size());
    topology const shape = topology::from_parents(parents);
    std::vector<token_id> const tokens(parents.size(), 3);
    tree_view const view{parents, tokens};
    ASSERT_EQ(shape.size(), n);
    ASSERT_EQ(view.size(), n);
    std::vector<node_id> leaves;
    std::vector<node_id> level_sizes;
    for (node_id i = 0; i < n; ++i) {
        std::vector<node_id> children;
        for (node_id c = 0; c < n; ++c)
            if (parents[at(c)] == i) children.push_back(c);
        std::int32_t depth = 0;
        for (node_id v = i; parents[at(v)] >= 0; v = parents[at(v)]) ++depth;
        ASSERT_EQ(shape.depth(i), depth);
        ASSERT_EQ(view.depth(i), depth);
        ASSERT_EQ(shape.parent(i), parents[at(i)]);
        ASSERT_EQ(shape.child_count(i), static_cast<node_id>(children.size()));
        ASSERT_EQ(view.children(i).count, static_cast<node_id>(children.size()));
        if (children.empty()) {
            leaves.push_back(i);
            ASSERT_TRUE(shape.children(i).empty());
        } else {
            ASSERT_EQ(shape.first_child(i), children.front());
            ASSERT_EQ(shape.children(i).end(), children.back() + 1);
            ASSERT_EQ(view.children(i), shape.children(i));
        }
        if (at(depth) >= level_sizes.size()) level_sizes.resize(at(depth) + 1);
        ++level_sizes[at(depth)];
    }
    ASSERT_EQ(std::vector<node_id>(shape.leaves().begin(), shape.leaves().end()), leaves);
    ASSERT_EQ(shape.max_depth(), static_cast<std::int32_t>(level_sizes.size()) - 1);
    ASSERT_EQ(shape.width(), *std::max_element(level_sizes.begin(), level_sizes.end()));
    for (std::int32_t d = 0; d <= shape.max_depth(); ++d) {
        ASSERT_EQ(shape.level(d).count, level_sizes[at(d)]);
        for (node_id v = shape.level(d).first; v < shape.level(d).end(); ++v) ASSERT_EQ(shape.depth(v), d);
    }
}

TEST(topology, agrees_with_brute_force) {
    check_against_brute_force({-1});
    check_against_brute_force({-1, 0});
    check_against_brute_force({-1, 0, 0, 0, 2, 2, 5});
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        auto const n = static_cast<node_id>(1 + seed * 7 % 150);
        for (node_id const reach : {1, 4, 20, 1000})
            check_against_brute_force(multidraft::test::random_parents(n, reach, seed));
    }
    check_against_brute_force(multidraft::test::random_parents(513, 40, 5));
}

TEST(topology, is_by_default_the_root_alone) {
    topology const root;
    EXPECT_EQ(root.size(), 1);
    EXPECT_EQ(root.max_depth(), 0);
    EXPECT_EQ(root.width(), 1);
    EXPECT_EQ(root.level(0), (node_range{0, 1}));
    EXPECT_EQ(root, topology::from_parents(std::vector<node_id>{-1}));
}

/// The error of `validate_tree` for these parents.
std::string refusal(std::vector<node_id> const& parents) {
    try {
        validate_tree(parents);
    } catch (invalid_input const& e) {
        EXPECT_THROW((void)topology::from_parents(parents), invalid_input);
        return e.what();
    }
    return "accepted";
}

TEST(validate_tree, names_the_index_and_the_value) {
    EXPECT_EQ(refusal({}), "parents.size = 0: a tree has at least its root");
    EXPECT_EQ(refusal({0}), "parents[0] = 0: node 0 is the root and has parent -1");
    EXPECT_EQ(refusal({-1, 0, -1}), "parents[2] = -1: a second root: node 0 alone has no parent");
    EXPECT_EQ(refusal({-1, -5}), "parents[1] = -5: a parent is a node");
    EXPECT_EQ(refusal({-1, 1}), "parents[1] = 1: a parent must come before its child");
    EXPECT_EQ(refusal({-1, 0, 7}), "parents[2] = 7: a parent must come before its child");
    EXPECT_EQ(refusal({-1, 0, 0, 2, 1}),
              "parents[4] = 1: the node before has parent 2: nodes stand in level order, so parents never decrease");
    EXPECT_EQ(refusal({-1, std::numeric_limits<node_id>::min()}), "parents[1] = -2147483648: a parent is a node");
    EXPECT_EQ(refusal({-1, 0, 0, 1, 1, 2}), "accepted");
}

TEST(validate_tokens, names_the_index_and_the_value) {
    std::vector<token_id> const tokens{0, 9, 10};
    validate_tokens(tokens, 11);
    try {
        validate_tokens(tokens, 10);
        FAIL();
    } catch (invalid_input const& e) {
        EXPECT_STREQ(e.what(), "tokens[2] = 10: a token is in [0, 10), the vocabulary");
        EXPECT_EQ(e.argument(), "tokens");
        EXPECT_EQ(e.index(), 2);
        EXPECT_EQ(e.value(), "10");
    }
    EXPECT_THROW(validate_tokens(std::vector<token_id>{-1}, 10), invalid_input);
    validate_tokens(std::vector<token_id>{}, 10);
}

TEST(validate_tree, wants_one_token_a_node) {
    std::vector<node_id> const parents{-1, 0};
    EXPECT_THROW(validate_tree(tree_view{parents, std::vector<token_id>{1}}, 5), invalid_input);
    EXPECT_THROW(validate_tree(tree_view{parents, std::vector<token_id>{1, 5}}, 5), invalid_input);
    EXPECT_NO_THROW(validate_tree(tree_view{parents, std::vector<token_id>{1, 4}}, 5));
}

// Padding from an earlier batch, or the output of a faulty kernel: walks end, and read nothing outside the tree.
TEST(tree_view, walks_end_over_parents_that_are_no_tree) {
    std::vector<std::vector<node_id>> const all{
        {-1, 2, 1},  {-1, 1}, {1, 0}, {0, 0, 0}, {-1, 7, -9, 1000000, std::numeric_limits<node_id>::max()},
        {3, 3, 3, 3}};
    for (auto const& parents : all) {
        tree_view const view{parents, {}};
        EXPECT_FALSE(view.is_tree());
        for (node_id v = 1; v < view.size(); ++v) {
            EXPECT_GE(view.depth(v), 1);
            EXPECT_LE(view.depth(v), v);
            EXPECT_GE(view.parent(v), 0);
            EXPECT_LT(view.parent(v), v);
        }
    }
    EXPECT_FALSE((tree_view{}.is_tree()));
}

TEST(tree_view, knows_a_tree_as_validate_tree_does) {
    // All parents in [-2, 4) of four nodes.
    for (int code = 0; code < 6 * 6 * 6 * 6; ++code) {
        std::vector<node_id> const parents{code % 6 - 2, code / 6 % 6 - 2, code / 36 % 6 - 2, code / 216 - 2};
        bool valid = true;
        try {
            validate_tree(parents);
        } catch (invalid_input const&) {
            valid = false;
        }
        EXPECT_EQ((tree_view{parents, {}}.is_tree()), valid) << code;
    }
}

TEST(tree_view, works_in_constant_expressions) {
    static constexpr node_id parents[] = {-1, 0, 0, 1, 2, 2};
    static constexpr tree_view view{{parents, 6}, {}};
    static_assert(view.children(2) == node_range{4, 2});
    static_assert(view.children(5).empty() && view.depth(5) == 2);
}

}  // namespace
}  // namespace topology_test
