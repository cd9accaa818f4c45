// What the threads of a group can do together on a device: the few things that its row operations are written over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/core/abi.hpp"

// Loops over a thread's registers are unrolled. A pass over a row is a function of its own: inlined wherever it is
// called, a verifier takes nvcc half a minute and more registers than there are.
#if defined(__CUDA_ARCH__)
#define MULTIDRAFT_UNROLL _Pragma("unroll")
#define MULTIDRAFT_PRAGMA(text) _Pragma(#text)
#define MULTIDRAFT_UNROLL_BY(times) MULTIDRAFT_PRAGMA(unroll times)
#define MULTIDRAFT_OUTLINE __noinline__
#else
#define MULTIDRAFT_UNROLL
#define MULTIDRAFT_UNROLL_BY(times)
#define MULTIDRAFT_OUTLINE
#endif

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Threads of a warp.
inline constexpr int warp_size = 32;

/// Blocks of a cluster at most: 8 on every device that has clusters, 16 where the kernel asks for it.
inline constexpr int max_ranks = 16;

/// Whether the ranks of a lane context meet in memory that all of them see (`grid_lanes`), instead of writing to each
/// other's shared memory.
template <class L>
inline constexpr bool meets_in_memory = requires {
    L::max_grid_ranks;
};

/// What the threads of a group can do together: a warp, a block, the blocks of a cluster, or many blocks of a grid (its
/// *ranks*). The device's are in `block_lanes.cuh`, `cluster_group.cuh` and `grid_group.cuh`; the tests have two that
/// run on a CPU.
///
/// - `L::threads`: threads of one rank, a multiple of 32. `thread()`, `rank()`, `ranks()`: where this one stands.
/// - `sync()`, `sync_all()`: a barrier of the rank, of all ranks; what was written to shared memory before is seen
/// after.
/// - `shuffle_xor(x, mask)`, `shuffle(x, lane)`, `ballot(b)`: within a warp, called by all of its threads.
/// - `add(p, x)`: adds to a counter in shared memory and returns what it held.
/// - `at_rank(p, r)`: the same place in the shared memory of rank r. Or, where ranks meet in memory: `max_grid_ranks`;
///   `mirror(p)`, the place that stands for p, one for all ranks; `accumulators(turn)`, one of two arrays of counters
///   for all ranks that are 0 at first, and `add_to(p, x)`, which adds to such a counter.
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
}
&&(
    requires(L const& lanes, std::uint32_t* p, int k) {
        { lanes.at_rank(p, k) } -> std::same_as<std::uint32_t*>;
    } ||
    requires(L const& lanes, std::uint32_t* p, std::uint64_t* q) {
        { lanes.mirror(p) } -> std::same_as<std::uint32_t*>;
        { lanes.accumulators(0U) } -> std::same_as<std::uint64_t*>;
        lanes.add_to(q, std::uint64_t{1});
    });

}  // namespace MULTIDRAFT_NAMESPACE::cuda
