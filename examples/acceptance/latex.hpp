// Tables for LaTeX, with the package booktabs.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "acceptance/intervals.hpp"

namespace multidraft::examples {

/// Text with the characters that LaTeX takes for commands escaped.
[[nodiscard]] std::string latex_text(std::string_view text);

/// The name of a law or a verifier: words, not an identifier.
[[nodiscard]] std::string latex_name(std::string_view name);

/// "0.8390 [0.8190, 0.8520]".
[[nodiscard]] std::string latex_interval(interval const& x);

/// The same of a difference, with signs.
[[nodiscard]] std::string latex_difference(interval const& x);

/// One table; cells are LaTeX already.
struct latex_table {
    std::string caption;
    std::vector<std::string> head;
    std::size_t names = 2;  ///< columns of text, the others are centred numbers
    std::vector<std::vector<std::vector<std::string>>> groups = {};  ///< of rows; a rule between two groups
};

/// Writes a `table` with a `tabular` of booktabs' rules.
void write_latex(std::ostream& out, latex_table const& table);

}  // namespace multidraft::examples
