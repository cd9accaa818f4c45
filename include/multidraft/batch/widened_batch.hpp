// Rows of a batch of a draft model whose vocabulary is a part of the target's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/distribution/widened_row.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Rows of the draft's in the target's vocabulary, for `verify_batch` and `validate_batch`: `widened_batch(rows,
/// {draft_of, vocabulary})`, where `rows` is a `logit_batch`, a `prepared_batch` or a `probability_batch` of the
/// draft's own.
///
/// Children are drawn from `rows` themselves, and `children_batch::token_of` names them in the target's vocabulary.
template <row_batch Rows>
struct widened_batch {
    Rows rows;
    vocabulary_map map;
    index_t vocabulary = 0;  ///< the target's

    widened_batch() = default;
    /// The rows and the map's array are the caller's.
    MULTIDRAFT_HD constexpr widened_batch(Rows const& of_draft, vocabulary_map of_vocabulary) noexcept
        : rows(of_draft), map(of_vocabulary), vocabulary(of_vocabulary.size) {}

    /// The distribution of node i, of request b.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, std::int64_t i, std::int32_t b) const {
        return widened_row(rows(g, i, b), map);
    }
};

namespace detail {

/// Rows that are read through a map of the vocabulary.
template <class Rows>
concept has_map = requires(Rows const& rows) {
    { rows.map } -> std::convertible_to<vocabulary_map>;
    rows.rows.vocabulary;
};

/// The rows as they lie in memory: what a map is around.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD constexpr auto const& unmapped(Rows const& rows) noexcept {
    if constexpr (has_map<Rows>)
        return rows.rows;
    else
        return rows;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
