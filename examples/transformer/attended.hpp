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
    explicit attended_entries(std::int32_t most_rows) : begin_(static_cast<std::size_t>(most_rows) + 1) {
        runs_.reserve(static_cast<std::size_t>(most_rows) * 16);
    }

    /// Lists the runs of `rows` tokens of the batch, from token `first` on. Their own entries are the last ones of the
    /// cache, which has `length` entries.
    void list(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t length) {
        runs_.clear();
        for (std::int32_t r = 0; r < rows; ++r) {
            begin_[static_cast<std::size_t>(r)] = runs_.size();
            std::int32_t const own = length - rows + r;
            if (batch.mask.causal())
                runs_.push_back({0, own + 1});
            else
                list_masked(batch, first + r, own);
        }
        begin_[static_cast<std::size_t>(rows)] = runs_.size();
    }

    /// The runs of one row of the block.
    [[nodiscard]] std::span<kernels::run const> of(std::size_t row) const noexcept {
        return std::span(runs_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
    }

private:
    void list_masked(token_batch const& batch, std::int32_t token, std::int32_t own) {
        std::size_t const begin = runs_.size();
        if (batch.context > 0) runs_.push_back({0, batch.context});
        std::uint64_t const* const row = batch.mask.words + std::int64_t{token} * batch.mask.row_words;
        for (std::int32_t word = 0; word <= (own - batch.context) / 64; ++word) {
            for (std::uint64_t left = row[word]; left != 0;) {
                int const bit = std::countr_zero(left);
                int const count = std::countr_one(left >> bit);
                std::int32_t const entry = batch.context + 64 * word + bit;
                if (runs_.size() > begin && runs_.back().first + runs_.back().count == entry) {
                    runs_.back().count += count;
                } else {
                    runs_.push_back({entry, count});
                }
                left = bit + count == 64 ? 0 : left & (~std::uint64_t{0} << (bit + count));
            }
        }
    }

    std::vector<kernels::run> runs_;  ///< row after row
    std::vector<std::size_t> begin_;  ///< where each row's runs begin, and the end
};

}  // namespace multidraft::examples
