// The distribution of a row's columns over ranks, and the rank that processes each chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// The columns [begin, end) of a row.
struct column_range {
    index_t begin = 0;
    index_t end = 0;

    [[nodiscard]] constexpr index_t size() const noexcept { return end - begin; }
    /// Whether column i is in the range.
    [[nodiscard]] constexpr bool contains(index_t i) const noexcept { return i >= begin && i < end; }
    friend constexpr bool operator==(column_range const&, column_range const&) = default;
};

/// The columns of rank r if a vocabulary of V entries is divided evenly, as engines do: ceil(V / ranks) columns per
/// rank; the last ranks have fewer or none.
[[nodiscard]] constexpr column_range even_columns(index_t vocabulary, int ranks, int r) noexcept {
    std::int64_t const part = (std::int64_t{vocabulary} + ranks - 1) / ranks;
    auto const border = [&](std::int64_t k) {
        return static_cast<index_t>(k * part < vocabulary ? k * part : vocabulary);
    };
    return {border(r), border(r + 1)};
}

/// The columns of all ranks, in the order of ranks, and the chunks that each rank processes.
///
/// Ranges may end anywhere. A chunk (`chunk_size` columns) belongs to the rank that has its first column; other ranks
/// send their columns of it to that rank. So each chunk is summed by one rank, in the order of an undivided row.
class column_map {
public:
    column_map() = default;
    /// `ranges[r]`: the columns of rank r. The first range begins at 0, and each other one where the one before ends.
    /// Throws `invalid_input` otherwise, and for no ranks or no columns. Allocates. O(ranks).
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
    /// The number of entries of a row.
    [[nodiscard]] index_t vocabulary() const noexcept { return ranges_.back().end; }
    /// The columns of rank r.
    [[nodiscard]] column_range of(int r) const noexcept { return ranges_[static_cast<std::size_t>(r)]; }
    /// The rank that has a column. O(log ranks).
    [[nodiscard]] int rank_of_column(index_t column) const noexcept {
        return last_not_above(column, [this](int r) { return of(r).begin; });
    }
    /// The chunks of rank r in a row of n entries: `begin` and `end` are numbers of chunks. If n exceeds the
    /// vocabulary, the additional chunks belong to the last rank that has chunks.
    [[nodiscard]] column_range chunks(int r, index_t n) const noexcept {
        index_t const all = chunks_of(n);
        column_range c = chunks_[static_cast<std::size_t>(r)];
        if (r == last_owner_) c.end = all > c.end ? all : c.end;
        return {c.begin < all ? c.begin : all, c.end < all ? c.end : all};
    }
    /// The largest number of chunks that a rank has of a row of n entries. O(ranks).
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
    /// The first columns of rank r that lie in a chunk of an earlier rank, to which they are sent.
    [[nodiscard]] column_range columns_to_send(int r) const noexcept {
        column_range const c = of(r);
        std::int64_t const own = std::int64_t{chunks_of(c.begin)} * chunk_size;
        return {c.begin, static_cast<index_t>(own < c.end ? own : c.end)};
    }
    /// The columns of later ranks that complete the last chunk of rank r, which receives them.
    [[nodiscard]] column_range columns_to_receive(int r) const noexcept {
        column_range const c = of(r);
        column_range const own = chunks_[static_cast<std::size_t>(r)];
        std::int64_t const end = std::int64_t{own.end} * chunk_size;
        if (own.size() == 0 || end < c.end) return {c.end, c.end};
        return {c.end, static_cast<index_t>(end < vocabulary() ? end : vocabulary())};
    }

private:
    /// The last rank r with first(r) <= x. A rank without columns or chunks has the same `first` as the next rank.
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
