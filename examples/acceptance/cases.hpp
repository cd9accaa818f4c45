// The rates of single cases, given as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

namespace multidraft::examples {

/// Reads {"cases": [{"p": [..], "q": [..], "n": 3}, ..]} and returns, in the same order,
///
///     {"cases": [{"n": 3,
///                 "alpha_star": {"iid", "sequential", "conditional_poisson", "stratified": {"1", .., "n"}},
///                 "alpha": {"recursive_iid", "recursive_sequential", "kseq", "ranked_iid", "ranked_stratified",
///                           "naive_iid"},
///                 "kseq_rho"}, ..]}
///
/// "stratified" is by the number j of tokens that are not certain; "ranked_stratified" uses the j of the default rule.
/// Where V^(n-1) is above a million, "recursive_sequential" is an estimate and the case has
/// "stderr": {"recursive_sequential": its standard error}.
///
/// Throws `std::runtime_error` naming file and case for anything that is not as described, n below 1 or beyond the
/// support of q included; other keys of a case are ignored.
[[nodiscard]] nlohmann::ordered_json rates_of_cases(std::filesystem::path const& file);

/// The same as text: one line per case.
void print_cases(std::ostream& out, nlohmann::ordered_json const& result);

/// The same as a table for LaTeX.
void print_cases_latex(std::ostream& out, nlohmann::ordered_json const& result);

}  // namespace multidraft::examples
