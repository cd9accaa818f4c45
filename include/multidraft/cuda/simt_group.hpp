// The row operations of a group of CUDA threads, written once over the few things that such threads do together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/config.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_largest.hpp"
#include "multidraft/cuda/simt_threads.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The group that `Lanes` make: the operations of `group` with the bits of `host_group`.
///
/// A chunk is summed by a *team* of `Split` warps (1, 2, 4 or 8), of which a thread has 8 / Split adjacent lanes, and
/// reads `Wide` adjacent entries at a time (8 / Split where that is more): `Wide` is 16 bytes over the size of an entry
/// where the row's layout is known to be aligned (`aligned`), for 16-byte loads. A warp whose threads read more entries
/// than they have lanes reads several of the chunk's 16 rows at once, and its threads exchange the values. One warp a
/// chunk needs no barrier within a pass and suits large batches; more warps shorten the pass over a single row. Either
/// way the pairing of the sums is the fixed one.
///
/// Every operation over a row has one barrier of all ranks (`top_k` and `histogram` two); `inverse_cdf` and
/// `update_chunk` have none, each rank does them alike. `out` of `top_k` and `bins` of `histogram` are memory that all
/// threads see. The object is a few registers.
///
/// The operations stand by their kinds in its bases: `simt_sums`, `simt_search`, `simt_counts`, `simt_largest`.
template <lane_context Lanes, int Split = 1, class Widest = float, int Wide = 1>
class simt_group : public simt_largest<Lanes, Split, Widest, Wide> {
    using base = simt_largest<Lanes, Split, Widest, Wide>;

public:
    using base::base;
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
