// Whole trees over a few tokens: the exact mean accepted length of every verifier, and the limit of its draft law.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

namespace multidraft::examples {

/// Reads {"cases": [{"V": 3, "children": [2, 1], "p": {"": [..], "0": [..], "0,1": [..], ..}, "q": {..}}, ..]}: the
/// target's rows by prefix, for all prefixes of up to as many tokens as there are levels, and the draft's for shorter
/// ones. Gives, in the same order,
///
///     {"cases": [{"mean_accepted": {"recursive_rejection/iid", "recursive_rejection/sequential", "traversal/iid",
///                                   "traversal/sequential", "ranked_block/iid", "ranked_block/stratified",
///                                   "nested_ranked_block/iid", "nested_ranked_block/stratified"},
///                 "limit": {"iid", "sequential", "stratified"},
///                 "total_variation": {the keys of "mean_accepted"}}, ..]}
///
/// by enumerating the library's own samplers and verifiers; the total variation is the distance of the law of the
/// emitted tokens from the target's. Throws `std::runtime_error` naming file and case for anything that is not as
/// described; other keys of a case are ignored.
[[nodiscard]] nlohmann::ordered_json rates_of_trees(std::filesystem::path const& file);

/// The same as text.
void print_trees(std::ostream& out, nlohmann::ordered_json const& result);

/// The same as a table for LaTeX.
void print_trees_latex(std::ostream& out, nlohmann::ordered_json const& result);

}  // namespace multidraft::examples
