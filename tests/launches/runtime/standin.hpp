// A stand-in for the CUDA runtime and a device: the library's kernels and launches, compiled by a plain C++ compiler,
// run on the CPU as their callers launch them.
//
// - Every block is a thread of the operating system, and `__shared__` is thread-local memory. The lanes of a block are
//   fibres of the thread. One lane runs at a time, until it waits; an `order` decides which one continues, and the
//   result is reproducible. A missing barrier shows as a wrong result under some order.
// - The blocks of a cluster and of a cooperative grid run concurrently; of other launches a few blocks do, so that
//   interference between blocks shows.
// - Device memory is filled with `poison` at first, cannot be accessed by the host outside of a call, and has guards
//   around every allocation: the address sanitizer's own, or bytes that are checked after each launch.
// - Copies from pinned host memory read it when they run, from other host memory when they are recorded.
// - Streams record their work. It runs when the host waits for it, and not before.
// - A launch that fails makes every later call fail, as on a device, until `reset`; `fault()` is the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace standin {

/// The attributes of a device.
struct device {
    int multiprocessors = 0;
    int compute = 0;         ///< ten times the compute capability
    int shared_bytes = 0;    ///< of a multiprocessor
    int clusters_of_8 = 0;   ///< that fit at once, with one block per multiprocessor
    int clusters_of_16 = 0;  ///< that fit at once; 0: none fits
    int ptx = 90;            ///< `cudaFuncAttributes::ptxVersion` of all kernels
    bool is_cooperative = true;

    [[nodiscard]] bool has_clusters() const { return compute >= 90; }
};

/// 108 multiprocessors, no clusters.
[[nodiscard]] device a100();
/// 132 multiprocessors, clusters of up to 16 blocks.
[[nodiscard]] device h200();
/// 148 multiprocessors, clusters of up to 16 blocks.
[[nodiscard]] device b200();
/// No device: every call that needs one returns `cudaErrorNoDevice`.
[[nodiscard]] device none();

/// Which of the lanes that can continue does: in the order of arrival at the barrier, in the reverse order, the last to
/// arrive (so that one warp runs far ahead of the others), or a random one.
enum class order { first_come, last_come, warp_by_warp, random };

/// Whether accesses outside of allocations of device memory end the program with the sanitizer's report.
extern bool const has_address_sanitizer;
/// Whether the shared memory of a block is filled with poison, too: not where a sanitizer keeps its own state there.
extern bool const poisons_shared_memory;

/// Selects a device and clears errors, recorded work and attributes of kernels. Memory stays allocated.
void reset(device const& of, order lanes = order::first_come, std::uint64_t seed = 1);
/// Sets the order of lanes for later launches.
void set_order(order lanes, std::uint64_t seed = 1);
/// Sets how many blocks of a launch without cooperation run concurrently (whole clusters of them).
void set_residents(int blocks);
/// Sets the byte that new device memory is filled with.
void set_poison(unsigned char byte);
/// The next call of this name returns `error` and does nothing.
void fail(char const* call, cudaError_t error);

/// A launch that was accepted, whether recorded or captured.
struct launched {
    void const* kernel = nullptr;
    unsigned blocks = 0;
    unsigned threads = 0;
    unsigned cluster = 1;
    bool cooperative = false;
};
/// All since `reset`.
[[nodiscard]] std::vector<launched> const& launches();
/// The reason of the first failure; empty without one.
[[nodiscard]] std::string const& fault();
/// Allocated device memory, in bytes.
[[nodiscard]] std::size_t allocated();
/// Allocated pinned host memory, in bytes.
[[nodiscard]] std::size_t pinned();

/// Records work other than a kernel.
cudaError_t enqueue(cudaStream_t stream, char const* call, std::function<void()> work);

/// A function of CUB: without a workspace it returns the size that it needs; with one it is recorded. The workspace is
/// overwritten, so that a shared one is found.
template <class Work>
cudaError_t in_two_calls(void* workspace, std::size_t& bytes, std::size_t needed, cudaStream_t stream, Work work) {
    int device = 0;
    if (cudaError_t const e = cudaGetDevice(&device)) return e;
    if (workspace == nullptr) {
        bytes = needed;
        return cudaSuccess;
    }
    if (bytes < needed) return cudaErrorInvalidValue;
    return enqueue(stream, "cub", [=] {
        std::memset(workspace, 0x5a, needed);
        work();
        std::memset(workspace, 0xa5, needed);
    });
}

}  // namespace standin
