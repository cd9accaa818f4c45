// A step of a batch on a CUDA stream: logits in device memory, small arrays copied there and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// Memory that the runtime allocates and frees, kept until more of it is needed.
template <cudaError_t (*allocate)(void**, std::size_t), cudaError_t (*release)(void*)>
class kept_memory {
public:
    /// At least `size` bytes; what was in them is lost where there were fewer.
    [[nodiscard]] cudaError_t reserve(std::size_t size) {
        if (size <= this->size()) return cudaSuccess;
        void* data = nullptr;
        if (cudaError_t const e = allocate(&data, size)) return e;
        data_.reset(static_cast<std::byte*>(data));
        size_ = size;
        return cudaSuccess;
    }
    [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return data_ == nullptr ? 0 : size_; }

private:
    struct releases {
        void operator()(std::byte* data) const noexcept { static_cast<void>(release(data)); }
    };
    std::unique_ptr<std::byte, releases> data_;
    std::size_t size_ = 0;
};

/// What a step of a batch keeps on the current device: arrays with a mirror in pinned host memory, and scratch.
class step_memory {
public:
    using policy = stream_policy;
    using error = cudaError_t;

    /// Bytes of scratch for `verify_batch`.
    template <verify::verifier Verifier>
    [[nodiscard]] static constexpr std::size_t verify_workspace_size(stream_policy const& on, std::int32_t requests,
                                                                     node_id nodes, std::int32_t depth) {
        return multidraft::verify_workspace_size<Verifier>(on, requests, nodes, depth);
    }

    /// Memory of these sizes. Waits until the last `send` has read the mirror.
    [[nodiscard]] cudaError_t reserve(stream_policy const&, std::size_t mirrored, std::size_t scratch) {
        if (sent_ == nullptr) {
            cudaEvent_t event = nullptr;
            if (cudaError_t const e = cudaEventCreateWithFlags(&event, cudaEventDisableTiming)) return e;
            sent_.reset(event);
        }
        if (cudaError_t const e = cudaEventSynchronize(sent_.get())) return e;
        std::size_t const size = std::bit_ceil(mirrored);  // later steps may need a little more
        if (cudaError_t const e = here_.reserve(size)) return e;
        if (cudaError_t const e = there_.reserve(size)) return e;
        return scratch_.reserve(scratch);
    }
    [[nodiscard]] std::byte* here() const noexcept { return here_.data(); }
    [[nodiscard]] std::byte* there() const noexcept { return there_.data(); }
    [[nodiscard]] workspace scratch() const noexcept { return {scratch_.data(), scratch_.size()}; }

    /// Copies the first `size` bytes of the mirror to the device.
    [[nodiscard]] cudaError_t send(stream_policy const& on, std::size_t size) {
        if (cudaError_t const e = cudaMemcpyAsync(there(), here(), size, cudaMemcpyHostToDevice, on.stream)) return e;
        return cudaEventRecord(sent_.get(), on.stream);
    }
    /// Copies bytes `begin` to `end` to the mirror, and waits for the stream.
    [[nodiscard]] cudaError_t fetch(stream_policy const& on, std::size_t begin, std::size_t end) {
        if (cudaError_t const e =
                cudaMemcpyAsync(here() + begin, there() + begin, end - begin, cudaMemcpyDeviceToHost, on.stream))
            return e;
        return cudaStreamSynchronize(on.stream);
    }

private:
    struct destroys {
        void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
    };
    kept_memory<cudaMallocHost, cudaFreeHost> here_;
    kept_memory<cudaMalloc, cudaFree> there_, scratch_;
    std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroys> sent_;
};

}  // namespace detail

/// A `batch_step` on a CUDA stream: `cuda::batch_step<Sampler, Verifier>`, with `cuda::on(stream)` as the policy of its
/// calls. See `device_batch_step`. Its memory is the current device's. A step belongs to one stream at a time.
template <sampler Sampler, verify::verifier Verifier>
using batch_step = device_batch_step<Sampler, Verifier, detail::step_memory>;

}  // namespace MULTIDRAFT_NAMESPACE::cuda
