// Types that mark rows as the target's or the draft's, so that swapping them does not compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/rows/row_source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Marks rows as the target's: `target_rows(p)`, with the rows of one tree (`row_source`) or of a batch (`row_batch`).
/// Passing the draft's rows in their place does not compile.
///
/// A named source of the rows of a tree is referred to, and must outlive this object; a temporary one and the rows of a
/// batch are held by value.
template <class Rows>
struct target_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit target_rows(Rows const& of_target) noexcept : rows(of_target) {}
};

/// Marks rows as the draft's, as `target_rows` does for the target's: `draft_rows(q)`, or
/// `draft_rows(verify::no_draft_rows{})` for verifiers that read none.
template <class Rows>
struct draft_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit draft_rows(Rows const& of_draft) noexcept : rows(of_draft) {}
};

template <detail::counted_rows Rows>
target_rows(Rows const&) -> target_rows<Rows const&>;
template <detail::counted_rows Rows>
requires(!std::is_reference_v<Rows>) target_rows(Rows&&)
->target_rows<Rows>;

template <detail::counted_rows Rows>
draft_rows(Rows const&) -> draft_rows<Rows const&>;
template <detail::counted_rows Rows>
requires(!std::is_reference_v<Rows>) draft_rows(Rows&&)
->draft_rows<Rows>;

}  // namespace MULTIDRAFT_NAMESPACE
