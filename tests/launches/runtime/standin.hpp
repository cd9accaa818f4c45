// A stand-in for the CUDA runtime and a device: kernels and launches of the library, compiled by a plain C++ compiler,
// run on the CPU as their callers launch them.
//
// - Every block has a thread of the operating system, and `__shared__` is that thread's memory. The lanes of a block
//   are fibres of it. One lane runs at a time, until it waits; who goes on is decided by an `order`, the same way every
//   time. A missing barrier shows as a wrong result under some order.
// - The blocks of a cluster and of a cooperative grid are there at once; of other launches, a few blocks are, so that
//   what they share by mistake is written by turns.
// - Device memory is full of `poison` at first, cannot be touched by the host outside of a call, and has guards around
//   every allocation: under the address sanitizer they are its own, otherwise writes to them are found after a launch.
// - Streams record. What was recorded runs when somebody waits for it, and not before.
// - A launch that goes wrong makes every later call fail, as on a device, until `reset`; `fault()` says what it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace standin {

/// What the stand-in stands for.
struct device {
    int multiprocessors = 0;
    int compute = 0;         ///< ten times the compute capability
    int shared_bytes = 0;    ///< of a multiprocessor
    int clusters_of_8 = 0;   ///< that there is room for at once, of blocks that take a multiprocessor each
    int clusters_of_16 = 0;  ///< 0: none can be placed
    int ptx = 90;            ///< what the kernels were compiled for, as `cudaFuncAttributes::ptxVersion`
    bool is_cooperative = true;

    [[nodiscard]] bool has_clusters() const { return compute >= 90; }
};

/// 108 multiprocessors, no clusters.
[[nodiscard]] device a100();
/// 132 multiprocessors, clusters of up to 16 blocks.
[[nodiscard]] device h200();
/// 148 multiprocessors, clusters of up to 16 blocks.
[[nodiscard]] device b200();
/// None at all: every call that needs one returns `cudaErrorNoDevice`.
[[nodiscard]] device none();

/// Which of the lanes that can go on does: in the order in which they came to the barrier, the other way round, the one
/// that came last (so that a warp runs far ahead of the others), or any.
enum class order { first_come, last_come, warp_by_warp, random };

/// Whether reads and writes of device memory beside an allocation end the program with the sanitizer's report.
extern bool const has_address_sanitizer;
/// Whether a block's shared memory is full of poison at first, too: where a sanitizer keeps no state of its own there.
extern bool const poisons_shared_memory;

/// Begins anew: no errors, nothing recorded, no attributes of kernels. Memory stays allocated.
void reset(device const& of, order lanes = order::first_come, std::uint64_t seed = 1);
/// The order of lanes from now on.
void set_order(order lanes, std::uint64_t seed = 1);
/// Blocks of a launch that is neither of clusters nor cooperative, and clusters, that are there at once.
void set_residents(int blocks);
/// What new device memory is full of.
void set_poison(unsigned char byte);
/// The next call of this name returns an error, and does nothing.
void fail(char const* call, cudaError_t error);

/// A launch that was accepted, recorded or captured.
struct launched {
    void const* kernel = nullptr;
    unsigned blocks = 0;
    unsigned threads = 0;
    unsigned cluster = 1;
    bool cooperative = false;
};
/// All since `reset`.
[[nodiscard]] std::vector<launched> const& launches();
/// Why a launch failed; empty when none has.
[[nodiscard]] std::string const& fault();
/// Bytes of device memory that are allocated.
[[nodiscard]] std::size_t allocated();

/// Records work that is no kernel.
cudaError_t enqueue(cudaStream_t stream, char const* call, std::function<void()> work);

/// A function of CUB: without a workspace it says how large it is to be; with one it is recorded. The workspace is
/// written to: it is nobody else's.
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
