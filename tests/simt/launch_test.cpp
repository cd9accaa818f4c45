// The calls of a launch to the CUDA runtime, with a mock runtime of a few variables.
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/launch_shape.hpp"

namespace {

/// A device of 132 multiprocessors, where clusters of 16 blocks may have no place.
struct runtime {
    cudaError_t last = cudaSuccess;
    cudaError_t when_asked = cudaSuccess;
    int clusters = 8;
    int ranks_launched = 0;
    int launches = 0;

    cudaError_t answer(cudaError_t e) {
        if (e != cudaSuccess) last = e;
        return e;
    }
};
runtime machine;

}  // namespace

// They take precedence over those of the runtime library, which is shared.
extern "C" {
cudaError_t cudaPeekAtLastError() { return machine.last; }
cudaError_t cudaGetLastError() {
    cudaError_t const e = machine.last;
    machine.last = cudaSuccess;
    return e;
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : 1;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const*) {
    *attributes = {};
    attributes->ptxVersion = 90;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const*) {
    *clusters = machine.clusters;
    return machine.answer(machine.when_asked);
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* configuration, void const*, void**) {
    ++machine.launches;
    machine.ranks_launched = static_cast<int>(configuration->gridDim.x);
    return machine.answer(cudaSuccess);
}
}

namespace {

namespace mc = multidraft::cuda;

void kernel(int) {}

mc::detail::shape chosen(std::int64_t batch) {
    mc::detail::shape s;
    EXPECT_EQ(mc::detail::choose_for(kernel, batch, 128256, {}, false, s), cudaSuccess);
    return s;
}

TEST(simt_launch, takes_clusters_of_16_where_there_is_room) {
    machine = {};
    EXPECT_EQ(chosen(1).ranks, 16);
    machine.clusters = 0;
    EXPECT_EQ(chosen(1).ranks, 8);
}

TEST(simt_launch, a_no_is_no_error) {
    machine = {};
    machine.when_asked = cudaErrorInvalidValue;
    EXPECT_EQ(chosen(1).ranks, 8);
    EXPECT_EQ(machine.last, cudaSuccess);
}

// An error that the caller has not read yet is still there afterwards, and still the same.
TEST(simt_launch, leaves_the_callers_error_to_be_read) {
    for (cudaError_t const answer : {cudaSuccess, cudaErrorInvalidValue}) {
        machine = {};
        machine.last = cudaErrorLaunchOutOfResources;
        machine.when_asked = answer;
        EXPECT_EQ(chosen(1).ranks, 8);
        EXPECT_EQ(machine.last, cudaErrorLaunchOutOfResources);
    }
}

TEST(simt_launch, of_nothing_succeeds_without_one) {
    machine = {};
    mc::detail::shape const s;
    EXPECT_EQ(mc::detail::launch(kernel, 0, s, 256, nullptr, 1), cudaSuccess);
    EXPECT_EQ(machine.launches, 0);
    EXPECT_EQ(mc::detail::launch(kernel, 3, s, 256, nullptr, 1), cudaSuccess);
    EXPECT_EQ(machine.launches, 1);
    EXPECT_EQ(machine.ranks_launched, 3);
    EXPECT_EQ(mc::detail::launch(kernel, -1, s, 256, nullptr, 1), cudaErrorInvalidValue);
}

}  // namespace
#endif
