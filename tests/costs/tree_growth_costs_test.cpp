// The pieces of a step allocate nothing after the first step.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "costs/allocations.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/shared_contexts.hpp"

namespace tree_growth_costs_test {
namespace {

using namespace multidraft;
using multidraft::testing::allocations;

TEST(costs, trees_grow_without_allocations) {
    constexpr index_t vocabulary = 300;
    std::vector<float> row(vocabulary);
    for (index_t i = 0; i < vocabulary; ++i)
        row[static_cast<std::size_t>(i)] = static_cast<float>((i * 37) % 23) * 0.2F;
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    // 125 nodes: a mask of two words per row.
    topology const shape = branching({4, 3, 2, 2, 1});
    draft::tree_growth<law::sequential> tree;
    draft::tree_growth<law::sequential, shape_depends_on::everything> free;
    tree.reserve(shape.size());
    free.reserve(shape.size());
    accepted_text out;
    out.reserve(shape.max_depth());
    shared_contexts contexts;
    std::vector<node_id> const path{1};
    auto const grow = [&](auto& t, bool by_shape) {
        if (by_shape)
            t.start(1, 5, shape);
        else if constexpr (requires { t.start(1, 5); })
            t.start(1, 5);
        for (auto in = t.next_level(); !in.empty(); in = t.next_level()) {
            for (node_id const v : in.nodes) {
                auto q = process_logits(g, row_view<float>(row.data(), vocabulary), sampling_params{});
                if (by_shape)
                    t.draw(v, draft::sequential{}, q.row, q.sums, source);
                else if constexpr (requires { t.drop(v); })
                    t.draw(v, v < 5 ? 4 : 0, draft::sequential{}, q.row, q.sums, source);
            }
        }
        if constexpr (requires { t.drop(1); }) t.drop(2);
        t.arrange();
        (void)t.mask();
        tree_view const drafts = t.drafts_of_any_shape().tree;
        out.assign(drafts, path, {1, 2}, {.max_tokens = 9});
        (void)t.draft_entries(out.nodes());
        contexts.build(drafts, 5);
    };
    tree.start(1, 5, shape);  // copies the shape
    contexts.build(tree_view{shape.parents(), shape.parents()}, 0);
    for (int step = 0; step < 3; ++step) {
        if (step > 0) allocations = 0;
        grow(tree, true);
        if (step > 0) {
            EXPECT_EQ(allocations, 0) << "a settled shape";
        }
        grow(free, step == 1);
        if (step == 0) grow(free, true);
        if (step > 0) {
            EXPECT_EQ(allocations, 0) << "a shape of its own";
        }
    }
}

}  // namespace
}  // namespace tree_growth_costs_test
