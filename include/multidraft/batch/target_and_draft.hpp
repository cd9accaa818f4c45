// Which rows are the target's and which the draft's: types, so that nobody swaps them without a word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Says that rows are the target's: `target_rows(p)`. A call that is given the draft's in their place does not compile.
template <row_batch Rows>
struct target_rows {
    Rows rows;
    /// The rows are the caller's.
    MULTIDRAFT_HD constexpr explicit target_rows(Rows const& of_target) noexcept : rows(of_target) {}
};

/// What may be given as the draft's rows: a batch of rows, or nothing where the verifier reads none.
template <class R>
concept draft_row_batch = row_batch<R> || std::is_same_v<R, verify::no_draft_rows>;

/// Says that rows are the draft's: `draft_rows(q)`; `draft_rows(verify::no_draft_rows{})` for verifiers that read none.
template <draft_row_batch Rows>
struct draft_rows {
    Rows rows;
    /// The rows are the caller's.
    MULTIDRAFT_HD constexpr explicit draft_rows(Rows const& of_draft) noexcept : rows(of_draft) {}
};

}  // namespace MULTIDRAFT_NAMESPACE
