// The part of the CUDA runtime that the library and its tests use, on the CPU: types, errors and calls with the names
// of NVIDIA's header. The stand-in is described in standin.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // empty: the standard library uses the word as the name of an attribute
#define __launch_bounds__(...)
/// For tests that also run on devices.
#define MULTIDRAFT_CUDA_STANDIN 1

// A block is a thread of the operating system; its lanes are fibres of that thread.
#define __shared__ static thread_local

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/// The errors that the tests name, with the runtime's values.
enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701,
    cudaErrorLaunchFailure = 719,
    cudaErrorCooperativeLaunchTooLarge = 720,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureImplicit = 906,
    cudaErrorInvalidClusterSize = 912
};
using cudaError_t = cudaError;

enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrClusterLaunch = 120
};
enum cudaFuncAttribute { cudaFuncAttributeNonPortableClusterSizeAllowed = 14 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

struct cudaFuncAttributes {
    int ptxVersion;
    int binaryVersion;
    int maxThreadsPerBlock;
};

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
constexpr unsigned cudaEventDisableTiming = 2;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative = 2, cudaLaunchAttributeClusterDimension = 4 };
union cudaLaunchAttributeValue {
    int cooperative;
    struct {
        unsigned x, y, z;
    } clusterDim;
};
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim;
    dim3 blockDim;
    std::size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
char const* cudaGetErrorName(cudaError_t error);
char const* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, std::size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void* data, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* kernel);
cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const* kernel, cudaLaunchConfig_t const* configuration);

namespace standin {

/// The kernel with its arguments, called by every lane of a launch.
using lane_body = std::function<void()>;

cudaError_t launch(cudaLaunchConfig_t const& configuration, void const* kernel, lane_body body);

// Operations of lanes, within a launch.
void sync_block();
void sync_cluster();
void sync_warp(unsigned mask);
std::uint64_t shuffle(unsigned mask, std::uint64_t value, int from, int kind);
unsigned ballot(unsigned mask, bool mine);
unsigned cluster_rank();
unsigned cluster_size();
void* at_cluster_rank(void* shared, unsigned rank);
/// One iteration of a loop that waits for another lane.
void spin();

template <class T>
[[nodiscard]] T exchange(unsigned mask, T x, int from, int kind) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
    std::uint64_t word = 0;
    std::memcpy(&word, &x, sizeof(T));
    word = shuffle(mask, word, from, kind);
    std::memcpy(&x, &word, sizeof(T));
    return x;
}

}  // namespace standin

// --- The language of kernels

inline thread_local constinit uint3 threadIdx{};
inline thread_local constinit uint3 blockIdx{};
inline thread_local constinit uint3 blockDim{};
inline thread_local constinit uint3 gridDim{};

inline void __syncthreads() { standin::sync_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) { standin::sync_warp(mask); }
template <class T>
[[nodiscard]] T __shfl_xor_sync(unsigned mask, T x, int bits) {
    return standin::exchange(mask, x, static_cast<int>(threadIdx.x % 32) ^ bits, bits);
}
template <class T>
[[nodiscard]] T __shfl_sync(unsigned mask, T x, int from) {
    return standin::exchange(mask, x, from & 31, 64);
}
[[nodiscard]] inline unsigned __ballot_sync(unsigned mask, bool mine) { return standin::ballot(mask, mine); }

// Only a lane that waits yields to another one, so these need no atomic instruction.
template <class T>
T atomicAdd(T* at, T x) {
    T const old = *at;
    *at = old + x;
    return old;
}
template <class T>
T atomicMin(T* at, T x) {
    T const old = *at;
    *at = x < old ? x : old;
    return old;
}

// --- The launch

/// Copies the arguments, as a launch does; every lane has its own copies.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* configuration, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    return standin::launch(*configuration, reinterpret_cast<void const*>(kernel),
                           [kernel, copies = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
                               std::apply(kernel, copies);
                           });
}
