// Shapes as other projects publish them: choice lists, and the names of shapes that have no factors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"

namespace choices_test {
namespace {

using multidraft::branching;
using multidraft::chain;
using multidraft::fork;
using multidraft::invalid_input;
using multidraft::parse_shape;
using multidraft::to_string;
using multidraft::topology;

/// The tree of 63 nodes that Medusa publishes for models of 7B parameters (`mc_sim_7b_63`).
constexpr char const* medusa_63 =
    "[[0], [0, 0], [1], [0, 1], [2], [0, 0, 0], [1, 0], [0, 2], [3], [0, 3], [4], [0, 4], [2, 0], [0, 5], [0, 0, 1], "
    "[5], [0, 6], [6], [0, 7], [0, 1, 0], [1, 1], [7], [0, 8], [0, 0, 2], [3, 0], [0, 9], [8], [9], [1, 0, 0], "
    "[0, 2, 0], [1, 2], [0, 0, 3], [4, 0], [2, 1], [0, 0, 4], [0, 0, 5], [0, 0, 0, 0], [0, 1, 1], [0, 0, 6], "
    "[0, 3, 0], [5, 0], [1, 3], [0, 0, 7], [0, 0, 8], [0, 0, 9], [6, 0], [0, 4, 0], [1, 4], [7, 0], [0, 1, 2], "
    "[2, 0, 0], [3, 1], [2, 2], [8, 0], [0, 5, 0], [1, 5], [1, 0, 1], [0, 2, 1], [9, 0], [0, 6, 0], [0, 0, 0, 1], "
    "[1, 6], [0, 7, 0]]";

TEST(choices, of_medusa) {
    topology const shape = parse_shape(medusa_63);
    EXPECT_EQ(shape.size(), 64);
    EXPECT_EQ(shape.max_depth(), 4);
    EXPECT_EQ(shape.child_count(0), 10);
    EXPECT_EQ(shape.child_count(1), 10) << "below the likeliest token";
    EXPECT_EQ(shape.level(4).count, 2);
}

/// The default tree of EAGLE, as appendix D of Hu et al. 2025 prints it.
constexpr char const* eagle_25 =
    "[[0], [1], [2], [3], [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [0, 0, 0], [0, 0, 1], "
    "[0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 2, 0], [0, 2, 1], [1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 2], "
    "[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]";

TEST(choices, of_eagle_by_name) {
    topology const shape = parse_shape("eagle");
    EXPECT_EQ(shape, parse_shape(eagle_25));
    EXPECT_EQ(shape, multidraft::eagle_tree());
    EXPECT_EQ(shape.size(), 26);
    EXPECT_EQ(shape.max_depth(), 5);
    EXPECT_EQ(shape.child_count(0), 4);
}

TEST(choices, lists_of_either_bracket_and_any_space) {
    topology const expected = branching({2, 1});
    for (auto const* text : {"[[0],[1],[0,0],[1,0]]", "[(0,), (1,), (0, 0), (1, 0)]", "((0), (1), (0, 0), (1, 0))",
                             " [ [ 0 ] , [ 1 ] ,\n [ 0 , 0 ] , [ 1 , 0 ] , ] ", "[[1,0],[0],[0,0],[1]]"})
        EXPECT_EQ(parse_shape(text), expected) << text;
    EXPECT_EQ(parse_shape("[]"), topology());
}

TEST(choices, names_of_other_shapes) {
    EXPECT_EQ(parse_shape("fork:3x4"), fork(3, 4));
    EXPECT_EQ(parse_shape("chain:5"), chain(5));
    EXPECT_EQ(parse_shape("chain:0"), topology());
    topology const shape = parse_shape(medusa_63);
    EXPECT_EQ(parse_shape(to_string(shape)), shape) << "parents are read back";
    EXPECT_EQ(parse_shape("[-1 0 0 1]"), parse_shape("[-1, 0, 0, 1]"));
}

std::string refusal(std::string const& text) {
    try {
        (void)parse_shape(text);
    } catch (invalid_input const& e) {
        return e.what();
    }
    return "accepted";
}

TEST(choices, refuse_what_is_no_tree) {
    EXPECT_NE(refusal("[[0], [0, 0, 0]]").find("choices[1] = 0: the path without its last rank"), std::string::npos);
    EXPECT_NE(refusal("[[0], [2]]").find("choices[1] = 2: ranks count from 0"), std::string::npos);
    EXPECT_NE(refusal("[[0], [0]]").find("given twice"), std::string::npos);
    EXPECT_NE(refusal("[[]]").find("choices[0]"), std::string::npos);
    EXPECT_NE(refusal("[[0], [-1]]").find("choices"), std::string::npos);
    EXPECT_NE(refusal("[-1 0 2]").find("parents[2] = 2"), std::string::npos);
    for (auto const* text :
         {"[[0]", "[[0] [1", "[[0], x]", "[[0 1]]", "[[0]] 3", "[[0], [99999999999]]", "fork:", "fork:3", "fork:3x",
          "fork:3x4x5", "chain:", "chain:3x", "[-1 0", "[-1 0] x", "[", "(", "[[0],,[1]]"})
        EXPECT_NE(refusal(text).find("shape["), std::string::npos) << text << ": " << refusal(text);
    EXPECT_NE(refusal("fork:0x3").find("width = 0"), std::string::npos);
    EXPECT_NE(refusal("chain:-1").find("length = -1"), std::string::npos);
}

}  // namespace
}  // namespace choices_test
