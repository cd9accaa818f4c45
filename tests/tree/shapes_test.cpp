// The named shapes: node counts, their text form, and what is refused.
#include "multidraft/tree/shapes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "multidraft/tree/shape_text.hpp"

namespace shapes_test {
namespace {

using multidraft::branching;
using multidraft::chain;
using multidraft::fork;
using multidraft::invalid_input;
using multidraft::node_id;
using multidraft::parse_shape;
using multidraft::topology;

std::vector<node_id> parents_of(topology const& shape) { return {shape.parents().begin(), shape.parents().end()}; }

TEST(shapes, chain_is_one_candidate_a_level) {
    EXPECT_EQ(parents_of(chain(4)), (std::vector<node_id>{-1, 0, 1, 2, 3}));
    EXPECT_EQ(chain(0), topology());
    EXPECT_EQ(chain(5), branching({1, 1, 1, 1, 1}));
}

TEST(shapes, branching_has_the_sum_of_products) {
    EXPECT_EQ(parents_of(branching({2, 2, 1})), (std::vector<node_id>{-1, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6}));
    EXPECT_EQ(branching({4, 2, 2, 1}).size(), 1 + 4 + 8 + 16 + 16);
    EXPECT_EQ(branching({4, 2, 2, 1}).width(), 16);
    EXPECT_EQ(branching({4, 2, 2, 1}).max_depth(), 4);
    EXPECT_EQ(branching({}), topology());
    EXPECT_EQ(branching({512}).size(), 513);
    topology const tree = branching({3, 2, 4});
    for (node_id v = 0; v < tree.size(); ++v) {
        int const expected[] = {3, 2, 4, 0};
        EXPECT_EQ(tree.child_count(v), expected[tree.depth(v)]);
    }
}

TEST(shapes, fork_parts_at_the_root) {
    EXPECT_EQ(parents_of(fork(3, 2)), (std::vector<node_id>{-1, 0, 0, 0, 1, 2, 3}));
    EXPECT_EQ(fork(3, 0), topology());
}

TEST(shapes, are_made_from_choices) {
    std::vector<std::vector<std::int32_t>> const choices{{1}, {0, 1}, {0}, {1, 0}, {0, 0}, {0, 1, 0}, {2}};
    EXPECT_EQ(parents_of(multidraft::from_choices(choices)), (std::vector<node_id>{-1, 0, 0, 0, 1, 1, 2, 5}));
    EXPECT_EQ(multidraft::from_choices({}), topology());
    std::vector<std::vector<std::int32_t>> all;
    for (std::int32_t a = 0; a < 4; ++a) {
        all.push_back({a});
        for (std::int32_t b = 3; b-- > 0;) {
            all.push_back({a, b});
            for (std::int32_t c = 0; c < 2; ++c) all.push_back({a, b, c});
        }
    }
    EXPECT_EQ(multidraft::from_choices(all), branching({4, 3, 2}));
}

TEST(shapes, refuse_bad_choices_with_the_entry) {
    using choices = std::vector<std::vector<std::int32_t>>;
    auto const said = [](choices const& list) -> std::string {
        try {
            (void)multidraft::from_choices(list);
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "accepted";
    };
    EXPECT_EQ(said({{0}, {}}), "choices[1] = {}: the root is always there; a path has at least one rank");
    EXPECT_EQ(said({{1, 0}, {0}}), "choices[0] = 0: the path without its last rank is not in the list");
    EXPECT_EQ(said({{0, 0}}), "choices[0] = 0: the path without its last rank is not in the list");
    EXPECT_EQ(said({{0}, {2}}), "choices[1] = 2: ranks count from 0 without gaps among siblings");
    EXPECT_EQ(said({{-1}}), "choices[0] = -1: ranks count from 0 without gaps among siblings");
    EXPECT_EQ(said({{0}, {1}, {0, 1}}), "choices[2] = 1: ranks count from 0 without gaps among siblings");
    EXPECT_NE(said({{0}, {0}}).find("the path is given twice"), std::string::npos);
}

TEST(shapes, are_read_from_text_and_printed) {
    EXPECT_EQ(parse_shape("4x2x2x1"), branching({4, 2, 2, 1}));
    EXPECT_EQ(parse_shape("7"), branching({7}));
    EXPECT_EQ(parse_shape("0"), topology());
    for (std::string const name : {"0", "1", "4x2x2x1", "12x1x3", "1x1x1x1"})
        EXPECT_EQ(to_string(parse_shape(name)), name);
    EXPECT_EQ(to_string(topology::from_parents(std::vector<node_id>{-1, 0, 0, 1})), "[-1 0 0 1]");
}

/// The error for a text that is not a shape.
std::string refusal(std::string const& text) {
    try {
        (void)parse_shape(text);
    } catch (invalid_input const& e) {
        return e.what();
    }
    return "accepted";
}

TEST(shapes, refuse_bad_text_with_the_level) {
    std::string const form = ": a shape is written as whole numbers with x between them, for example 4x2x2x1";
    EXPECT_EQ(refusal(""), "shape[0] = \"\"" + form);
    EXPECT_EQ(refusal("4x"), "shape[1] = \"\"" + form);
    EXPECT_EQ(refusal("x4"), "shape[0] = \"\"" + form);
    EXPECT_EQ(refusal("4x2x2,1"), "shape[2] = \"2,1\"" + form);
    EXPECT_EQ(refusal("4 x2"), "shape[0] = \"4 \"" + form);
    EXPECT_EQ(refusal("+4"), "shape[0] = \"+4\"" + form);
    EXPECT_EQ(refusal("4X2"), "shape[0] = \"4X2\"" + form);
    EXPECT_EQ(refusal("4x0"), "shape[1] = 0: a level has at least one child per node");
    EXPECT_EQ(refusal("-4"), "shape[0] = -4: a level has at least one child per node");
    EXPECT_EQ(refusal("99999999999999999999"),
              "shape[0] = 99999999999999999999: the tree would have more than 2^20 nodes");
    EXPECT_EQ(refusal("1024x1024"), "factors[1] = 1024: the tree would have more than 2^20 nodes");
    EXPECT_EQ(refusal("2147483647x2147483647x2147483647"),
              "factors[0] = 2147483647: the tree would have more than 2^20 nodes");
}

TEST(shapes, refuse_bad_numbers) {
    EXPECT_THROW((void)chain(-1), invalid_input);
    EXPECT_THROW((void)chain(2147483647), invalid_input);
    EXPECT_THROW((void)fork(0, 3), invalid_input);
    EXPECT_THROW((void)branching({2, 0, 2}), invalid_input);
    EXPECT_THROW((void)branching({1 << 20}), invalid_input);
    EXPECT_EQ(branching({(1 << 20) - 1}).size(), 1 << 20);
}

}  // namespace
}  // namespace shapes_test
