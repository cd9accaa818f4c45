// The rows that batched calls take as the target's and as the draft's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/target_and_draft.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The types accepted as the draft's rows: a batch of rows, or `verify::no_draft_rows` where the verifier reads none.
template <class R>
concept draft_row_batch = row_batch<R> || std::is_same_v<R, verify::no_draft_rows>;

}  // namespace MULTIDRAFT_NAMESPACE
