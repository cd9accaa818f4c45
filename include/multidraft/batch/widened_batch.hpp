// Rows of a batch for a draft model whose vocabulary is a subset of the target's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/widened_row.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The draft's rows in the target's vocabulary, for `verify_batch` and `validate_batch`: `widened_batch(rows,
/// {draft_of, vocabulary})`, where `rows` is a `logit_batch`, a `prepared_batch` or a `probability_batch` in the
/// draft's vocabulary.
///
/// Children are drawn from `rows`; `children_batch::token_of` translates them to the target's vocabulary.
template <row_batch Rows>
struct widened_batch {
    Rows rows;
    vocabulary_map map;
    index_t vocabulary = 0;  ///< the target's

    widened_batch() = default;
    /// The arrays of the rows and of the map are not owned.
    MULTIDRAFT_HD constexpr widened_batch(Rows const& of_draft, vocabulary_map of_vocabulary) noexcept
        : rows(of_draft), map(of_vocabulary), vocabulary(of_vocabulary.size) {}

    /// The distribution of node i of request b.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return widened_row(rows(g, i, b), map);
    }
};

namespace detail {

/// Rows that are read through a `vocabulary_map`.
template <class Rows>
concept has_map = requires(Rows const& rows) {
    { rows.map } -> std::convertible_to<vocabulary_map>;
    rows.rows.vocabulary;
};

/// The rows in the draft's vocabulary if `rows` has a map, else `rows`.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD constexpr auto const& unmapped(Rows const& rows) noexcept {
    if constexpr (has_map<Rows>)
        return rows.rows;
    else
        return rows;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
