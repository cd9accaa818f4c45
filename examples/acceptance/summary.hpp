// Rates of many rows: their means with confidence intervals, as a table, as JSON and as CSV.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/core/config.hpp"

namespace multidraft::examples {

/// A mean over rows with its 95 % confidence interval, where there is more than one row.
struct interval {
    double mean = 0;
    std::optional<double> low;
    std::optional<double> high;
};

/// One line of the table.
struct summary_line {
    index_t drafts = 0;
    std::string_view law;
    std::string_view verifier;  ///< empty for the bound
    interval rate;
};

/// What the tool found.
struct summary {
    std::string target;
    std::string draft;
    std::int64_t rows = 0;
    index_t vocabulary = 0;
    index_t drafts = 0;
    std::vector<summary_line> lines;
};

/// Of `values`, one a row, by the bootstrap (BCa); of more than a thousand rows the normal interval, cut at 0 and 1.
[[nodiscard]] interval interval_of(std::vector<double> const& values);

/// The lines for `found.drafts` drafts, for a person.
void print_table(std::ostream& out, summary const& found);

/// The same as one object; with the other numbers of drafts, if there are lines for them, under "by_drafts".
[[nodiscard]] nlohmann::ordered_json to_json(summary const& found);

/// Every line: drafts,law,quantity,mean,low,high,rows.
void write_csv(std::ostream& out, summary const& found);

}  // namespace multidraft::examples
