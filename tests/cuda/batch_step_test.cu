// A step of a batch on a stream: the tokens, nodes and caches of the same step on the host.
#if defined(__NVCC__)
#pragma nv_diag_suppress 20011  // the host's steps call functions that are the host's alone
#endif

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "cuda/batch_steps.cuh"
#include "cuda/on_device.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

// nvcc warns of uncalled functions without linkage, such as those that only a concept uses.
namespace cuda_batch_step_test {

using namespace multidraft;
using multidraft::testing::cuda_device;

TEST_F(cuda_device, steps_are_those_of_the_host) {
    cudaStream_t stream = nullptr;
    EXPECT_CUDA(cudaStreamCreate(&stream));
    multidraft::testing::expect_the_hosts_steps_on<draft::sequential, verify::recursive_rejection<law::sequential>,
                                                   aligned<16>>(stream, 64, 5);
    multidraft::testing::expect_the_hosts_steps_on<draft::stratified, verify::nested_ranked_block<law::stratified>,
                                                   aligned<16>>(stream, 64, 5);
    EXPECT_CUDA(cudaStreamDestroy(stream));
}

}  // namespace cuda_batch_step_test
