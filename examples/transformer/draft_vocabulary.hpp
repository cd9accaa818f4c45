// The tokens that a drafter has, where they are fewer than the target's: `d2t` and `t2d` of EAGLE-3's files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/rows/widened_row.hpp"
#include "transformer/drafter_tensors.hpp"

namespace multidraft::examples {

/// Those of the target, or some of them.
class draft_vocabulary {
public:
    /// All of the target's.
    draft_vocabulary() = default;

    /// Reads `size` tokens of the target's `all`, those of `d2t` and, where it is there, of `t2d`; all where `size` is
    /// that and neither is there. Throws `std::runtime_error` that names the directory, the tensor, the index and the
    /// value for a token that there is not or is repeated, and where the two differ.
    draft_vocabulary(std::string const& directory, drafter_tensors& read, std::int32_t size, std::int32_t all)
        : all_(static_cast<std::size_t>(all)) {
        if (size == all && !read.has("d2t") && !read.has("t2d")) return;
        auto const offsets = read.integers("d2t", size);
        token_of_.resize(offsets.size());
        number_of_.resize(all_);
        try {
            tokens_of_offsets<std::int64_t>(offsets, token_of_);
            invert_vocabulary(token_of_, number_of_);
        } catch (invalid_input const& e) {
            throw std::runtime_error(directory + ": tensor d2t: " + e.what());
        }
        if (!read.has("t2d")) return;
        auto const has = read.integers("t2d", all);
        for (std::size_t token = 0; token < has.size(); ++token) {
            bool const by_offsets = number_of_[token] != none;
            if ((has[token] != 0) != by_offsets)
                throw std::runtime_error(directory + ": tensor t2d: [" + std::to_string(token) +
                                         "] = " + std::to_string(has[token]) + ": by d2t the head " +
                                         (by_offsets ? "has" : "does not have") + " this token");
        }
    }

    /// Throws, as the constructor does, unless each token is larger than the one before it.
    void expect_rising(std::string const& directory) const {
        auto const at = std::ranges::adjacent_find(token_of_, std::ranges::greater_equal{});
        if (at == token_of_.end()) return;
        throw std::runtime_error(directory + ": tensor d2t: token_of[" + std::to_string(at + 1 - token_of_.begin()) +
                                 "] = " + std::to_string(at[1]) + ": tokens rise, and the one before is " +
                                 std::to_string(at[0]));
    }

    /// Whether it has all tokens of the target.
    [[nodiscard]] bool is_whole() const noexcept { return token_of_.empty(); }
    /// The target's token for each of its own; empty where it has all.
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return token_of_; }
    /// The target's token for one of its own.
    [[nodiscard]] token_id token(std::int32_t number) const noexcept {
        return is_whole() ? number : token_of_[static_cast<std::size_t>(number)];
    }
    /// The number of a token of the target among its own, -1 where it does not have it.
    [[nodiscard]] std::int32_t number_of(token_id token) const noexcept {
        return is_whole() ? token : number_of_[static_cast<std::size_t>(token)];
    }

    /// Writes rows of its own tokens as rows of the target's, with minus infinity at those that it does not have. Not
    /// where it has all.
    void spread(float const* rows, std::int32_t count, float* to) const {
        std::fill_n(to, static_cast<std::size_t>(count) * all_, -std::numeric_limits<float>::infinity());
        for (std::int32_t r = 0; r < count; ++r, to += all_)
            for (token_id const token : token_of_) to[token] = *rows++;
    }

private:
    std::size_t all_ = 0;
    std::vector<token_id> token_of_;
    std::vector<index_t> number_of_;
};

}  // namespace multidraft::examples
