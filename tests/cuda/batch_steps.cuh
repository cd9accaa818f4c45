// The engine of steps on a stream.
#pragma once

#include <cuda_runtime.h>

#include "cuda/on_device.cuh"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/cuda/batch_step.cuh"
#include "multidraft/cuda/on.cuh"
#include "support/batch_steps.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Steps on a stream.
template <class Sampler, class Verifier>
struct steps_on_stream {
    template <class T>
    using array = on_device<T>;

    cuda::stream_policy policy;
    cuda::batch_step<Sampler, Verifier> step;

    explicit steps_on_stream(cudaStream_t stream) : policy(cuda::on(stream)) {}

    device_inputs inputs(step_inputs const& in) {
        device_inputs there;
        expect_success([&] { return step.copy_inputs(policy, in, there); });
        return there;
    }
    template <class Target, class Draft>
    void compact(Target const& target, Draft const& draft) {
        kept_batch of_target, of_draft;
        expect_success([&] { return step.copy_kept(policy, of_target, of_draft); });
        expect_success([&] { return compact_caches(policy, target, of_target); });
        expect_success([&] { return compact_caches(policy, draft, of_draft); });
    }
};

/// Several steps on a stream are those of the host.
template <class Sampler, class Verifier, class Layout>
void expect_the_hosts_steps_on(cudaStream_t stream, index_t vocabulary, int count) {
    expect_the_hosts_steps<Sampler, Verifier, Layout, steps_on_stream<Sampler, Verifier>>(vocabulary, count, stream);
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
