// Every sampler on a device, bit for bit against the host group.
#include <gtest/gtest.h>

#include "cuda/group_parity.cuh"
#include "cuda/on_device.cuh"
#include "multidraft/cuda/device_group.cuh"

namespace samplers_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
using multidraft::testing::cuda_device;
using multidraft::testing::expect_parity;

TEST_F(cuda_device, samplers_draw_the_tokens_of_the_host_group) {
    using program = multidraft::testing::samplers;
    using group_type = mc::cluster_group<256, 4>;
    for (index_t const n : {1, 257, 4099, 32000, 128256}) expect_parity<program, group_type, float, contiguous>(n, 1);
    for (sampling_params const& w :
         {sampling_params{.temperature = 0.7F, .top_k = 40, .top_p = 0.95F}, sampling_params{.temperature = 0.0F},
          sampling_params{.temperature = 1.5F, .min_p = 0.02F}})
        expect_parity<program, group_type, float, contiguous>(32000, 1, w);
    if (attribute(cudaDevAttrClusterLaunch) != 0) expect_parity<program, group_type, float, contiguous>(151936, 8);
}

}  // namespace
}  // namespace samplers_test
