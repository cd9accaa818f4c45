// The methods of a list, launched as a user would, in every shape of launch, compared with the host bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/methods/list.hpp"
#include "support/batches.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A shape of launch and the rows for which it is chosen.
struct shape_of_launch {
    char const* name;
    index_t vocabulary;
    cuda::launch_options options;
    unsigned ranks;  ///< expected blocks of a request
    bool cooperative;
    standin::order lanes;
};

/// Shapes for rows that can be aligned: a block with one warp and with two warps per chunk, a cluster, a grid.
inline shape_of_launch const shapes_of_aligned_rows[] = {
    {"split block", 300, {}, 1, false, standin::order::last_come},
    {"block", 17 * 1024, {.max_cluster = 1, .max_grid = 1}, 1, false, standin::order::first_come},
    {"cluster", 9000, {}, 2, false, standin::order::random},
    {"grid", 7 * 4096 + 4, {.max_cluster = 1}, 4, true, standin::order::warp_by_warp}};

/// Shapes for other rows: one kernel, in a block or in a cluster.
inline shape_of_launch const shapes_of_strided_rows[] = {{"block", 301, {}, 1, false, standin::order::warp_by_warp},
                                                         {"cluster", 4999, {}, 2, false, standin::order::random}};

template <class Layout>
[[nodiscard]] constexpr auto const& shapes_of() noexcept {
    if constexpr (Layout::alignment > 0)
        return shapes_of_aligned_rows;
    else
        return shapes_of_strided_rows;
}

[[nodiscard]] inline std::vector<std::vector<node_id>> trees_for(allowed_trees kind) {
    switch (kind) {
        case allowed_trees::any:
            break;
        case allowed_trees::pairs:
            return {{multidraft::none, 0, 0, 1, 1, 2}, {multidraft::none}, {multidraft::none, 0, 1}};
        case allowed_trees::forks:
            return {{multidraft::none, 0, 0, 0, 1, 2, 3}, {multidraft::none, 0, 1}};
        case allowed_trees::chains:
            return {{multidraft::none, 0, 1, 2}, {multidraft::none}, {multidraft::none, 0}};
    }
    return {{multidraft::none, 0, 0, 0, 1, 1, 3}, {multidraft::none, 0, 1}, {multidraft::none}};
}

/// Verifies a batch that the host drew, in one launch.
template <class Method, class Layout>
void expect_verdicts(shape_of_launch const& as) {
    using sampler = typename Method::sampler;
    using verifier = typename Method::verifier;
    SCOPED_TRACE(std::string(Method::name) + ", " + as.name);
    batch<float> host(as.vocabulary, {.temperature = 0.9F, .top_p = 0.98F}, trees_for(Method::trees));
    host.draft_on_host(sampler{});
    auto const expected = host.verify_on_host(verifier{});

    standin::set_order(as.lanes, static_cast<std::uint64_t>(as.vocabulary));
    device_batch<float> const device(host);
    on_device<node_id> const path(std::vector<node_id>(expected.path.size(), -7));
    on_device<std::int32_t> const accepted(expected.accepted.size());
    on_device<token_id> const next(expected.next.size());
    auto const policy = cuda::on(nullptr, as.options);
    std::size_t const bytes = verify_workspace_size<verifier>(policy, host.size(), 10, 6);
    void* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    auto const rows = [&](on_device<float> const& of) {
        return logit_batch<float, Layout>{of.data(), host.vocabulary, host.vocabulary, nullptr, nullptr, host.w};
    };
    cudaError_t const e =
        verify_batch(policy, verifier{}, drawn_by<typename Method::law>(device.trees()),
                     target_rows(rows(device.target)), draft_rows(rows(device.draft)), device.requests(),
                     verdict_batch{path.data(), host.path_stride, accepted.data(), next.data()}, {memory, bytes});
    EXPECT_EQ(e, cudaSuccess);
    if (e == cudaSuccess) {
        standin::launched const l = standin::launches().back();
        EXPECT_EQ(l.blocks, as.ranks * static_cast<unsigned>(host.size()));
        EXPECT_EQ(l.cooperative, as.cooperative);
        EXPECT_EQ(l.cluster, as.cooperative ? 1U : as.ranks);
        EXPECT_EQ(accepted.host(), expected.accepted);
        EXPECT_EQ(next.host(), expected.next);
        verdicts got(host.size(), host.path_stride);
        got.path = path.host();
        for (std::int32_t b = 0; b < host.size(); ++b)
            for (std::int32_t k = 0; k < expected.accepted[static_cast<std::size_t>(b)]; ++k)
                EXPECT_EQ(got.node(b, k), expected.node(b, k)) << b << ' ' << k;
        EXPECT_EQ(standin::fault(), "");
    }
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

/// Every method of a list, in every shape of launch.
template <class Methods, class Layout>
void expect_verdicts_of_all() {
    Methods::for_each([]<class Method>(Method) {
        for (shape_of_launch const& as : shapes_of<Layout>()) expect_verdicts<Method, Layout>(as);
    });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
