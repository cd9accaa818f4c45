// Engine formats on a device are those of the host.
#include <gtest/gtest.h>

#include "cuda/on_device.cuh"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/cuda/on.cuh"
#include "support/engine_formats.hpp"

namespace engine_formats_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, formats_of_engines_are_those_of_the_host) {
    auto const got = mt::write_engine_formats<mt::on_device>(mc::on(nullptr), [](auto const& call) {
        EXPECT_EQ(call(), cudaSuccess);
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    });
    EXPECT_EQ(got, mt::engine_formats_of_host());
}

}  // namespace
}  // namespace engine_formats_test
