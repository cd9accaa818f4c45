// Rates of many rows, or lengths of many trees: their means with confidence intervals, as a table, as JSON, LaTeX and
// CSV; and the values of every row.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "acceptance/intervals.hpp"
#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// One line of the table.
struct summary_line {
    index_t drafts = 0;  ///< 0 for whole trees
    std::string law;
    std::string verifier;  ///< empty for the bound
    bool lossless = true;
    interval rate;
    std::optional<interval> difference = {};  ///< from the baseline, row by row
    std::vector<interval> by_rank = {};       ///< where asked for

    std::vector<double> values;                            ///< one per row
    std::vector<std::optional<double>> errors;             ///< standard errors, of what is estimated
    std::vector<std::vector<double>> values_by_rank = {};  ///< by rank, one per row

    [[nodiscard]] bool is_bound() const { return verifier.empty(); }
    /// verifier/law.
    [[nodiscard]] std::string name() const { return (is_bound() ? "bound" : verifier) + "/" + law; }
};

/// The results.
struct summary {
    std::string target;
    std::string draft;
    std::int64_t rows = 0;   ///< or trees
    std::int64_t nodes = 0;  ///< of the trees, 0 for rates at one node
    index_t vocabulary = 0;
    std::vector<index_t> drafts;  ///< requested, in increasing order; none for whole trees
    std::string baseline;         ///< of the differences; empty for none
    sampling_units units{0};
    std::vector<summary_line> lines;

    [[nodiscard]] bool of_trees() const { return nodes > 0; }
    /// The unit that each value belongs to.
    [[nodiscard]] std::string what() const { return of_trees() ? "trees" : "rows"; }
};

/// Throws `std::runtime_error`, with the available names, if for some number of drafts no line has the name of the
/// baseline. Called before the work is done.
void require_baseline(summary const& found);

/// Fills means, intervals, rates by rank and, where there is a baseline, differences, from the values.
void summarise(summary& found);

/// The lines for `found.drafts` drafts, as text.
void print_table(std::ostream& out, summary const& found);

/// The same as one object: "drafts" and "laws" are those of the largest requested number; if there are lines for
/// several numbers, all are under "by_drafts".
[[nodiscard]] nlohmann::ordered_json to_json(summary const& found);

/// The same as tables for LaTeX: rates, then differences from the baseline, then rates by rank.
void print_latex(std::ostream& out, summary const& found);

/// Every line: drafts,law,quantity,mean,low,high,rows, then, if requested, difference,difference_low,difference_high
/// and rank, which is empty except in lines of single ranks.
void write_csv(std::ostream& out, summary const& found);

/// The values of every row, one line each: row,group,drafts,law,quantity,rank,value,stderr.
void write_rows_csv(std::ostream& out, summary const& found);

/// The same as one JSON object per line, with "group", "rank" and "stderr" where applicable.
void write_rows_json(std::ostream& out, summary const& found);

}  // namespace multidraft::examples
