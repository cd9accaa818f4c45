// The calls that a launch makes to the CUDA runtime, on the devices that the stand-in models.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "launches/runtime/standin.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/launch_shape.hpp"

namespace launch_test {
namespace {

namespace mc = multidraft::cuda;
using multidraft::index_t;

__global__ void nothing(int) {}

mc::detail::shape chosen(std::int64_t batch, index_t vocabulary = 128256, mc::launch_options const& options = {},
                         bool has_memory = false) {
    mc::detail::shape s;
    EXPECT_EQ(mc::detail::choose_for(nothing, batch, vocabulary, options, has_memory, s), cudaSuccess);
    return s;
}

void expect(mc::detail::shape const& s, int ranks, bool split, bool grid) {
    EXPECT_EQ(s.ranks, ranks);
    EXPECT_EQ(s.split, split);
    EXPECT_EQ(s.grid, grid);
}

TEST(launch, takes_the_shape_of_the_device) {
    standin::reset(standin::a100());  // no clusters: the blocks of a grid, given a workspace
    expect(chosen(1), 1, false, false);
    expect(chosen(1, 128256, {}, true), 16, true, true);
    expect(chosen(8, 128256, {}, true), 13, true, true);
    expect(chosen(9, 128256, {}, true), 1, false, false);
    expect(chosen(1, 128256, {.max_grid = 1}, true), 1, false, false);
    standin::reset(standin::h200());
    expect(chosen(1), 16, true, false);
    expect(chosen(8), 16, true, false);
    expect(chosen(16), 8, true, false);
    expect(chosen(64), 2, false, false);
    expect(chosen(256), 1, false, false);
    expect(chosen(1, 1 << 20), 16, false, false);
    expect(chosen(1, 1 << 20, {}, true), 128, true, true);
    expect(chosen(1, 128256, {.max_cluster = 4}), 4, false, false);
    expect(chosen(1, 128256, {.max_cluster = 64}), 16, true, false);
    standin::reset(standin::b200());
    expect(chosen(1), 16, true, false);
    expect(chosen(18), 8, true, false);
    expect(chosen(148), 1, false, false);
}

TEST(launch, takes_no_clusters_of_16_where_they_do_not_fit) {
    standin::device small = standin::h200();
    small.clusters_of_16 = 4;
    standin::reset(small);
    EXPECT_EQ(chosen(4).ranks, 16);
    EXPECT_EQ(chosen(5).ranks, 8);
    small.clusters_of_16 = 0;
    standin::reset(small);
    EXPECT_EQ(chosen(1).ranks, 8);
}

TEST(launch, takes_no_clusters_with_code_for_older_devices) {
    standin::device old = standin::h200();
    old.ptx = 80;
    standin::reset(old);
    expect(chosen(1), 1, false, false);
    expect(chosen(1, 128256, {}, true), 16, true, true);
    old.is_cooperative = false;
    standin::reset(old);
    expect(chosen(1, 128256, {}, true), 1, false, false);
}

// Clusters that do not fit are an answer, not an error of the launch that follows.
TEST(launch, clusters_that_do_not_fit_are_no_error) {
    standin::fail("cudaOccupancyMaxActiveClusters", cudaErrorInvalidValue);
    EXPECT_EQ(chosen(1).ranks, 8);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    standin::fail("cudaFuncSetAttribute", cudaErrorInvalidValue);
    EXPECT_EQ(chosen(1).ranks, 8);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// An error that the caller has not read yet is preserved.
TEST(launch, leaves_the_callers_error_to_be_read) {
    for (bool const fails : {false, true}) {
        standin::reset(standin::h200());
        standin::fail("cudaStreamCreate", cudaErrorLaunchOutOfResources);
        cudaStream_t stream = nullptr;
        EXPECT_EQ(cudaStreamCreate(&stream), cudaErrorLaunchOutOfResources);
        if (fails) standin::fail("cudaOccupancyMaxActiveClusters", cudaErrorInvalidValue);
        EXPECT_EQ(chosen(1).ranks, 8);
        EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchOutOfResources);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }
}

TEST(launch, hands_on_the_errors_of_the_runtime) {
    mc::detail::shape s;
    auto const choose = [&] { return mc::detail::choose_for(nothing, 1, 128256, {}, true, s); };
    for (char const* const call : {"cudaGetDevice", "cudaDeviceGetAttribute", "cudaFuncGetAttributes"}) {
        standin::fail(call, cudaErrorInvalidResourceHandle);
        EXPECT_EQ(choose(), cudaErrorInvalidResourceHandle) << call;
        EXPECT_EQ(choose(), cudaSuccess) << call;
    }
    for (char const* const call : {"cudaFuncSetAttribute", "cudaLaunchKernelEx"}) {
        standin::fail(call, cudaErrorLaunchOutOfResources);
        EXPECT_EQ(mc::detail::launch(nothing, 1, {16, true, false}, 256, nullptr, 1), cudaErrorLaunchOutOfResources);
    }
    EXPECT_TRUE(standin::launches().empty());
    standin::reset(standin::none());
    EXPECT_EQ(choose(), cudaErrorNoDevice);
    standin::device newer = standin::h200();
    newer.ptx = 100;
    standin::reset(newer);
    EXPECT_EQ(choose(), cudaErrorNoKernelImageForDevice);
}

TEST(launch, is_made_as_it_was_chosen) {
    auto const launched = [](std::int64_t batch, mc::detail::shape const& s) {
        EXPECT_EQ(mc::detail::launch(nothing, batch, s, 256, nullptr, 1), cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        standin::launched const l = standin::launches().back();
        EXPECT_EQ(l.threads, 256U);
        EXPECT_EQ(l.blocks, batch * s.ranks);
        return l;
    };
    EXPECT_EQ(launched(3, {}).cluster, 1U);
    EXPECT_EQ(launched(2, {4, true, false}).cluster, 4U);
    EXPECT_EQ(launched(1, {16, true, false}).cluster, 16U);
    auto const grid = launched(2, {5, true, true});
    EXPECT_EQ(grid.cluster, 1U);
    EXPECT_TRUE(grid.cooperative);
    EXPECT_FALSE(launched(2, {1, true, true}).cooperative) << "a single block waits for no other";
    EXPECT_EQ(standin::launches().size(), 5U);
}

TEST(launch, of_nothing_succeeds_without_one) {
    EXPECT_EQ(mc::detail::launch(nothing, 0, {}, 256, nullptr, 1), cudaSuccess);
    EXPECT_EQ(mc::detail::launch(nothing, -1, {}, 256, nullptr, 1), cudaErrorInvalidValue);
    EXPECT_EQ(mc::detail::launch(nothing, 0x7fffffff / 16 + 1, {16, true, false}, 256, nullptr, 1),
              cudaErrorInvalidValue);
    EXPECT_TRUE(standin::launches().empty());
}

}  // namespace
}  // namespace launch_test
