// The primitives of a group's threads on a device, from which its row operations are built.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/base/config.hpp"

// Loops over a thread's registers are unrolled.
#if defined(__CUDA_ARCH__)
#define MULTIDRAFT_UNROLL _Pragma("unroll")
#define MULTIDRAFT_PRAGMA(text) _Pragma(#text)
#define MULTIDRAFT_UNROLL_BY(times) MULTIDRAFT_PRAGMA(unroll times)
#else
#define MULTIDRAFT_UNROLL
#define MULTIDRAFT_UNROLL_BY(times)
#endif

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Threads of a warp.
inline constexpr int warp_size = 32;

/// The largest cluster size in blocks: 8 on every device that has clusters, 16 if a kernel opts in.
inline constexpr int max_ranks = 16;

/// Where the ranks of a lane context exchange data: in each other's shared memory, in global memory, or in either, as a
/// launch decides.
enum class rank_exchange { shared_memory, global_memory, either };

/// What the threads of a group can do together: those of a warp, a block, a cluster or many blocks of a grid. Its
/// blocks are the *ranks*. Models: block_group.cuh and device_group.cuh for devices, and two in the tests that run
/// on a CPU.
///
/// - `L::threads`: threads of one rank, a multiple of 32. `thread()`, `rank()`: the caller's. `ranks()`: how many.
/// - `sync()`, `sync_all()`: a barrier of the rank, of all ranks. Shared memory written before it is visible to the
///   threads after it.
/// - `shuffle_xor(x, mask)`, `shuffle(x, lane)`, `ballot(b)`: within a warp, called by all of its threads.
/// - `add(p, x)`: adds atomically to a counter in shared memory and returns the old value.
/// - `L::exchange`: where ranks exchange data, a `rank_exchange`.
/// - `at_rank(p, r)`, unless through global memory: the same location in the shared memory of rank r.
/// - Unless in shared memory: `max_grid_ranks`; `mirror(p)`, the location of p in a copy that all ranks share;
///   `accumulators(turn)`, one of two arrays of counters that all ranks share, 0 at first; `add_to(p, x)`, which adds
///   atomically to such a counter.
/// - `in_memory()`, for either: whether this launch exchanges in global memory.
template <class L>
concept lane_context = requires(L const& lanes, float x, int k, std::uint32_t* p) {
    { L::threads } -> std::convertible_to<int>;
    { lanes.thread() } -> std::convertible_to<int>;
    { lanes.rank() } -> std::convertible_to<int>;
    { lanes.ranks() } -> std::convertible_to<int>;
    lanes.sync();
    lanes.sync_all();
    { lanes.shuffle_xor(x, k) } -> std::same_as<float>;
    { lanes.shuffle(x, k) } -> std::same_as<float>;
    { lanes.ballot(true) } -> std::same_as<std::uint32_t>;
    { lanes.add(p, std::uint32_t{1}) } -> std::same_as<std::uint32_t>;
    requires std::same_as<decltype(L::exchange), rank_exchange const>;
}
&&(L::exchange == rank_exchange::global_memory ||
   requires(L const& lanes, std::uint32_t* p, int k) {
       { lanes.at_rank(p, k) } -> std::same_as<std::uint32_t*>;
   }) &&
    (L::exchange == rank_exchange::shared_memory ||
     requires(L const& lanes, std::uint32_t* p, std::uint64_t* q) {
         { L::max_grid_ranks } -> std::convertible_to<int>;
         { lanes.mirror(p) } -> std::same_as<std::uint32_t*>;
         { lanes.accumulators(0U) } -> std::same_as<std::uint64_t*>;
         lanes.add_to(q, std::uint64_t{1});
     }) &&
    (L::exchange != rank_exchange::either || requires(L const& lanes) {
        { lanes.in_memory() } -> std::same_as<bool>;
    });

}  // namespace MULTIDRAFT_NAMESPACE::cuda
