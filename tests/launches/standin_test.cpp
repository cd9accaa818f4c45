// The stand-in for the CUDA runtime itself: its launches, and the faults that it must find.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda/atomic>
#include <string>
#include <vector>

#include "launches/runtime/standin.hpp"

namespace standin_test {
namespace {

using standin::order;

constexpr order orders[] = {order::first_come, order::last_come, order::warp_by_warp, order::random};

struct device_ints {
    explicit device_ints(std::size_t n) : size(n) { EXPECT_EQ(cudaMalloc(&data, n * sizeof(int)), cudaSuccess); }
    device_ints(device_ints const&) = delete;
    device_ints& operator=(device_ints const&) = delete;
    ~device_ints() { static_cast<void>(cudaFree(data)); }
    [[nodiscard]] std::vector<int> host() const {
        std::vector<int> result(size);
        EXPECT_EQ(cudaMemcpy(result.data(), data, size * sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
        return result;
    }
    int* data = nullptr;
    std::size_t size;
};

struct launch_of {
    unsigned blocks = 1;
    unsigned threads = 64;
    unsigned cluster = 1;
    bool cooperative = false;
    cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t run(launch_of const& l, void (*kernel)(Parameters...), Arguments... arguments) {
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(l.blocks);
    configuration.blockDim = dim3(l.threads);
    configuration.stream = l.stream;
    cudaLaunchAttribute attribute{};
    attribute.id = l.cooperative ? cudaLaunchAttributeCooperative : cudaLaunchAttributeClusterDimension;
    if (l.cooperative)
        attribute.val.cooperative = 1;
    else
        attribute.val.clusterDim = {l.cluster, 1, 1};
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    return cudaLaunchKernelEx(&configuration, kernel, arguments...);
}

/// Every lane of a block writes its number and reads that of the opposite lane.
template <bool Waits>
__global__ void mirrored(int* out) {
    __shared__ int shared[64];
    shared[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (Waits) __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];
}

std::vector<int> mirrored_numbers() {
    std::vector<int> numbers;
    for (int k = 0; k < 5 * 64; ++k) numbers.push_back(63 - k % 64);
    return numbers;
}

TEST(standin, runs_blocks_with_shared_memory_of_their_own) {
    device_ints const out(5 * 64);
    for (order const o : orders) {
        standin::set_order(o);
        ASSERT_EQ(run({.blocks = 5}, mirrored<true>, out.data), cudaSuccess);
        EXPECT_EQ(out.host(), mirrored_numbers());
    }
}

TEST(standin, shows_a_missing_barrier) {
    device_ints const out(5 * 64);
    bool seen = false;
    for (order const o : orders) {
        standin::set_order(o);
        ASSERT_EQ(run({.blocks = 5}, mirrored<false>, out.data), cudaSuccess);
        seen = seen || out.host() != mirrored_numbers();
    }
    EXPECT_TRUE(seen);
}

/// Reads shared memory before it is written.
__global__ void look_at_shared(int* out) {
    __shared__ int shared[64];
    out[threadIdx.x] = shared[threadIdx.x];
    __syncthreads();
    shared[threadIdx.x] = 1;
}

TEST(standin, fills_new_memory_with_poison) {
    device_ints const out(64);
    EXPECT_EQ(out.host(), std::vector<int>(64, -1));
    if (!standin::poisons_shared_memory) return;
    for (int k = 0; k < 2; ++k) {
        ASSERT_EQ(run({}, look_at_shared, out.data), cudaSuccess);
        EXPECT_EQ(out.host(), std::vector<int>(64, -1));
    }
}

/// Blocks of a cluster exchange their numbers.
template <bool Waits>
__global__ void exchanged(int* out) {
    __shared__ int numbers[16];
    auto const cluster = cooperative_groups::this_cluster();
    auto const rank = cluster.block_rank();
    cluster.sync();
    if (threadIdx.x < cluster.num_blocks())
        *cluster.map_shared_rank(numbers + rank, threadIdx.x) = static_cast<int>(blockIdx.x + 1);
    if (Waits) cluster.sync();
    if (threadIdx.x < cluster.num_blocks()) out[blockIdx.x * 16 + threadIdx.x] = numbers[threadIdx.x];
    cluster.sync();
}

TEST(standin, runs_clusters) {
    device_ints const out(4 * 4 * 16);
    std::vector<int> expected(4 * 4 * 16, -1);
    for (std::size_t block = 0; block < 16; ++block)
        for (std::size_t k = 0; k < 4; ++k) expected[block * 16 + k] = static_cast<int>(block / 4 * 4 + k + 1);
    bool seen = false;
    for (order const o : orders) {
        standin::set_order(o, 3);
        ASSERT_EQ(run({.blocks = 16, .cluster = 4}, exchanged<true>, out.data), cudaSuccess);
        EXPECT_EQ(out.host(), expected);
        ASSERT_EQ(run({.blocks = 16, .cluster = 4}, exchanged<false>, out.data), cudaSuccess);
        seen = seen || out.host() != expected;
    }
    EXPECT_TRUE(seen) << "the missing barrier of the cluster";
}

/// Blocks of a grid increment a counter and wait until it is `wanted`.
__global__ void meet(int* counter, int* out, int wanted) {
    if (threadIdx.x == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_device> const arrived(*counter);
        arrived.fetch_add(1, cuda::memory_order_acq_rel);
        while (arrived.load(cuda::memory_order_acquire) < wanted) {
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = *counter;
}

TEST(standin, runs_all_blocks_of_a_cooperative_launch_at_once) {
    device_ints const counter(1), out(7);
    ASSERT_EQ(cudaMemsetAsync(counter.data, 0, sizeof(int), nullptr), cudaSuccess);
    ASSERT_EQ(run({.blocks = 7, .cooperative = true}, meet, counter.data, out.data, 7), cudaSuccess);
    EXPECT_EQ(out.host(), std::vector<int>(7, 7));
}

/// The sum over a warp and a ballot of its odd lanes.
__global__ void warp_sums(int* sums, unsigned* odd) {
    int x = static_cast<int>(threadIdx.x);
    for (int bit = 16; bit > 0; bit /= 2) x += __shfl_xor_sync(0xffffffffU, x, bit);
    unsigned const bits = __ballot_sync(0xffffffffU, threadIdx.x % 2 == 1);
    double const first = __shfl_sync(0xffffffffU, static_cast<double>(threadIdx.x), 0);
    sums[threadIdx.x] = x + static_cast<int>(first);
    if (threadIdx.x == 32) *odd = bits;
    atomicAdd(odd + 1, 1U);
}

TEST(standin, lets_the_lanes_of_a_warp_exchange_values) {
    device_ints const sums(64), odd(2);
    for (order const o : orders) {
        standin::set_order(o);
        ASSERT_EQ(cudaMemset(odd.data, 0, 2 * sizeof(int)), cudaSuccess);
        ASSERT_EQ(run({}, warp_sums, sums.data, reinterpret_cast<unsigned*>(odd.data)), cudaSuccess);
        std::vector<int> expected(32, 496);
        expected.resize(64, 496 + 32 * 32 + 32);
        EXPECT_EQ(sums.host(), expected);
        EXPECT_EQ(odd.host(), (std::vector<int>{static_cast<int>(0xaaaaaaaaU), 64}));
    }
}

// --- Faults

enum class mistake { past_the_end, before_the_beginning, barrier_of_some, parted_warp, no_grid, gone, none };

__global__ void wrong(mistake what, int* data, int size) {
    switch (what) {
        case mistake::past_the_end:
            if (threadIdx.x == 0) *reinterpret_cast<int volatile*>(data + size) = 7;
            break;
        case mistake::before_the_beginning:
            if (threadIdx.x == 0) *reinterpret_cast<int volatile*>(data - 1) = 7;
            break;
        case mistake::barrier_of_some:
            if (threadIdx.x != 3) __syncthreads();
            break;
        case mistake::parted_warp:
            static_cast<void>(threadIdx.x < 8 ? __shfl_xor_sync(0xffffffffU, 1, 16)
                                              : __shfl_xor_sync(0xffffffffU, 1, 8));
            break;
        case mistake::no_grid: {
            cuda::atomic_ref<int, cuda::thread_scope_device> const arrived(*data);
            if (threadIdx.x == 0)
                while (arrived.load(cuda::memory_order_acquire) != 12345) {
                }
            break;
        }
        case mistake::gone: {
            __shared__ int shared[1];
            if (cooperative_groups::this_cluster().block_rank() == 0) {
                for (int k = 0; k < 100; ++k) __syncthreads();
                *cooperative_groups::this_cluster().map_shared_rank(shared, 1U) = 1;
            }
            break;
        }
        case mistake::none:
            break;
    }
}

/// The fault reported for a wrong kernel. Resets the device afterwards.
std::string fault_of(mistake what, launch_of const& l = {}) {
    device_ints const data(4);
    EXPECT_EQ(run(l, wrong, what, data.data, 4), cudaSuccess);
    EXPECT_EQ(standin::fault(), "") << "nothing has run yet";
    cudaError_t const e = cudaDeviceSynchronize();
    std::string const fault = standin::fault();
    EXPECT_EQ(e == cudaSuccess, fault.empty());
    // Every later call fails.
    EXPECT_EQ(run(l, wrong, mistake::none, data.data, 4), e);
    EXPECT_EQ(cudaGetLastError(), e);
    EXPECT_EQ(cudaPeekAtLastError(), e);
    standin::reset(standin::h200());
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    return fault;
}

TEST(standin, finds_what_makes_a_device_hang_or_fail) {
    EXPECT_EQ(fault_of(mistake::none), "");
    EXPECT_EQ(fault_of(mistake::barrier_of_some), "lanes wait for others that do not come");
    EXPECT_EQ(fault_of(mistake::parted_warp), "the lanes of a warp meet in different operations");
    EXPECT_EQ(fault_of(mistake::no_grid), "lanes ask for ever whether another one has come");
    EXPECT_EQ(fault_of(mistake::gone, {.blocks = 2, .cluster = 2}), "the shared memory of a block that is gone");
}

TEST(standin, finds_what_is_written_beside_an_allocation) {
    if (standin::has_address_sanitizer) {
        EXPECT_DEATH(static_cast<void>(fault_of(mistake::past_the_end)), "use-after-poison");
        EXPECT_DEATH(static_cast<void>(fault_of(mistake::before_the_beginning)), "use-after-poison");
        return;
    }
    EXPECT_EQ(fault_of(mistake::past_the_end), "byte 16 of an allocation of 16 is written");
    EXPECT_EQ(fault_of(mistake::before_the_beginning), "byte -4 of an allocation of 16 is written");
}

using standin_death = testing::Test;

TEST(standin_death, the_host_does_not_touch_device_memory) {
    device_ints const data(4);
    auto* const number = const_cast<int volatile*>(data.data);
    EXPECT_DEATH(if (number != nullptr)* number = 1, "");
}

// --- Streams and graphs

__global__ void add_one(int* data) {
    if (threadIdx.x == 0) ++*data;
}

TEST(standin, runs_what_a_stream_recorded_when_somebody_waits) {
    device_ints const data(1);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(data.data, 0, sizeof(int), stream), cudaSuccess);
    ASSERT_EQ(run({.stream = stream}, add_one, data.data), cudaSuccess);
    EXPECT_EQ(standin::launches().size(), 1U);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(data.host(), std::vector<int>{1});

    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(run({.stream = stream}, add_one, data.data), cudaSuccess);
    ASSERT_EQ(run({.stream = stream}, add_one, data.data), cudaSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(data.host(), std::vector<int>{1}) << "captured, not run";
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int k = 0; k < 3; ++k) ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(data.host(), std::vector<int>{7});
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);

    // Waiting and allocating invalidate a capture.
    for (int what = 0; what < 4; ++what) {
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        int number = 0;
        void* memory = nullptr;
        cudaError_t const e = what == 0   ? cudaStreamSynchronize(stream)
                              : what == 1 ? cudaMalloc(&memory, 16)
                              : what == 2 ? cudaMemcpy(&number, data.data, sizeof(int), cudaMemcpyDeviceToHost)
                                          : run({}, add_one, data.data);
        EXPECT_EQ(e, what < 2 ? cudaErrorStreamCaptureUnsupported : cudaErrorStreamCaptureImplicit);
        EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        EXPECT_EQ(graph, nullptr);
    }
    EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(run({.stream = stream}, add_one, data.data), cudaErrorInvalidResourceHandle);
}

// --- Launches that a device rejects

TEST(standin, orders_streams_by_events_and_frees_in_the_order_of_a_stream) {
    cudaStream_t writer = nullptr;
    cudaStream_t reader = nullptr;
    ASSERT_EQ(cudaStreamCreate(&writer), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&reader), cudaSuccess);
    for (bool const waits : {true, false}) {
        void* data = nullptr;
        ASSERT_EQ(cudaMallocAsync(&data, 4, writer), cudaSuccess);
        int x = 5;
        ASSERT_EQ(cudaMemcpyAsync(data, &x, 4, cudaMemcpyHostToDevice, writer), cudaSuccess);
        x = 0;  // it has been read
        if (waits) {
            cudaEvent_t event = nullptr;
            ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
            EXPECT_EQ(cudaEventRecord(event, writer), cudaSuccess);
            EXPECT_EQ(cudaStreamWaitEvent(reader, event, 0), cudaSuccess);
            EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
            EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
        }
        ASSERT_EQ(cudaMemcpyAsync(&x, data, 4, cudaMemcpyDeviceToHost, reader), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(reader), cudaSuccess);
        EXPECT_EQ(x == 5, waits);
        EXPECT_EQ(cudaFreeAsync(data, writer), cudaSuccess);
        EXPECT_EQ(cudaFreeAsync(data, writer), cudaErrorInvalidValue);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
    EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
    EXPECT_EQ(cudaStreamDestroy(writer), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(reader), cudaSuccess);
}

TEST(standin, copies_read_pinned_memory_when_they_run) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess) << "nothing was recorded";
    device_ints const out(1);
    void* memory = nullptr;
    ASSERT_EQ(cudaMallocHost(&memory, 2 * sizeof(int)), cudaSuccess);
    EXPECT_EQ(standin::pinned(), 2 * sizeof(int));
    int* const x = static_cast<int*>(memory) + 1;
    for (bool const waits : {true, false}) {
        *x = 5;
        ASSERT_EQ(cudaMemcpyAsync(out.data, x, sizeof(int), cudaMemcpyHostToDevice, stream), cudaSuccess);
        ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
        if (waits) {
            EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
        }
        *x = 6;
        EXPECT_EQ(out.host(), std::vector<int>(1, waits ? 5 : 6));
    }
    EXPECT_EQ(cudaFreeHost(memory), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(memory), cudaErrorInvalidValue);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(standin, refuses_what_the_device_does_not_have) {
    device_ints const data(1);
    auto const answer = [&](launch_of const& l) { return run(l, add_one, data.data); };
    EXPECT_EQ(answer({.blocks = 0}), cudaErrorInvalidConfiguration);
    EXPECT_EQ(answer({.threads = 1056}), cudaErrorInvalidConfiguration);
    EXPECT_EQ(answer({.blocks = 9, .cluster = 2}), cudaErrorInvalidConfiguration);
    EXPECT_EQ(answer({.blocks = 16, .cluster = 16}), cudaErrorInvalidClusterSize) << "not allowed for the kernel";
    EXPECT_EQ(answer({.blocks = 133, .cooperative = true}), cudaErrorCooperativeLaunchTooLarge);
    auto const* const kernel = reinterpret_cast<void const*>(add_one);
    EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), cudaSuccess);
    EXPECT_EQ(answer({.blocks = 16, .cluster = 16}), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    standin::reset(standin::a100());
    EXPECT_EQ(answer({.blocks = 2, .cluster = 2}), cudaErrorNotSupported);
    EXPECT_EQ(answer({.blocks = 108, .cooperative = true}), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data.data, data.data, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    standin::fail("cudaLaunchKernelEx", cudaErrorLaunchOutOfResources);
    EXPECT_EQ(answer({}), cudaErrorLaunchOutOfResources);
    EXPECT_EQ(answer({}), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    standin::reset(standin::none());
    EXPECT_EQ(answer({}), cudaErrorNoDevice);
    standin::reset(standin::h200());
}

}  // namespace
}  // namespace standin_test
