// The operations of warp, block, cluster and grid groups on a device, bit for bit against the host group; exp and log.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/group_parity.cuh"
#include "cuda/on_device.cuh"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/device_group.cuh"

namespace groups_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
using multidraft::testing::cuda_device;
using multidraft::testing::expect_parity;
using multidraft::testing::on_device;
using multidraft::testing::operations;
using multidraft::testing::searches;

TEST_F(cuda_device, operations_of_a_warp_have_the_bits_of_the_host_group) {
    for (index_t const n : {1, 33, 4097})
        expect_parity<operations, mc::warp_group<>, multidraft::float16, contiguous>(n, 1);
}

TEST_F(cuda_device, operations_of_a_block_have_the_bits_of_the_host_group) {
    for (index_t const n : {1, 2, 31, 255, 256, 257, 4095, 4096, 4097, 32000, 50257, 128256, 151936, 152064})
        expect_parity<operations, mc::block_group<256, 1>, float, contiguous>(n, 1);
}

TEST_F(cuda_device, operations_of_a_cluster_have_the_bits_of_the_host_group) {
    bool const has_clusters = attribute(cudaDevAttrClusterLaunch) != 0;
    for (index_t const n : {1, 4097, 32000, 128256, 151936})
        for (int const ranks : {1, 2, 8}) {
            if (ranks > 1 && !has_clusters) continue;
            expect_parity<operations, mc::cluster_group<256, 2, float, 8>, bfloat16, aligned<16>>(n, ranks);
        }
}

TEST_F(cuda_device, searches_find_the_tokens_of_the_host_group) {
    for (index_t const n : {1, 300, 4097, 33 * 4096 - 7, 262144, 257 * 4096 + 300}) {
        expect_parity<searches, mc::block_group<256, 1>, float, contiguous>(n, 1);
        expect_parity<searches, mc::block_group<256, 2, float, 8>, bfloat16, aligned<16>>(n, 1);
    }
}

TEST_F(cuda_device, operations_of_a_grid_have_the_bits_of_the_host_group) {
    int const most = attribute(cudaDevAttrMultiProcessorCount);
    for (index_t const n : {1, 4097, 128256, 1 << 20, 257 * 4096 + 300})
        for (int const ranks : {1, 7, 32, 128}) {
            if (ranks > most) continue;
            expect_parity<operations, mc::grid_group<256, 2, float, 4>, float, aligned<16>>(n, ranks);
        }
}

__global__ void exp_log_kernel(std::uint32_t begin, std::uint32_t stride, std::uint32_t* exps, std::uint32_t* logs,
                               std::uint32_t* variates, std::uint32_t count) {
    std::uint32_t const k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;
    std::uint32_t const word = begin + k * stride;
    float const x = __builtin_bit_cast(float, word);
    exps[k] = __builtin_bit_cast(std::uint32_t, fp::exp(x));
    logs[k] = __builtin_bit_cast(std::uint32_t, fp::log(x));
    variates[k] = __builtin_bit_cast(std::uint32_t, exponential_variate(word));
}

__global__ void falling_kernel(exp_nonpositive<float> of, std::uint32_t begin, std::uint32_t stride, std::uint32_t* out,
                               std::uint32_t count) {
    std::uint32_t const k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) out[k] = __builtin_bit_cast(std::uint32_t, of(__builtin_bit_cast(float, begin + k * stride)));
}

// Every 64th float from -0 to minus infinity and beyond (NaN), then all floats from -32 to -64.
TEST_F(cuda_device, falling_exponential_has_the_bits_of_the_host) {
    constexpr std::uint32_t count = 1U << 23;
    on_device<std::uint32_t> const out(count);
    struct range {
        std::uint32_t begin, stride;
    };
    for (float const scale : {1.0F, 0.7F, 1e30F, 1e-40F})
        for (range const r : {range{0x80000000U, 64}, range{0xa0000000U, 64}, range{0xc0000000U, 64},
                              range{0xe0000000U, 64}, range{0xc2000000U, 1}}) {
            exp_nonpositive<float> const of(scale);
            falling_kernel<<<count / 256, 256>>>(of, r.begin, r.stride, out.data(), count);
            EXPECT_CUDA(cudaDeviceSynchronize());
            auto const got = out.host();
            for (std::uint32_t k = 0; k < count; ++k) {
                std::uint32_t const word = r.begin + k * r.stride;
                float const expected = of(__builtin_bit_cast(float, word));
                if (expected != expected)
                    ASSERT_GT(got[k] & 0x7fffffffU, 0x7f800000U) << "NaN of the float " << word;
                else
                    ASSERT_EQ(got[k], __builtin_bit_cast(std::uint32_t, expected)) << "of the float " << word;
            }
        }
}

// Every 64th of all floats, then all floats with |x| in [64, 128), where results leave the range of floats.
TEST_F(cuda_device, exponential_and_logarithm_have_the_bits_of_the_host) {
    constexpr std::uint32_t count = 1U << 23;
    on_device<std::uint32_t> const exps(count), logs(count), variates(count);
    struct range {
        std::uint32_t begin, stride;
    };
    for (range const r : {range{0, 64}, range{32U << 24, 64}, range{64U << 24, 64}, range{96U << 24, 64},
                          range{128U << 24, 64}, range{160U << 24, 64}, range{192U << 24, 64}, range{224U << 24, 64},
                          range{0x42800000U, 1}, range{0xc2800000U, 1}}) {
        exp_log_kernel<<<count / 256, 256>>>(r.begin, r.stride, exps.data(), logs.data(), variates.data(), count);
        EXPECT_CUDA(cudaDeviceSynchronize());
        auto const e = exps.host();
        auto const l = logs.host();
        auto const v = variates.host();
        for (std::uint32_t k = 0; k < count; ++k) {
            std::uint32_t const word = r.begin + k * r.stride;
            float const x = __builtin_bit_cast(float, word);
            ASSERT_EQ(e[k], __builtin_bit_cast(std::uint32_t, fp::exp(x))) << "exp of the float " << word;
            ASSERT_EQ(l[k], __builtin_bit_cast(std::uint32_t, fp::log(x))) << "log of the float " << word;
            ASSERT_EQ(v[k], __builtin_bit_cast(std::uint32_t, exponential_variate(word))) << word;
        }
    }
}

}  // namespace
}  // namespace groups_test
