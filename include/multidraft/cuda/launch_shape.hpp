// The launch shape for a batch of rows: a block, a cluster or many blocks of a grid per request, and how many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The most blocks that process one request's rows in a grid-wide launch.
inline constexpr int max_grid_ranks = 128;

/// The most requests of a grid-wide launch; workspaces include memory for this many.
inline constexpr std::int32_t max_grid_requests = 8;

/// Options of a launch.
struct launch_options {
    /// The largest cluster size in blocks; 1 disables clusters. Every device with clusters supports 8. For more, a
    /// launch of few requests first asks the runtime on the host whether such clusters fit (Hopper: up to 16).
    int max_cluster = 16;
    /// The most blocks per request of a grid-wide launch; 1 disables it. It needs a workspace of the documented size.
    int max_grid = max_grid_ranks;
    /// The most rows of a node's children that are prefetched before one of them is accepted, in batches of up to 8
    /// requests; 0 disables prefetching.
    int max_prefetched_rows = 4;
};

namespace detail {

/// Threads of a block that processes rows: eight warps. Each thread may use up to 255 registers, so a warp keeps a
/// whole chunk of a row in registers.
inline constexpr int row_threads = 256;
inline constexpr int row_warps = row_threads / warp_size;

/// Warps per chunk where rows are few: a thread then reads a float row 16 bytes at a time, and a cluster of 8 reads the
/// 32 chunks of 128,256 entries at once.
inline constexpr int short_split = 2;

/// Warp schedulers of a multiprocessor: with fewer warps than this, some of them are idle.
inline constexpr int schedulers = 4;

struct shape {
    int ranks = 1;
    bool split = false;  ///< several warps sum a chunk
    bool grid = false;   ///< the ranks are blocks of a cooperative launch, not of a cluster
};

/// How many rows of a node's children verification prefetches.
///
/// The rows of one tree are read one after another, each only after a decision. The latency of a load is about 0.7 us,
/// a third of that from the L2 cache. Up to 8 rows (2 MB of bfloat16 at V = 128,256) are prefetched in less time than
/// one pass takes; larger batches need the memory bandwidth themselves.
[[nodiscard]] inline int prefetched_rows(std::int64_t batch, launch_options const& options) {
    if (batch < 1 || batch > 8 || options.max_prefetched_rows < 1) return 0;
    auto const each = static_cast<int>(8 / batch);
    return each < options.max_prefetched_rows ? each : options.max_prefetched_rows;
}

/// The shape for `batch` requests whose rows have `vocabulary` entries.
///
/// Clusters have a power of two of blocks: as many as the multiprocessors allow for each request, every block with at
/// least one chunk. So 256 requests get a block each, and one request at V = 128,256 (32 chunks) a cluster of 16, or of
/// 8 where 16 do not fit. One warp sums a chunk, or `short_split` warps if there are that many for all chunks at once.
///
/// A grid can have many more blocks than a cluster, but its blocks communicate through device memory: a barrier takes 1
/// to 2 microseconds instead of a few tenths. One multiprocessor reads less than 0.1 TB/s, a whole H200 4.8 TB/s. A row
/// of n bytes takes n / (0.8 TB/s) on a cluster of 8 and n / (4 TB/s) + 1.2 us on the grid, which is less from 1.2 MB
/// on (float: 300,000 entries; against a cluster of 16, three times that). Hence the rule: grid-wide if that gives at
/// least four times the blocks. Against a cluster of 8 this holds from 64 chunks = 262,144 entries on, without clusters
/// from 8 chunks on.
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
