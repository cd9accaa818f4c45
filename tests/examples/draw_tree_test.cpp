// Drawings of a fixed draft tree: as text, DOT and SVG, to the letter where a person reads it; energy counters.
#include "generate/draw_tree.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "generate/energy.hpp"

namespace draw_tree_test {
namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// Root 0 with children 1 and 2; 3 and 4 below 1; 1 and 4 are accepted.
drawn_tree fixed_tree() {
    drawn_tree tree;
    tree.parents = {none, 0, 0, 1, 1};
    tree.tokens = {0, 1, 2, 3, 4};
    tree.path = {1, 4};
    tree.next = 5;
    tree.p = {1, 0.5, 0.25, 0.125, 0.0625};
    tree.q = {1, 0.4, 0.3, 0.2, 0.1};
    return tree;
}

std::string name(token_id t) {
    static std::vector<std::string> const names{"And", " the", " a<b", "\"x\"", "\n", " end"};
    return names[static_cast<std::size_t>(t)];
}

TEST(draw_tree, as_text) {
    EXPECT_EQ(tree_as_text(fixed_tree(), name),
              "\"And\"\n"
              "|-* \" the\"  p 0.500  q 0.400\n"
              "|   |-  \"\\\"x\\\"\"  p 0.125  q 0.200\n"
              "|   `-* \"\\n\"  p 0.062  q 0.100\n"
              "|       `-> \" end\"\n"
              "`-  \" a<b\"  p 0.250  q 0.300\n");
}

TEST(draw_tree, without_an_accepted_node_or_rows_of_a_draft) {
    drawn_tree tree = fixed_tree();
    tree.path.clear();
    tree.q.clear();
    std::string const text = tree_as_text(tree, name);
    EXPECT_NE(text.find("|-  \" the\"  p 0.500\n"), std::string::npos) << text;
    EXPECT_EQ(text.substr(text.size() - 11), "`-> \" end\"\n");
    EXPECT_EQ(text.find('*'), std::string::npos);
    EXPECT_EQ(text.find("q 0"), std::string::npos);
    EXPECT_EQ(tree_as_text(drawn_tree(), name), "");
}

TEST(draw_tree, as_dot) {
    std::string const dot = tree_as_dot(fixed_tree(), name);
    EXPECT_EQ(dot.substr(0, 20), "digraph draft_tree {");
    EXPECT_NE(dot.find("n1 [label=\"\\\" the\\\"\\np 0.500  q 0.400\", penwidth=2.5"), std::string::npos) << dot;
    EXPECT_NE(dot.find("n0 -> n2;"), std::string::npos);
    EXPECT_NE(dot.find("n1 -> n4 [penwidth=2.5"), std::string::npos);
    EXPECT_NE(dot.find("n4 -> next"), std::string::npos);
}

TEST(draw_tree, as_svg) {
    std::string const svg = tree_as_svg(fixed_tree(), name);
    EXPECT_EQ(svg, tree_as_svg(fixed_tree(), name));
    EXPECT_NE(svg.find("&quot; a&lt;b&quot;"), std::string::npos) << svg;
    auto const count = [&](std::string const& what) {
        std::size_t found = 0;
        for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
        return found;
    };
    EXPECT_EQ(count("rx=\"6\""), 6U);  // five nodes and what is emitted
    EXPECT_EQ(count("<path"), 5U);     // four edges and that to it
    EXPECT_EQ(count("#e3f1fa"), 3U);   // the root and two accepted nodes
    EXPECT_EQ(count("stroke-dasharray"), 2U);
    EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(energy, reads_the_counters_of_packages) {
    auto const root = std::filesystem::temp_directory_path() / "multidraft_energy_test";
    std::filesystem::remove_all(root);
    for (char const* zone : {"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"}) {
        std::filesystem::create_directories(root / zone);
        std::ofstream(root / zone / "energy_uj") << 1000000;
        std::ofstream(root / zone / "max_energy_range_uj") << 4000000;
    }
    energy_meter meter(root);
    ASSERT_TRUE(meter.available());
    EXPECT_EQ(meter.source(), "RAPL, 2 package(s)");
    meter.start();
    std::ofstream(root / "intel-rapl:0" / "energy_uj") << 3000000;
    std::ofstream(root / "intel-rapl:1" / "energy_uj") << 500000;  // it has wrapped: 3.5 J
    EXPECT_NEAR(meter.joules().value(), 2.0 + 3.5, 1e-9);
    std::filesystem::remove_all(root);
    energy_meter nothing(root);
    EXPECT_FALSE(nothing.available());
    EXPECT_FALSE(nothing.joules().has_value());
    EXPECT_EQ(nothing.source().substr(0, 11), "unavailable");
}

}  // namespace
}  // namespace draw_tree_test
