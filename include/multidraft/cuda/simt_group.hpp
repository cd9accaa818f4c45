// The row operations of a group of CUDA threads, written once over a `lane_context`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_largest.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/group_defaults.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The group of the threads of `Lanes`: the operations of `group`, bit for bit those of `host_group`.
///
/// A *team* of `Split` warps (1, 2, 4 or 8) sums a chunk. Each of its threads has 8 / Split adjacent lanes and reads
/// `Wide` adjacent entries at a time (at least 8 / Split). For 16-byte loads `Wide` is 16 over the size of an entry;
/// the row's layout must then declare the alignment (`aligned`). If a thread reads more entries than it has lanes, its
/// warp reads several of the chunk's 16 rows at once, and its threads exchange the values. With one warp per chunk a
/// pass has no barrier inside, which suits large batches; more warps make the pass over a single row shorter. The order
/// of the sums is the same.
///
/// In rows of up to `slots` chunks an operation has one barrier of all ranks (`top_k` and `histogram` two), and
/// `inverse_cdf` and `update_chunk` none: each rank repeats them. Longer rows have one per `slots` chunks wherever they
/// are summed. `out` of `top_k` and `bins` of `histogram` are in memory of all threads. The object is a few registers.
///
/// The operations are in its base classes: `simt_sums`, `simt_search`, `simt_counts`, `simt_largest`.
template <lane_context Lanes, int Split = 1, class Widest = float, int Wide = 1>
class simt_group : public simt_largest<Lanes, Split, Widest, Wide>,
                   public group_defaults<simt_group<Lanes, Split, Widest, Wide>> {
    using base = simt_largest<Lanes, Split, Widest, Wide>;
    using defaults = group_defaults<simt_group>;

public:
    using base::base;
    using base::counters;
    using base::histogram_bin_reaching;
    using base::histogram_total;
    using base::nth;
    using base::sums_from;
    using base::sums_of_one;
    using base::throws;
    using defaults::count_part;
    using defaults::digit_bits;
    using defaults::fast_top_k;
    using defaults::sum_chunks_of;
    using defaults::top_k_of_logits;
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
