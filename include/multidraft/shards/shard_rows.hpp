// Rows of which each rank has some columns: a view of one row, and the rows of a batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/exchange.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// A read-only view of one row of V entries of which this rank has some columns; T and Layout as in `row_view`.
///
/// In an operation of `shard_group` the columns of the rank's chunks are read in place, and those that complete its
/// last chunk from `tail`. Elsewhere an entry that the ranks do not know yet is exchanged: `row(x)` is then collective,
/// like the operations.
template <class T, class Layout = contiguous>
class shard_view {
public:
    using real = real_of<T>;

    shard_view() = default;
    /// `data`: the rank's first column. `tail`: the columns after its last one up to the end of the chunk
    /// (`column_map::columns_to_receive`). `row`: a number that identifies the row, the same on all ranks.
    shard_view(exchange& ranks, T const* data, T const* tail, std::uint32_t row, Layout layout = {}) noexcept
        : ranks_(&ranks),
          data_(data),
          tail_(tail),
          layout_(layout),
          row_(row),
          begin_(ranks.columns().of(ranks.rank()).begin),
          end_(ranks.columns().of(ranks.rank()).end),
          size_(ranks.columns().vocabulary()) {}

    [[nodiscard]] index_t size() const noexcept { return size_; }
    // Not noexcept: a call of the communicator may fail.
    [[nodiscard]] MULTIDRAFT_INLINE real operator()(index_t i) const {
        return ranks_->reads_own_columns() ? own(i) : known(i);
    }

    /// See `has_runs`.
    [[nodiscard]] shard_view in_chunk(index_t, index_t) const noexcept { return *this; }
    /// See `has_runs`.
    [[nodiscard]] static bool is_empty_run(index_t) noexcept { return false; }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE void on_run(index_t begin, index_t end, Body const& body) const {
        if (end <= end_) {
            body(part(data_, begin_, size_, layout_));
            return;
        }
        real values[static_cast<std::size_t>(run_length)];
        for (index_t i = begin; i < end; ++i) values[i - begin] = own(i);
        body(run_values<real>(values, begin, size_));
    }

    /// The key of an entry, the same on all ranks (`exchange::value`).
    [[nodiscard]] std::uint64_t key(index_t i) const noexcept {
        return std::uint64_t{row_} << 32 | static_cast<std::uint32_t>(i);
    }
    /// The bits of one of the rank's columns.
    [[nodiscard]] std::uint64_t bits(index_t i) const noexcept {
        T const entry = i < end_ ? data_[layout_(i - begin_)] : tail_[i - end_];
        std::uint64_t result = 0;
        std::memcpy(&result, &entry, sizeof entry);
        return result;
    }

private:
    /// Entries of the row from a column on.
    class part {
    public:
        using real = real_of<T>;
        part() = default;
        part(T const* data, index_t begin, index_t size, Layout layout) noexcept
            : data_(data), layout_(layout), begin_(begin), size_(size) {}
        [[nodiscard]] index_t size() const noexcept { return size_; }
        [[nodiscard]] MULTIDRAFT_INLINE real operator()(index_t i) const noexcept {
            return to_real(data_[layout_(i - begin_)]);
        }

    private:
        T const* data_ = nullptr;
        [[no_unique_address]] Layout layout_{};
        index_t begin_ = 0;
        index_t size_ = 0;
    };

    [[nodiscard]] MULTIDRAFT_INLINE real own(index_t i) const noexcept {
        return to_real(i < end_ ? data_[layout_(i - begin_)] : tail_[i - end_]);
    }
    [[nodiscard]] real known(index_t i) const {
        std::uint64_t const found = ranks_->value(key(i), i, [&] { return bits(i); });
        T entry{};
        std::memcpy(static_cast<void*>(&entry), &found, sizeof entry);
        return to_real(entry);
    }

    exchange* ranks_ = nullptr;
    T const* data_ = nullptr;
    T const* tail_ = nullptr;
    [[no_unique_address]] Layout layout_{};
    std::uint32_t row_ = 0;
    index_t begin_ = 0;
    index_t end_ = 0;
    index_t size_ = 0;
};

/// Rows of logits of a batch, of which each rank has some columns: `logit_batch` in shards. T: float, double, `float16`
/// or `bfloat16`.
///
/// On each rank, row r begins at `data + r * own_stride()` entries with the rank's first column; a rank without columns
/// needs no data. A `row_stride` of 0 is the number of this rank's columns. `vocabulary` is that of the whole row.
/// `row_of` may differ between ranks. Sampling parameters are equal on all ranks.
///
/// The last three fields are set by the calls that take such rows (see `rank_team::complete`).
template <class T, class Layout = contiguous>
struct shard_batch : logits_of_batch<shard_batch<T, Layout>, T, Layout> {
    using logits_of_batch<shard_batch, T, Layout>::logits_of_batch;

    exchange* ranks = nullptr;    ///< the ranks that have the columns
    T const* tails = nullptr;     ///< the columns that complete this rank's last chunk, for all nodes
    std::uint32_t first_row = 0;  ///< the number of node 0's row in the keys of entries

    /// No rank has whole rows.
    std::int64_t stride() const = delete;
    /// Entries from one row of this rank to the next.
    [[nodiscard]] std::int64_t own_stride() const noexcept {
        return multidraft::detail::stride_of_rows(this->row_stride, ranks->columns().of(ranks->rank()).size());
    }
    /// The logits of node i.
    [[nodiscard]] shard_view<T, Layout> view(std::int64_t i) const noexcept {
        auto const tail = static_cast<std::int64_t>(ranks->columns().columns_to_receive(ranks->rank()).size());
        T const* const own = this->data == nullptr ? nullptr : this->data + this->row(i) * own_stride();
        return {*ranks, own, tails == nullptr ? nullptr : tails + i * tail, first_row + static_cast<std::uint32_t>(i),
                this->layout};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
