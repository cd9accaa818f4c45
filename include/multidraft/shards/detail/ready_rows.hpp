// Rows of a batch that ranks process together before a verifier reads them, in as many exchanges as one row needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/detail/request_rows.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::shards::detail {

/// A processed row: its distribution, and the chunk sums of its weights.
template <class Rows>
using processed_of =
    decltype(std::declval<Rows const&>().with_sums(std::declval<shard_group const&>(), std::int64_t{}, std::int32_t{}));

/// Rows that have to be processed, such as logits (`with_sums`).
template <class Rows>
concept is_processed = requires(Rows const& rows, shard_group const& g) {
    rows.with_sums(g, std::int64_t{}, std::int32_t{});
};

/// Memory for the processed rows of all nodes of a batch.
template <class Rows>
[[nodiscard]] processed_of<Rows>* reserve_rows(std::vector<std::byte>& memory, std::int64_t nodes) {
    using processed = processed_of<Rows>;
    static_assert(std::is_trivially_copyable_v<processed> && alignof(processed) <= alignof(std::max_align_t));
    memory.resize(static_cast<std::size_t>(nodes) * sizeof(processed));
    return reinterpret_cast<processed*>(memory.data());
}

/// Calls `use` with the rows of request b: the processed ones in `memory`, or the batch's own.
template <class Rows, class Use>
void with_rows_of(Rows const& rows, [[maybe_unused]] std::vector<std::byte> const& memory, tree_batch const& trees,
                  std::int32_t b, Use const& use) {
    if constexpr (is_processed<Rows>) {
        using processed = processed_of<Rows>;
        auto const* const first = reinterpret_cast<processed const*>(memory.data()) + trees.offsets[b];
        use(prepared_rows<processed>({first, static_cast<std::size_t>(trees.size(b))}, rows.vocabulary));
    } else if constexpr (std::is_same_v<Rows, verify::no_draft_rows>) {
        use(rows);
    } else {
        use(multidraft::detail::request_rows<Rows>(rows, trees, b));
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail
