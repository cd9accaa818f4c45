// Where the numbers of prepared rows are written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Where `prepare_batch` writes what it finds of each node's row; `prepared_batch` reads it.
struct row_state_batch {
    row_state* states = nullptr;  ///< one for each node
    /// The sums of a row's chunks of 4,096 entries: `kept_sums(vocabulary)` for each node; may be null for the draft.
    float* sums = nullptr;
    /// A bit for each run of 64 entries, whether truncation keeps a token there: `chunks_of(vocabulary)` words for each
    /// node, for rows of at most 512 chunks. May be null; hosts read fewer entries of truncated rows with it.
    std::uint64_t* runs = nullptr;
};

}  // namespace MULTIDRAFT_NAMESPACE
