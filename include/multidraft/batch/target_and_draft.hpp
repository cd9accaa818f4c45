// Types that mark rows as the target's or the draft's, so that swapping them does not compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Marks rows as the target's: `target_rows(p)`. Passing the draft's rows in their place does not compile.
template <row_batch Rows>
struct target_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit target_rows(Rows const& of_target) noexcept : rows(of_target) {}
};

/// The types accepted as the draft's rows: a batch of rows, or `verify::no_draft_rows` where the verifier reads none.
template <class R>
concept draft_row_batch = row_batch<R> || std::is_same_v<R, verify::no_draft_rows>;

/// Marks rows as the draft's: `draft_rows(q)`; `draft_rows(verify::no_draft_rows{})` for verifiers that read none.
template <draft_row_batch Rows>
struct draft_rows {
    Rows rows;
    /// The rows belong to the caller.
    MULTIDRAFT_HD constexpr explicit draft_rows(Rows const& of_draft) noexcept : rows(of_draft) {}
};

}  // namespace MULTIDRAFT_NAMESPACE
