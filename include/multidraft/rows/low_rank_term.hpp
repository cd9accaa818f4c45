// A row of logits plus a term of low rank that belongs to one token, evaluated as the row is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The row x_i + sum over k of a_k W2[k][i]; see `low_rank_term`.
///
/// Every operation of every group gives the same bits as for a row that was written out: the sum of an entry begins
/// with x_i and takes k in order, one fused multiply-add each. The host group evaluates a run at a time (`has_runs`).
/// An entry costs `rank` multiply-adds each time it is read, so hosts write out rows that are read often.
template <class View, class T>
class low_rank_view {
public:
    using real = typename View::real;

    low_rank_view() = default;
    /// `of_token`: the numbers a; `of_entry`: rows of W2, as long as the row.
    MULTIDRAFT_HD low_rank_view(View row, T const* of_token, T const* of_entry, index_t rank) noexcept
        : row_(row), of_token_(of_token), of_entry_(of_entry), rank_(rank) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        real x = row_(i);
        for (index_t k = 0; k < rank_; ++k) x = fp::fma(factor(k), entry(k, i), x);
        return x;
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD low_rank_view in_chunk(index_t begin, index_t end) const noexcept {
        low_rank_view result = *this;
        result.row_ = detail::in_chunk(row_, begin, end);
        return result;
    }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const {
        real values[static_cast<std::size_t>(run_length)];
        detail::on_run(row_, begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t i = begin; i < end; ++i) values[i - begin] = here(i);
        });
        for (index_t k = 0; k < rank_; ++k) {
            real const a = factor(k);
            for (index_t i = begin; i < end; ++i) values[i - begin] = fp::fma(a, entry(k, i), values[i - begin]);
        }
        body(run_values<real>(values, begin, row_.size()));
    }

private:
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real factor(index_t k) const noexcept {
        return static_cast<real>(to_real(of_token_[k]));
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real entry(index_t k, index_t i) const noexcept {
        return static_cast<real>(to_real(of_entry_[static_cast<std::int64_t>(k) * row_.size() + i]));
    }

    View row_{};
    T const* of_token_ = nullptr;
    T const* of_entry_ = nullptr;
    index_t rank_ = 0;
};

/// The term W2 W1[token] of a row of logits: how likely each entry is after that token, of low rank ([DSpark]'s Markov
/// head). A view of the caller's weights, float, half or bfloat16, and not owned.
template <class T = float>
struct low_rank_term {
    T const* of_token = nullptr;  ///< W1: `rank` numbers for each token, token after token
    T const* of_entry = nullptr;  ///< W2, `rank` rows of V numbers: entry i of row k is at k V + i
    index_t rank = 0;

    /// The row with the term of a token, for `process_logits`; nothing is written.
    template <class View>
    [[nodiscard]] MULTIDRAFT_HD low_rank_view<View, T> operator()(View row, token_id token) const noexcept {
        return {row, of_token + static_cast<std::int64_t>(token) * rank, of_entry, rank};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
