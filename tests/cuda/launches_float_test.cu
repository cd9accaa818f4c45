// Launches over float logits: every shape of group, in a graph, and what they refuse.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/launches.cuh"
#include "cuda/on_device.cuh"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/allowed_trees.hpp"

namespace launches_float_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::how;
using verifier = verify::recursive_rejection<law::sequential>;

void expect_step(index_t vocabulary, sampling_params const& w = {}, mc::launch_options const& options = {},
                 how when = how::at_once) {
    mt::expect_step<float, draft::sequential, verifier>(vocabulary, w, true, options, when);
}

constexpr index_t of_a_model = mt::on_a_cpu(32000, 4400);
constexpr index_t of_several_blocks = mt::on_a_cpu(128256, 32000);

// 301, 4999 and 50257 entries: rows that do not begin at multiples of 16 bytes.
TEST_F(cuda_device, float_steps_are_those_of_the_host) {
    for (index_t const n : {7, 301, 4096, 4999, 32000, 50257, 128256, 151936})
        if (n == mt::on_a_cpu(n, 5000)) expect_step(n);
    expect_step(of_a_model, {.temperature = 0.7F, .top_k = 40, .top_p = 0.9F});
    expect_step(of_a_model, {.min_p = 0.02F});
    expect_step(5000, {.temperature = 0.0F});
    expect_step(300, {.top_k = 2});  // trees with children that could not be drawn
}

TEST_F(cuda_device, float_steps_are_the_same_in_every_shape) {
    // A block, clusters, and where the device has no clusters or few are allowed, the blocks of a grid.
    expect_step(of_several_blocks, {}, {.max_cluster = 1, .max_grid = 1});
    expect_step(of_several_blocks, {}, {.max_cluster = 4, .max_grid = 1});
    expect_step(of_several_blocks, {}, {.max_cluster = 1});
    expect_step(of_several_blocks, {.temperature = 0.8F, .top_p = 0.9F}, {.max_cluster = 1});
    expect_step(mt::on_a_cpu(1 << 20, 36000), {}, {.max_cluster = 1});
}

TEST_F(cuda_device, float_steps_are_captured_in_a_graph) {
    expect_step(of_a_model, {}, {}, how::in_a_graph);
    expect_step(of_several_blocks, {}, {.max_cluster = 1}, how::in_a_graph);
}

TEST_F(cuda_device, a_validating_launch_names_the_first_fault) {
    auto const report_of = [](mt::batch<float> const& bad, tree_rules const& rules = {}, std::int32_t top_k = 0) {
        mt::device_batch<float> const device(bad);
        mt::on_device<validation_report> const report(1);
        auto const rows = device.logits(device.target);
        auto of_draft = rows;
        if (top_k > 0) of_draft.sampling = nullptr;
        of_draft.default_sampling.top_k = top_k;
        EXPECT_EQ(validate_batch(mc::on(nullptr), rules, drawn_by<law::iid>(device.trees()), target_rows(rows),
                                 draft_rows(of_draft), device.requests(), report.data()),
                  cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        return report.host()[0];
    };
    mt::batch<float> bad(5000, {});
    EXPECT_EQ(report_of(bad).what, batch_argument::nothing);
    bad.target[11 * 5000 + 4321] = std::numeric_limits<float>::quiet_NaN();
    bad.tokens[16] = 5000;
    validation_report r = report_of(bad);
    EXPECT_EQ(r.what, batch_argument::target);
    EXPECT_EQ(r.request, 1);
    EXPECT_EQ(r.index, 1);
    EXPECT_EQ(r.token, 4321);
    EXPECT_NE(r.value, r.value);
    bad.parents[12] = 4;
    r = report_of(bad);
    EXPECT_EQ(r.what, batch_argument::parents);
    EXPECT_EQ(r.request, 1);
    EXPECT_EQ(r.index, 2);
    EXPECT_EQ(r.value, 4);
    // What only the rules and the draft's row tell: a child left out, a support that did not end, a shape that the
    // verifier does not take, a child that cannot have been drawn.
    mt::batch<float> drawn(5000, {});
    auto const expect = [&](batch_argument what, std::int32_t request, std::int64_t index, validation_report const& v) {
        EXPECT_EQ(v.what, what) << name_of(v.what);
        EXPECT_EQ(v.request, request) << name_of(what);
        EXPECT_EQ(v.index, index) << name_of(what);
    };
    expect(batch_argument::shape, 0, 2, report_of(drawn, {.trees = allowed_trees::chains}));
    expect(batch_argument::not_drawn, 0, 1, report_of(drawn, {}, 1));
    EXPECT_EQ(report_of(drawn, {.reads_draft = false}, 1).what, batch_argument::nothing);
    drawn.tokens[9] = none;
    expect(batch_argument::absent, 0, 9, report_of(drawn));
    EXPECT_EQ(report_of(drawn, {.children_may_be_left_out = true}).what, batch_argument::nothing);
    drawn.tokens[9] = support_ended;
    expect(batch_argument::left_out, 0, 9, report_of(drawn));
    drawn.tokens[9] = padding;
    EXPECT_EQ(report_of(drawn).what, batch_argument::nothing);

    mt::device_batch<float> const device(bad);
    EXPECT_EQ(validate_batch(mc::on(nullptr), tree_rules{}, drawn_by<law::iid>(device.trees()),
                             target_rows(device.logits(device.target)), draft_rows(verify::no_draft_rows{}),
                             device.requests(), nullptr),
              cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().substr(0, 14), "report = null:");
}

}  // namespace
}  // namespace launches_float_test
