// The cache entries that the tokens of a call attend to, as runs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {

/// The runs of each row of a block. Memory is reused from block to block.
class attended_entries {
public:
    /// For blocks of at most `most_rows` rows.
    explicit attended_entries(std::int32_t most_rows) {
        begin_.reserve(static_cast<std::size_t>(most_rows) + 1);
        runs_.reserve(static_cast<std::size_t>(most_rows) * 16);
    }

    /// Begins a block of another kind: `add` the entries of each row, then `end_row`.
    void begin() {
        runs_.clear();
        begin_.assign(1, 0);
    }
    /// The row attends to `count` more entries from `first` on, which follow those added before.
    void add(std::int32_t first, std::int32_t count) {
        if (count == 0) return;
        if (runs_.size() > begin_.back() && runs_.back().first + runs_.back().count == first)
            runs_.back().count += count;
        else
            runs_.push_back({first, count});
    }
    /// Ends a row.
    void end_row() { begin_.push_back(runs_.size()); }

    /// Lists the runs of `rows` tokens of the batch, from token `first` on. Their own entries are the last ones of the
    /// cache, which has `length` entries.
    void list(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t length) {
        begin();
        for (std::int32_t r = 0; r < rows; ++r) {
            std::int32_t const own = length - rows + r;
            if (batch.mask.causal())
                add(0, own + 1);
            else
                list_masked(batch, first + r, own);
            end_row();
        }
    }

    /// The runs of one row of the block.
    [[nodiscard]] std::span<kernels::run const> of(std::size_t row) const noexcept {
        return std::span(runs_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
    }

private:
    void list_masked(token_batch const& batch, std::int32_t token, std::int32_t own) {
        add(0, batch.context);
        std::uint64_t const* const row = batch.mask.words + std::int64_t{token} * batch.mask.row_words;
        for (std::int32_t word = 0; word <= (own - batch.context) / 64; ++word) {
            for (std::uint64_t left = row[word]; left != 0;) {
                int const bit = std::countr_zero(left);
                int const count = std::countr_one(left >> bit);
                add(batch.context + 64 * word + bit, count);
                left = bit + count == 64 ? 0 : left & (~std::uint64_t{0} << (bit + count));
            }
        }
    }

    std::vector<kernels::run> runs_;  ///< row after row
    std::vector<std::size_t> begin_;  ///< where each row's runs begin, and the end
};

}  // namespace multidraft::examples
