// Rows of a tree that are normalised once, however often a verifier reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "multidraft/batch/detail/request_rows.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// Bytes reserved for a row.
inline constexpr std::size_t kept_row_bytes = 160;

/// The rows of one request, each normalised when first read, with the result kept in the caller's memory. For groups of
/// one lane. The bits are the same as without keeping (see `remembered_rows`).
template <class Rows, class G>
class kept_rows {
    using row = std::decay_t<decltype(std::declval<Rows const&>()(std::declval<G const&>(), std::int64_t{}, 0))>;
    struct entry {
        row value{};
        bool is_known = false;
    };

public:
    /// Whether there is something to keep and it fits.
    static constexpr bool apply = !has_states<Rows> && requires(Rows const& rows, G const& g) {
        rows.with_sums(g, std::int64_t{}, 0);
    }
    &&std::is_trivially_copyable_v<row> && sizeof(entry) <= kept_row_bytes && alignof(entry) <= 16;

    /// `memory`: `kept_row_bytes` for each node of the tree, aligned to 16 bytes.
    kept_rows(request_rows<Rows> rows, span<std::byte> memory) noexcept
        : rows_(rows), entries_(reinterpret_cast<entry*>(memory.data())) {
        for (index_t v = 0; v < rows.rows(); ++v) ::new (static_cast<void*>(entries_ + v)) entry;
    }

    [[nodiscard]] index_t rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] index_t size() const noexcept { return rows_.size(); }
    [[nodiscard]] row operator()(G const& g, node_id node) const {
        entry& e = entries_[node];
        if (!e.is_known) e = {rows_(g, node), true};
        return e.value;
    }
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        using answer = decltype(rows_.with_sums(g, node));
        entry& e = entries_[node];
        // The chunk sums of a truncated row are made from its weights, those of others with the normaliser.
        if (e.is_known && !e.value.may_have_all_mass())
            return answer{e.value, g.sum_chunks(e.value.size(), weight_of{e.value})};
        answer made = rows_.with_sums(g, node);
        e = {made.row, true};
        return made;
    }

private:
    request_rows<Rows> rows_;
    entry* entries_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
