// Every sampler, launched as a user would, in every shape of launch, compared with the host bit for bit.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "launches/verdicts.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/methods/list.hpp"
#include "support/batches.hpp"

namespace drafts_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::on_device;

/// Draws the trees of a batch, one launch per level.
template <class Method>
void expect_drafts(mt::shape_of_launch const& as) {
    using sampler = typename Method::sampler;
    SCOPED_TRACE(std::string(Method::name) + ", " + as.name);
    mt::batch<float> host(as.vocabulary, {.temperature = 0.9F, .top_p = 0.98F}, mt::trees_for(Method::trees));
    standin::set_order(as.lanes, static_cast<std::uint64_t>(as.vocabulary));
    mt::device_batch<float> const device(host);
    auto const policy = mc::on(nullptr, as.options);
    on_device<std::byte> const memory(draft_workspace_size(policy, host.size()));
    for (std::int32_t depth = 0; depth < host.levels().deepest; ++depth) {
        auto const l = host.level_arrays(depth);
        if (l.request.empty()) break;
        on_device<std::int32_t> const request(l.request), wanted(l.wanted), depths(l.depths);
        on_device<node_id> const nodes(l.nodes);
        on_device<std::int64_t> const first(l.first), row(l.row);
        auto const entries = static_cast<std::int32_t>(l.request.size());
        ASSERT_EQ(draft_batch(policy, sampler{}, {entries, request.data(), nodes.data(), wanted.data(), depths.data()},
                              draft_rows(logit_batch<float, strided>{device.draft.data(), host.vocabulary,
                                                                     host.vocabulary, row.data(), nullptr, host.w}),
                              device.requests(),
                              {device.tokens.data(), first.data(), 0, nullptr, device.certain.data(),
                               device.states.data(), row.data()},
                              {memory.data(), memory.size()}),
                  cudaSuccess);
        standin::launched const launched = standin::launches().back();
        EXPECT_EQ(launched.blocks, as.ranks * static_cast<unsigned>(entries));
        EXPECT_EQ(launched.cooperative, as.cooperative);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    }
    host.draft_on_host(sampler{});
    EXPECT_EQ(device.tokens.host(), host.tokens);
    EXPECT_EQ(device.certain.host(), host.certain);
    auto const states = device.states.host();
    for (std::size_t k = 0; k < states.size(); ++k) {
        EXPECT_EQ(states[k].largest, host.states[k].largest) << k;
        EXPECT_EQ(states[k].mass, host.states[k].mass) << k;
        EXPECT_EQ(states[k].cut_value, host.states[k].cut_value) << k;
        EXPECT_TRUE(host.keeps_the_same(k, states[k])) << k;
    }
}

/// One method for each sampler.
using of_samplers =
    method_list<methods::naive_iid, methods::recursive_rejection_sequential, methods::recursive_rejection_gumbel_top_k,
                methods::naive_deterministic, methods::naive_conditional_poisson, methods::greedy_optimal_top_then_one,
                methods::spec_hub_top_paired, methods::nested_ranked_block_stratified, methods::shared_randomness>;

TEST_F(cuda_device, samplers_draw_as_on_the_host) {
    of_samplers::for_each([]<class Method>(Method) {
        for (mt::shape_of_launch const& as : mt::shapes_of_strided_rows) expect_drafts<Method>(as);
    });
}

}  // namespace
}  // namespace drafts_test
