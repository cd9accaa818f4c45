// Which rank has which columns of a row, and which rank answers for which chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// Columns from `begin` to before `end`.
struct column_range {
    index_t begin = 0;
    index_t end = 0;

    [[nodiscard]] constexpr index_t size() const noexcept { return end - begin; }
    /// Whether a column is one of them.
    [[nodiscard]] constexpr bool holds(index_t i) const noexcept { return i >= begin && i < end; }
    friend constexpr bool operator==(column_range const&, column_range const&) = default;
};

/// The columns of rank r where a vocabulary is cut into parts of one size, as engines do: V / ranks, rounded up; the
/// last parts are shorter or empty.
[[nodiscard]] constexpr column_range even_columns(index_t vocabulary, int ranks, int r) noexcept {
    std::int64_t const part = (std::int64_t{vocabulary} + ranks - 1) / ranks;
    auto const border = [&](std::int64_t k) {
        return static_cast<index_t>(k * part < vocabulary ? k * part : vocabulary);
    };
    return {border(r), border(r + 1)};
}

/// The columns of all ranks, in the order of ranks, and the chunks that follow from them.
///
/// Borders lie anywhere. A chunk (`chunk_size` columns) belongs to the rank that has its first column, and what other
/// ranks have of it is sent to that one: so every chunk is summed by one rank, in the order of a row that nobody cut.
class column_map {
public:
    column_map() = default;
    /// `ranges[r]` are the columns of rank r: those of a rank begin where those of the rank before end. Throws
    /// `invalid_input` where that is not so. Allocates.
    explicit column_map(span<column_range const> ranges) {
        if (ranges.empty()) refuse("columns.size", 0, "there is one rank or more");
        for (std::size_t r = 0; r < ranges.size(); ++r) {
            index_t const before = r == 0 ? 0 : ranges[r - 1].end;
            if (ranges[r].begin != before)
                refuse("columns.begin", static_cast<std::int64_t>(r), ranges[r].begin,
                       "the columns of a rank begin where those of the rank before end, at " + std::to_string(before));
            if (ranges[r].end < ranges[r].begin)
                refuse("columns.end", static_cast<std::int64_t>(r), ranges[r].end, "a rank has 0 columns or more");
        }
        validate_row_size(ranges[ranges.size() - 1].end, "columns", ".end");
        ranges_.assign(ranges.begin(), ranges.end());
        for (column_range const& c : ranges_) {
            chunks_.push_back({chunks_of(c.begin), chunks_of(c.end)});
            if (chunks_.back().size() > 0) last_owner_ = static_cast<int>(chunks_.size()) - 1;
        }
    }

    [[nodiscard]] int ranks() const noexcept { return static_cast<int>(ranges_.size()); }
    /// Entries of a row.
    [[nodiscard]] index_t vocabulary() const noexcept { return ranges_.back().end; }
    /// The columns that a rank has.
    [[nodiscard]] column_range of(int r) const noexcept { return ranges_[static_cast<std::size_t>(r)]; }
    /// The rank that has a column. O(log ranks).
    [[nodiscard]] int holder(index_t column) const noexcept {
        return last_not_above(column, [this](int r) { return of(r).begin; });
    }
    /// The chunks that belong to a rank, of a row of n entries: `begin` and `end` are numbers of chunks. Rows longer
    /// than the vocabulary end at the last rank that has chunks.
    [[nodiscard]] column_range chunks(int r, index_t n) const noexcept {
        index_t const all = chunks_of(n);
        column_range c = chunks_[static_cast<std::size_t>(r)];
        if (r == last_owner_) c.end = all > c.end ? all : c.end;
        return {c.begin < all ? c.begin : all, c.end < all ? c.end : all};
    }
    /// The most chunks of a row of n entries that a rank has.
    [[nodiscard]] index_t most_chunks(index_t n) const noexcept {
        index_t most = 0;
        for (int r = 0; r < ranks(); ++r) most = chunks(r, n).size() > most ? chunks(r, n).size() : most;
        return most;
    }
    /// The rank that a chunk belongs to. O(log ranks).
    [[nodiscard]] int owner(index_t chunk) const noexcept {
        if (chunk >= chunks_[static_cast<std::size_t>(last_owner_)].begin) return last_owner_;
        return last_not_above(chunk, [this](int r) { return chunks_[static_cast<std::size_t>(r)].begin; });
    }
    /// The first columns of a rank, which lie in a chunk of a rank before it.
    [[nodiscard]] column_range given_away(int r) const noexcept {
        column_range const c = of(r);
        std::int64_t const own = std::int64_t{chunks_of(c.begin)} * chunk_size;
        return {c.begin, static_cast<index_t>(own < c.end ? own : c.end)};
    }
    /// The columns behind those of a rank that complete its last chunk.
    [[nodiscard]] column_range received(int r) const noexcept {
        column_range const c = of(r);
        column_range const own = chunks_[static_cast<std::size_t>(r)];
        std::int64_t const end = std::int64_t{own.end} * chunk_size;
        if (own.size() == 0 || end < c.end) return {c.end, c.end};
        return {c.end, static_cast<index_t>(end < vocabulary() ? end : vocabulary())};
    }

private:
    /// The last rank with columns or chunks whose first is not above x. Ranks without have the first of the next one.
    template <class First>
    [[nodiscard]] int last_not_above(index_t x, First const& first) const noexcept {
        int low = 0;
        int high = ranks() - 1;
        while (low < high) {
            int const middle = low + (high - low + 1) / 2;
            if (first(middle) <= x)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

    std::vector<column_range> ranges_;
    std::vector<column_range> chunks_;
    int last_owner_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
