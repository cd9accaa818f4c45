#include "acceptance/latex.hpp"

#include <cstdio>

namespace multidraft::examples {

std::string latex_text(std::string_view text) {
    std::string result;
    for (char const c : text) {
        switch (c) {
            case '\\':
                result += "\\textbackslash{}";
                break;
            case '~':
                result += "\\textasciitilde{}";
                break;
            case '^':
                result += "\\textasciicircum{}";
                break;
            case '&':
            case '%':
            case '$':
            case '#':
            case '_':
            case '{':
            case '}':
                result += '\\';
                result += c;
                break;
            default:
                result += c;
        }
    }
    return result;
}

std::string latex_name(std::string_view name) {
    std::string words(name);
    for (char& c : words)
        if (c == '_') c = ' ';
    return latex_text(words);
}

std::string latex_interval(interval const& x) {
    char buffer[96];
    if (x.low)
        std::snprintf(buffer, sizeof buffer, "%.4f [%.4f, %.4f]", x.mean, *x.low, *x.high);
    else
        std::snprintf(buffer, sizeof buffer, "%.4f", x.mean);
    return buffer;
}

std::string latex_difference(interval const& x) {
    char buffer[96];
    if (x.low)
        std::snprintf(buffer, sizeof buffer, "$%+.4f$ [$%+.4f$, $%+.4f$]", x.mean, *x.low, *x.high);
    else
        std::snprintf(buffer, sizeof buffer, "$%+.4f$", x.mean);
    return buffer;
}

void write_latex(std::ostream& out, latex_table const& table) {
    auto const line = [&](std::vector<std::string> const& cells) {
        for (std::size_t k = 0; k < cells.size(); ++k) out << (k > 0 ? " & " : "") << cells[k];
        out << " \\\\\n";
    };
    out << "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\caption{" << table.caption
        << "}\n\\begin{tabular}{" << std::string(table.names, 'l') << std::string(table.head.size() - table.names, 'c')
        << "}\n\\toprule\n";
    line(table.head);
    for (auto const& group : table.groups) {
        out << "\\midrule\n";
        for (auto const& row : group) line(row);
    }
    out << "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

}  // namespace multidraft::examples
