// All rates of all rows of two files.
#pragma once

#include <cstdint>

#include "acceptance/row_pairs.hpp"
#include "acceptance/summary.hpp"
#include "multidraft/core/config.hpp"

namespace multidraft::examples {

/// What is asked of the rows.
struct survey_options {
    index_t drafts = 1;
    bool fewer_too = false;  ///< also for 1 .. drafts - 1 drafts
    int threads = 0;         ///< 0: one a core
    std::uint64_t seed = 1;  ///< of the estimates
};

/// Every measure of every row, their means and intervals. Rows are read one at a time; the result does not depend on
/// the number of threads. Shows its progress on a terminal. Throws for the first row that cannot be used.
[[nodiscard]] summary survey(row_pairs const& rows, survey_options const& options);

}  // namespace multidraft::examples
