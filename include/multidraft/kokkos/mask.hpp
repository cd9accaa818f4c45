// Ancestor masks and positions of a batch of trees, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/kokkos/from_views.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/tree/mask.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// Writes the packed ancestor masks and the positions of a batch of trees: one thread per node. Enqueued on `space`.
///
/// - `words`: a row for each node of the batch, as many words as the widest tree needs (`words_per_row`); row
///   offsets[b] + v is row v of the mask of request b, which `mask_view{&words(offsets[b], 0), words.stride(0)}` reads.
///   `no_view{}`: no masks.
/// - `positions`: context_lengths(b) + depth, for each node. `no_view{}`: no positions.
/// - `context_lengths`: tokens before the root, for each request; `no_view{}` where there are no positions.
///
/// O(row words + depth + log R) per node. The nodes of a tree too wide for the rows get rows of zeros and the position
/// -1. Throws `invalid_input`, with nothing launched, for extents that do not fit. Tokens are not read.
template <class Space, template <class> class Group, class Words, class Contexts, class Positions>
void write_masks(space_policy<Space, Group> const& policy, tree_batch const& trees, Words const& words,
                 Contexts const& context_lengths, Positions const& positions) {
    std::int64_t row_words = 0;
    std::int64_t row_stride = 0;
    std::uint64_t* rows = nullptr;
    if constexpr (!std::is_same_v<Words, no_view>) {
        detail::require_access<Space, Words>();
        static_assert(Words::rank == 2 && std::is_same_v<typename Words::array_layout, Kokkos::LayoutRight>,
                      "multidraft: the words of a row are adjacent: a view of rank 2, LayoutRight");
        detail::check_extent(words, "words", trees.nodes, "there is one row per node");
        rows = words.data();
        row_words = static_cast<std::int64_t>(words.extent(1));
        row_stride = static_cast<std::int64_t>(words.stride(0));
    }
    auto* const out =
        detail::entries_of<std::int32_t, Space>(positions, "positions", trees.nodes, "there is one entry a node");
    auto const* const contexts = detail::entries_of<std::int32_t const, Space>(
        context_lengths, "context_lengths", trees.requests, "there is one length a request");
    if (out != nullptr && contexts == nullptr && trees.requests > 0)
        refuse("context_lengths", "none", "positions begin where the context ends");
    if (trees.requests == 0) return;
    Kokkos::parallel_for(
        "multidraft::write_masks",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(policy.space, 0, trees.nodes),
        KOKKOS_LAMBDA(std::int64_t i) {
            std::int32_t const b = trees.request_of(i);
            auto const node = static_cast<node_id>(i - trees.offsets[b]);
            span<node_id const> const parents = trees.parents_of(b);
            bool const fits = rows == nullptr || words_per_row(trees.size(b)) <= row_words;
            if (rows != nullptr) {
                std::uint64_t* const row = rows + i * row_stride;
                if (fits) write_mask_row(parents, node, row, row_words);
                for (std::int64_t w = 0; w < row_words && !fits; ++w) row[w] = 0;
            }
            if (out != nullptr) {
                std::int32_t const depth = tree_view{parents, {}}.depth(node);
                out[i] = fits ? contexts[b] + depth : -1;
            }
        });
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
