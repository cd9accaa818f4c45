// Ancestor masks and positions of a batch of trees, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/kokkos/batch.hpp"
#include "multidraft/tree/mask.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// Writes the packed ancestor masks and the positions of a batch of trees: one thread a node. Enqueued on `space`.
///
/// - `words`: a row a node of the batch, as long as the widest tree needs (`words_per_row`); row offsets(r) + v is
///   row v of the mask of request r, which `mask_view{&words(offsets(r), 0), words.stride(0)}` reads. No rows: no
///   masks.
/// - `positions`: context_lengths(r) + depth, one a node. No entries: no positions.
/// - `context_lengths`: tokens before the root, one a request.
///
/// O(row words + depth + log R) a node. The nodes of a tree too wide for the rows get rows of zeros and the position
/// -1. Throws `invalid_input`, with nothing launched, for extents that do not fit. Tokens are not read.
template <class Space, class Memory>
void write_masks(Space const& space, tree_batch<Memory> const& trees,
                 Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, Memory> const& words,
                 Kokkos::View<std::int32_t const*, Memory> const& context_lengths,
                 Kokkos::View<std::int32_t*, Memory> const& positions) {
    std::size_t const nodes = trees.parents.extent(0);
    std::size_t const requests = trees.requests();
    if (words.extent(0) > 0) detail::check_extent(words, "words", nodes, "there is one row a node");
    if (positions.extent(0) > 0) {
        detail::check_extent(positions, "positions", nodes, "there is one entry a node");
        detail::check_extent(context_lengths, "context_lengths", requests, "there is one length a request");
    }
    if (requests == 0) return;
    Kokkos::parallel_for(
        "multidraft::write_masks",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, static_cast<std::int64_t>(nodes)),
        KOKKOS_LAMBDA(std::int64_t i) {
            // The last request that begins at or before the node.
            int low = 0;
            int high = static_cast<int>(trees.offsets.extent(0)) - 1;
            while (high - low > 1) {
                int const middle = low + (high - low) / 2;
                if (trees.offsets(middle) <= i)
                    low = middle;
                else
                    high = middle;
            }
            auto const node = static_cast<node_id>(i - trees.first(low));
            span<node_id const> const parents = trees.parents_of(low);
            auto const row_words = static_cast<std::int64_t>(words.extent(1));
            bool const fits = words.extent(0) == 0 || words_per_row(trees.size(low)) <= row_words;
            if (words.extent(0) > 0) {
                std::uint64_t* const row = words.data() + i * static_cast<std::int64_t>(words.stride(0));
                if (fits) write_mask_row(parents, node, row, row_words);
                for (std::int64_t w = 0; w < row_words && !fits; ++w) row[w] = 0;
            }
            if (positions.extent(0) > 0) {
                std::int32_t const depth = tree_view{parents, {}}.depth(node);
                positions(static_cast<std::size_t>(i)) = fits ? context_lengths(low) + depth : -1;
            }
        });
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
