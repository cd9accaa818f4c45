// Rows that hold probabilities already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_view.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A row of probabilities, read as it is. The caller's entries are not negative, finite, and sum to 1; `validate`
/// checks it.
template <class T, class Layout = contiguous>
class probabilities {
public:
    using real = real_of<T>;

    probabilities() = default;
    /// A row read where it lies.
    MULTIDRAFT_HD constexpr explicit probabilities(row_view<T, Layout> row) noexcept : row_(row) {}
    /// `size` entries from `data` on, in the order of the layout.
    MULTIDRAFT_HD constexpr probabilities(T const* data, index_t size, Layout layout = {}) noexcept
        : row_(data, size, layout) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept { return row_(i); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const noexcept { return row_(i); }

private:
    row_view<T, Layout> row_;
};

/// The rows of a tree as distributions: `rows(group, node)` is the distribution after node `node`.
template <class T, class Layout = contiguous>
class probability_rows {
public:
    using real = real_of<T>;

    /// Rows read where they lie.
    MULTIDRAFT_HD constexpr explicit probability_rows(rows_view<T, Layout> rows) noexcept : rows_(rows) {}
    /// `rows` rows of `size` entries from `data` on, one behind the other.
    MULTIDRAFT_HD constexpr probability_rows(T const* data, index_t rows, index_t size) noexcept
        : rows_(data, rows, size) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD constexpr probabilities<T, Layout> operator()(G const&, node_id node) const noexcept {
        return probabilities<T, Layout>(rows_(node));
    }

private:
    rows_view<T, Layout> rows_;
};

/// Throws `invalid_input` naming `argument`, the token and the value when a row is not a distribution: an entry is not
/// finite or negative, or the sum is far from 1. Also throws, naming the arithmetic, as `validate_arithmetic`. One
/// pass; a second one only to find the entry at fault.
template <group G, class T, class Layout>
void validate(G const& g, probabilities<T, Layout> const& row, std::string const& argument) {
    using real = real_of<T>;
    validate_arithmetic();
    validate_row_size(row.size(), argument.c_str());
    real const worst = g.max(row.size(), [row](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        real const p = row(i);
        return p >= 0 && p <= largest_number<real> ? real(0) : real(1);
    });
    if (worst > 0) {
        for (index_t i = 0; i < row.size(); ++i)
            if (!(row(i) >= 0 && row(i) <= largest_number<real>))
                refuse(argument, i, row(i), "a probability is finite and not negative");
    }
    real const sum = g.sum(row.size(), weight_of{row});
    if (!(std::abs(static_cast<double>(sum) - 1.0) <= sum_tolerance<T>))
        refuse("sum(" + argument + ")", sum, "the probabilities of a row sum to 1");
}

}  // namespace MULTIDRAFT_NAMESPACE
