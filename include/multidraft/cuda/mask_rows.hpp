// The work of one thread on the masks of a batch of trees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Dense masks of a batch, one row per node. Columns: `contexts[b]` that every node of request b attends to, then one
/// for each node of the tree, then hidden ones up to `columns`.
template <class T>
struct dense_rows {
    T* data = nullptr;
    std::int64_t columns = 0;
    std::int64_t row_stride = 0;             ///< elements from one row to the next, at least `columns`
    std::int64_t const* contexts = nullptr;  ///< one per request; may be null: 0
};

namespace detail {

using packed_word = multidraft::detail::write_packed_word<std::uint64_t>;

struct position_of_node {
    tree_batch trees;
    std::int32_t const* positions;
    std::int32_t* out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int32_t const b = trees.request_of(k);
        out[k] = positions[b] + trees(b).depth(static_cast<node_id>(k - trees.offsets[b]));
    }
};

/// 16 bytes of a row of the dense masks, or fewer at its end.
template <class T>
struct dense_run {
    static constexpr int width = static_cast<int>(16 / sizeof(T));
    struct alignas(16) pack {
        T entry[16 / sizeof(T)];
    };

    tree_batch trees;
    std::uint64_t const* words;
    std::int64_t row_words;
    dense_rows<T> out;
    std::int64_t runs;  ///< per row
    T attends;
    T hidden;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const row = k / runs;
        std::int64_t const begin = k % runs * width;
        std::int32_t const b = trees.request_of(row);
        std::int64_t const context = out.contexts == nullptr ? 0 : out.contexts[b];
        std::int64_t const nodes = trees.offsets[b + 1] - trees.offsets[b];
        pack values;
        for (int j = 0; j < width; ++j) {
            std::int64_t const column = begin + j - context;
            bool const seen =
                column < 0 ||
                (column < nodes && ((words[row * row_words + column / 64] >> (column % 64)) & std::uint64_t{1}) != 0);
            values.entry[j] = seen ? attends : hidden;
        }
        T* const at = out.data + row * out.row_stride + begin;
        if (begin + width <= out.columns && reinterpret_cast<std::uintptr_t>(at) % sizeof(pack) == 0) {
            *reinterpret_cast<pack*>(at) = values;
            return;
        }
        for (int j = 0; j < width && begin + j < out.columns; ++j) at[j] = values.entry[j];
    }
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
