// Which group walks a batch of rows: a block, a cluster of blocks, or many blocks of a grid, and how many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/cuda/lane_context.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Blocks that walk one request's rows together in the grid-wide form, at most.
inline constexpr int max_grid_ranks = 128;

/// Requests of a batch that may use the grid-wide form, at most: what memory is asked for.
inline constexpr std::int32_t max_grid_requests = 8;

/// What a caller may decide about a launch.
struct launch_options {
    /// Blocks of a cluster at most; 1 turns clusters off. Above 8, which is what every device with clusters can place,
    /// the runtime is asked whether this one can (Hopper, of 16): a call on the host for a launch of few requests.
    int max_cluster = 16;
    /// Blocks of the grid-wide form at most; 1 turns it off. It needs the workspace that the size functions name.
    int max_grid = max_grid_ranks;
    /// Rows of a node's children that are asked for before one of them is accepted, at most, where few requests leave
    /// the memory idle; 0 turns it off.
    int max_prefetched_rows = 4;
};

namespace detail {

/// Threads of a block that walks rows: eight warps with up to 255 registers a thread, so that a warp keeps a whole
/// chunk of a row in registers.
inline constexpr int row_threads = 256;
inline constexpr int row_warps = row_threads / warp_size;

/// Warps that sum a chunk together where rows are few: a float row is then read 16 bytes at a time, and a cluster of 8
/// reads the 32 chunks of 128,256 entries at once.
inline constexpr int short_split = 2;

/// What a multiprocessor has of the units that warps are given to: with fewer warps than that some of them idle.
inline constexpr int schedulers = 4;

struct shape {
    int ranks = 1;
    bool split = false;  ///< several warps a chunk
    bool grid = false;   ///< the ranks are blocks of a cooperative launch, not of a cluster
};

/// How many rows of a node's children verification asks for ahead.
///
/// Of one tree one row is read after the other, each only after a decision: 0.7 us from a load to its data on the
/// way down, which becomes a third where the row is in the second-level cache by then. Up to 8 rows at a time (2 MB of
/// bfloat16 at V = 128,256) are read in less than a pass takes; more requests need the memory for themselves.
[[nodiscard]] inline int prefetched_rows(std::int64_t batch, launch_options const& options) {
    if (batch < 1 || batch > 8 || options.max_prefetched_rows < 1) return 0;
    auto const each = static_cast<int>(8 / batch);
    return each < options.max_prefetched_rows ? each : options.max_prefetched_rows;
}

/// The shape for `batch` requests whose rows have `vocabulary` entries.
///
/// As many multiprocessors for a row as there are for each request, but no block without a chunk. So 256 requests get a
/// block each, and one request at V = 128,256 (32 chunks) a cluster of 16, or of 8 where there can be none of 16. A
/// chunk is the work of one warp; of `short_split` warps where that many are there for every chunk at once.
///
/// The blocks of a grid can be many more than those of a cluster, but meet in device memory: a barrier takes 1 to 2
/// microseconds instead of a few tenths. A multiprocessor reads less than 0.1 TB/s, a whole H200 4.8: a row of n bytes
/// takes n / (0.8 TB/s) on a cluster of 8 and n / (4 TB/s) + 1.2 us on the grid, which is less from 1.2 MB on (float:
/// 300,000 entries; for a cluster of 16 three times that). Hence the rule: the grid-wide form where it has at least
/// four times the blocks, which a cluster of 8 meets at 64 chunks = 262,144 entries, and a device without clusters at
/// 8 chunks.
[[nodiscard]] inline shape choose_shape(std::int64_t batch, index_t vocabulary, int multiprocessors, int max_cluster,
                                        int max_grid) {
    shape s;
    std::int64_t const chunks = chunks_of(vocabulary);
    while (s.ranks * 2 <= max_cluster && s.ranks * 2 * batch <= multiprocessors && s.ranks * 2 <= chunks) s.ranks *= 2;
    if (batch >= 1 && batch <= max_grid_requests) {
        std::int64_t blocks = chunks * short_split / schedulers;
        blocks = blocks < multiprocessors / batch ? blocks : multiprocessors / batch;
        blocks = blocks < max_grid ? blocks : max_grid;
        if (blocks >= std::int64_t{4} * s.ranks) {
            s.ranks = static_cast<int>(blocks);
            s.grid = true;
        }
    }
    s.split = s.grid || s.ranks * row_warps >= chunks * short_split;
    return s;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
