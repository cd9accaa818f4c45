// Rows of a draft model whose vocabulary is a subset of the target's, read in the target's vocabulary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// For each token of the target's vocabulary, its number in the draft's smaller vocabulary. Not owned.
///
/// Draft models come with the inverse: `token_of[k]` is the target's token for the draft's token k ([EAGLE-3]'s `d2t`,
/// see `tokens_of_offsets`). `invert_vocabulary` makes this array from it, once.
struct vocabulary_map {
    index_t const* draft_of = nullptr;  ///< one entry per token of the target; -1: the draft does not have it
    index_t size = 0;                   ///< size of the target's vocabulary
};

/// Writes `draft_of` from `token_of`: for every token of the target's vocabulary its number in the draft's, or -1.
/// Throws `invalid_input`, with nothing written, for a token outside the target's vocabulary and for a repeated one.
/// Linear in both sizes; allocates one bit per token.
inline void invert_vocabulary(span<token_id const> token_of, span<index_t> draft_of) {
    validate_row_size(draft_of.size(), "draft_of");
    validate_row_size(token_of.size(), "token_of");
    std::vector<bool> taken(draft_of.size(), false);
    for (std::size_t k = 0; k < token_of.size(); ++k) {
        auto const index = static_cast<std::int64_t>(k);
        if (token_of[k] < 0 || static_cast<std::size_t>(token_of[k]) >= draft_of.size())
            refuse("token_of", index, token_of[k], "the target has " + std::to_string(draft_of.size()) + " tokens");
        auto const token = static_cast<std::size_t>(token_of[k]);
        if (taken[token]) {
            std::size_t first = 0;
            while (token_of[first] != token_of[k]) ++first;
            refuse("token_of", index, token_of[k], "token " + std::to_string(first) + " of the draft is the same");
        }
        taken[token] = true;
    }
    for (index_t& k : draft_of) k = none;
    for (std::size_t k = 0; k < token_of.size(); ++k) draft_of[token_of[k]] = static_cast<index_t>(k);
}

/// Writes `token_of` from offsets, the format of `d2t` in [EAGLE-3]'s checkpoints: `token_of[k]` is k + `offsets[k]`.
/// Throws `invalid_input` for different sizes and for a sum that is not a token. O(n).
template <class Id>
void tokens_of_offsets(span<Id const> offsets, span<token_id> token_of) {
    if (token_of.size() != offsets.size())
        refuse("token_of.size", token_of.size(), "there is one token for each offset");
    for (std::size_t k = 0; k < offsets.size(); ++k) {
        auto const index = static_cast<std::int64_t>(k);
        std::int64_t const offset{offsets[k]};
        if (offset < -index || offset >= max_row_size - index)  // no sum: it may exceed 64 bits
            refuse("offsets", index, offset, "a token is k + offsets[k], 0 or more");
    }
    for (std::size_t k = 0; k < offsets.size(); ++k)
        token_of[k] = static_cast<token_id>(static_cast<std::int64_t>(k) + std::int64_t{offsets[k]});
}

/// A distribution over the draft's vocabulary as one over the target's: 0 for tokens that the draft does not have.
/// Nothing is copied; entries are read through the map.
///
/// Verifiers with such rows for the draft are lossless for tokens that were drawn from the original row and then
/// translated to the target's vocabulary, since both have the same law. An entry of the map outside the row counts as
/// -1.
template <distribution D>
class widened_row {
public:
    using real = probability_of<D>;

    widened_row() = default;
    /// Reads `row` through `map`; their arrays are not owned.
    MULTIDRAFT_HD widened_row(D row, vocabulary_map map) noexcept : row_(row), map_(map) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return map_.size; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        index_t const k = map_.draft_of[i];
        return is_there(k) ? row_(k) : real(0);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const {
        index_t const k = map_.draft_of[i];
        return is_there(k) ? row_.weight(k) : real(0);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_mass(index_t i) const {
        index_t const k = map_.draft_of[i];
        return is_there(k) && multidraft::may_have_mass(row_, k);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_all_mass() const noexcept { return false; }
    /// See `has_order`.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real order(index_t i) const requires has_order<D> {
        index_t const k = map_.draft_of[i];
        return is_there(k) ? row_.order(k) : minus_infinity<real>;
    }
    [[nodiscard]] MULTIDRAFT_HD index_t order_limit() const requires has_order<D> { return row_.order_limit(); }
    /// The row whose probabilities are `factor` times as large, a power of two.
    [[nodiscard]] MULTIDRAFT_HD widened_row times(real factor) const requires detail::has_times<D, real> {
        return {row_.times(factor), map_};
    }

private:
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_there(index_t k) const noexcept {
        return k >= 0 && k < row_.size();
    }

    D row_{};
    vocabulary_map map_{};
};

/// The rows of a tree in the target's vocabulary: a `widened_row` for each of the draft's rows (`logit_rows`,
/// `probability_rows`, `prepared_rows`, ..).
template <class Rows>
class widened_rows {
public:
    /// The arrays of the rows and of the map are not owned.
    MULTIDRAFT_HD widened_rows(Rows rows, vocabulary_map map) noexcept : rows_(std::move(rows)), map_(map) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return map_.size; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return widened_row(rows_(g, node), map_);
    }

private:
    Rows rows_;
    vocabulary_map map_;
};

}  // namespace MULTIDRAFT_NAMESPACE
