// Values added to the logits of a few tokens: logit bias, and penalties as an engine computes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// `values[k]` is added to the logit of token `tokens[k]`; tokens rise. A view of the caller's arrays.
///
/// Added in the type that the row is computed in, float or double, before anything else: x_i + b_i. Minus infinity
/// forbids a token. Penalties are such a bias, computed by the engine from the text. With c_i the number of times that
/// token i occurs in it:
///
/// - frequency and presence penalty: b_i = -c_i * frequency - (c_i > 0) * presence;
/// - repetition penalty r: for tokens of the text b_i = x_i / r - x_i where x_i > 0, else b_i = x_i * r - x_i ([CTRL]
///   Section 4.1 divides all; engines multiply logits that are not positive).
///
/// In a draft tree the text of a node is that of the request and of its path, so nodes have different penalties. Target
/// and draft need not have the same bias: the target's determines the law of the text.
struct logit_bias {
    span<token_id const> tokens{};
    span<float const> values{};

    /// Whether no logit is changed.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return tokens.empty(); }
    [[nodiscard]] MULTIDRAFT_HD std::size_t size() const noexcept { return tokens.size(); }
    /// The number of tokens below i.
    [[nodiscard]] MULTIDRAFT_HD std::size_t before(index_t i) const noexcept {
        std::size_t low = 0;
        for (std::size_t left = tokens.size(); left > 0;) {
            std::size_t const half = left / 2;
            if (tokens[low + half] < i) {
                low += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        return low;
    }
    /// The part that concerns the tokens from `begin` to `end`.
    [[nodiscard]] MULTIDRAFT_HD logit_bias part(index_t begin, index_t end) const noexcept {
        std::size_t const first = before(begin);
        std::size_t const last = before(end);
        return {tokens.subspan(first, last - first), values.subspan(first, last - first)};
    }
};

/// The biases of several rows: row r has the entries `offsets[r]` to `offsets[r + 1]` of the other arrays. No offsets:
/// one bias for all rows.
struct logit_biases {
    span<token_id const> tokens{};
    span<float const> values{};
    span<std::int64_t const> offsets{};

    /// Whether no logit of any row is changed.
    [[nodiscard]] MULTIDRAFT_HD bool empty() const noexcept { return tokens.empty(); }
    /// The bias of one row; the same for all rows where there are no offsets.
    [[nodiscard]] MULTIDRAFT_HD logit_bias operator()(std::int64_t row) const noexcept {
        if (offsets.empty()) return {tokens, values};
        auto const first = static_cast<std::size_t>(offsets[row]);
        auto const last = static_cast<std::size_t>(offsets[row + 1]);
        return {tokens.subspan(first, last - first), values.subspan(first, last - first)};
    }
};

/// Throws `invalid_input` naming the array, the index and the value unless the biases are those of `rows` rows of V
/// tokens: as many values as tokens, nondecreasing offsets, tokens of the vocabulary that increase within a row. Values
/// are not checked: NaN or plus infinity is reported when the row is read. O(tokens).
inline void validate(logit_biases const& bias, std::int64_t rows, index_t vocabulary) {
    if (bias.values.size() != bias.tokens.size())
        refuse("bias.values.size", bias.values.size(),
               "there is one value a token: " + std::to_string(bias.tokens.size()));
    auto const all = static_cast<std::int64_t>(bias.tokens.size());
    if (!bias.offsets.empty()) {
        if (bias.offsets.size() != static_cast<std::size_t>(rows) + 1)
            refuse("bias.offsets.size", bias.offsets.size(),
                   "there is one offset a row and one more: " + std::to_string(rows + 1));
        for (std::size_t r = 0; r < bias.offsets.size(); ++r)
            if (bias.offsets[r] < (r == 0 ? 0 : bias.offsets[r - 1]) || bias.offsets[r] > all)
                refuse("bias.offsets", static_cast<std::int64_t>(r), bias.offsets[r],
                       "offsets do not fall, and lie within the tokens");
    }
    for (std::int64_t r = 0; r < (bias.offsets.empty() ? 1 : rows); ++r) {
        logit_bias const of_row = bias(r);
        for (std::size_t k = 0; k < of_row.size(); ++k) {
            token_id const x = of_row.tokens[k];
            if (x < 0 || x >= vocabulary || (k > 0 && x <= of_row.tokens[k - 1]))
                refuse("bias.tokens", of_row.tokens.data() - bias.tokens.data() + static_cast<std::ptrdiff_t>(k), x,
                       "the tokens of a row's bias are of the vocabulary and rise");
        }
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
