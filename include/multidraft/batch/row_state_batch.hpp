// Where the numbers of prepared rows are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/core/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What `prepare_batch` writes for each node of a batch: `prepared_batch` reads it.
struct row_state_batch {
    row_state* states = nullptr;  ///< one for each node
    float* sums = nullptr;        ///< `kept_sums(vocabulary)` for each node; may be null for the draft's rows
    /// `chunks_of(vocabulary)` for each node, at most 512; may be null. They spare hosts passes over truncated rows.
    std::uint64_t* runs = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE
