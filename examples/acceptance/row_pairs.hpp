// The rows of a target and a draft model, from two array files: checked, processed, as probabilities.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "acceptance/npy.hpp"
#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// How the numbers in the files are turned into distributions.
struct row_options {
    bool logits = false;
    double temperature = 1;
    double draft_temperature = 1;
    index_t top_k = 0;
    float top_p = 1.0F;
    float min_p = 0.0F;
};

/// Target p and draft q of one row, both summing to 1.
struct row_pair {
    std::vector<double> p;
    std::vector<double> q;
};

/// The rows of two files of one shape. Every error names the file and, where applicable, row, column and value.
class row_pairs {
public:
    /// Opens the files and compares their shapes; rows are checked when they are loaded. Throws `std::runtime_error`
    /// for files that cannot be used and options out of range.
    row_pairs(std::filesystem::path const& target, std::filesystem::path const& draft, row_options const& options);

    [[nodiscard]] std::int64_t rows() const noexcept { return target_.array().rows; }
    [[nodiscard]] index_t vocabulary() const noexcept { return static_cast<index_t>(target_.array().columns); }

    /// One pair of rows, from any thread. Throws for entries that are not finite or negative, sums far from 1, logits
    /// that are NaN or plus infinity, and a draft row that gives mass to fewer than `drafts` tokens (before processing:
    /// a nucleus may be smaller).
    [[nodiscard]] row_pair load(std::int64_t row, index_t drafts) const;
    /// One row of the target, one of the draft; errors as above.
    [[nodiscard]] std::vector<double> load_target(std::int64_t row) const;
    [[nodiscard]] std::vector<double> load_draft(std::int64_t row, index_t drafts) const;

private:
    [[nodiscard]] std::vector<double> load(npy_file const& file, std::int64_t row, double temperature,
                                           index_t least_support) const;

    npy_file target_;
    npy_file draft_;
    row_options options_;
};

}  // namespace multidraft::examples
