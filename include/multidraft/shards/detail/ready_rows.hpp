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

/// The processed rows of one request.
template <class Processed>
class ready_rows {
public:
    ready_rows(Processed const* first, index_t rows, index_t vocabulary) noexcept
        : first_(first), rows_(rows), size_(vocabulary) {}

    [[nodiscard]] index_t rows() const noexcept { return rows_; }
    [[nodiscard]] index_t size() const noexcept { return size_; }
    [[nodiscard]] auto operator()(shard_group const&, node_id node) const noexcept { return first_[node].row; }
    [[nodiscard]] Processed const& with_sums(shard_group const&, node_id node) const noexcept { return first_[node]; }

private:
    Processed const* first_;
    index_t rows_;
    index_t size_;
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
    if constexpr (is_processed<Rows>)
        use(ready_rows<processed_of<Rows>>(
            reinterpret_cast<processed_of<Rows> const*>(memory.data()) + trees.offsets[b], trees.size(b),
            rows.vocabulary));
    else if constexpr (std::is_same_v<Rows, verify::no_draft_rows>)
        use(rows);
    else
        use(multidraft::detail::request_rows<Rows>(rows, trees, b));
}

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail
