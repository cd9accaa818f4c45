// All rates of all rows of two files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "acceptance/own_verifier.hpp"
#include "acceptance/rates.hpp"
#include "acceptance/row_pairs.hpp"
#include "acceptance/summary.hpp"
#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// The options of a survey.
struct survey_options {
    std::vector<index_t> drafts;  ///< the numbers to show
    bool fewer_too = false;       ///< for a single number also those below it
    bool by_rank = false;
    int threads = 0;  ///< 0: one per core
    /// For a verifier without a formula, per row or tree; 0: decreasing with the number of rows.
    std::int64_t trials = 0;
    std::uint64_t seed = 1;  ///< for estimates
    std::string baseline;    ///< verifier/law that differences are from; empty for none
};

/// The number of threads for that many pieces of work.
[[nodiscard]] int threads_for(int wanted, std::int64_t pieces);

/// Calls `work(k)` for all k below `count` from several threads, in order, and shows progress on a terminal. Rethrows
/// an exception of a call, that of the least k first.
void for_all(std::int64_t count, int threads, char const* what, std::function<void(std::int64_t)> const& work);

/// A different seed for each row or tree, the same in every run.
[[nodiscard]] std::uint64_t seed_of(std::uint64_t seed, std::int64_t row);

/// Every measure of every row, their means and intervals; the user's verifiers are grouped with the others of their
/// law. Rows are read one at a time; the result does not depend on the number of threads. Shows its progress on a
/// terminal. Throws for the first row that cannot be used.
[[nodiscard]] summary survey(row_pairs const& rows, sampling_units const& units, std::vector<own_verifier> const& own,
                             survey_options const& options);

}  // namespace multidraft::examples
