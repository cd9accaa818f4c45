#include "acceptance/summary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "acceptance/latex.hpp"

namespace multidraft::examples {
namespace {

using nlohmann::ordered_json;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string_view quantity(summary_line const& line) {
    return line.is_bound() ? std::string_view("bound") : std::string_view(line.verifier);
}

/// The numbers of drafts that there are lines for, in increasing order.
std::vector<index_t> numbers_of_drafts(summary const& found) {
    std::vector<index_t> result;
    for (summary_line const& line : found.lines)
        if (result.empty() || result.back() != line.drafts) result.push_back(line.drafts);
    return result;
}

/// Those that are shown: 0 for trees.
std::vector<index_t> shown_numbers(summary const& found) {
    return found.of_trees() ? std::vector<index_t>{0} : found.drafts;
}

ordered_json to_json(summary_line const& line) {
    ordered_json result = to_json(line.rate);
    if (line.difference) result["difference"] = to_json(*line.difference);
    if (!line.by_rank.empty()) {
        auto ranks = ordered_json::array();
        for (interval const& x : line.by_rank) ranks.push_back(to_json(x));
        result["by_rank"] = std::move(ranks);
    }
    return result;
}

ordered_json laws(summary const& found, index_t drafts) {
    ordered_json result = ordered_json::object();
    for (summary_line const& line : found.lines) {
        if (line.drafts != drafts) continue;
        auto& law = result[line.law];
        if (law.is_null()) law = {{"bound", nullptr}, {"verifiers", ordered_json::object()}};
        if (line.is_bound())
            law["bound"] = to_json(line);
        else
            law["verifiers"][line.verifier] = to_json(line);
    }
    return result;
}

std::string number_text(char const* format, double x) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, format, x);
    return buffer;
}

/// A line of columns of so many characters each, the last without end.
std::string columns(std::vector<std::pair<std::string, std::size_t>> const& cells) {
    std::string result;
    for (auto const& [cell, width] : cells) {
        result += cell;
        if (cell.size() < width) result.append(width - cell.size(), ' ');
    }
    result.erase(result.find_last_not_of(' ') + 1);
    return result + '\n';
}

std::string right(std::string const& text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

void print_lines(std::ostream& out, summary const& found, index_t drafts) {
    bool const differences = !found.baseline.empty();
    std::string const rate = right(found.of_trees() ? "accepted" : "rate", 8) + "  ";
    std::string const share = found.of_trees() ? "" : "of the bound";
    out << columns({{"law of the drafts", 22},
                    {"verifier", 22},
                    {rate, 10},
                    {"interval", 18},
                    {share, differences ? 14 : 0},
                    {differences ? "difference from " + found.baseline : "", 0}});
    double bound = 0;
    std::string law;
    for (summary_line const& line : found.lines) {
        if (line.drafts != drafts) continue;
        if (line.is_bound()) bound = line.rate.mean;
        bool const is_first = line.law != law;
        if (is_first && !line.is_bound()) bound = 0;
        law = line.law;
        bool const has_share = !line.is_bound() && bound > 0 && line.lossless;
        out << columns(
            {{is_first ? line.law : "", 22},
             {line.is_bound() ? "bound" : line.verifier, 22},
             {right(number_text("%.4f", line.rate.mean), 8) + "  ", 10},
             {range_text(line.rate), 18},
             {has_share ? number_text("%5.1f %%", 100 * line.rate.mean / bound) : (line.lossless ? "" : "not lossless"),
              differences ? 14 : 0},
             {line.difference ? difference_text(*line.difference) : "", 0}});
    }
}

void print_ranks(std::ostream& out, summary const& found, index_t drafts) {
    bool begun = false;
    for (summary_line const& line : found.lines) {
        if (line.drafts != drafts || line.by_rank.empty()) continue;
        if (!begun) {
            out << "\naccepted by rank      verifier              ";
            for (index_t k = 1; k <= drafts; ++k) out << right(std::to_string(k), 8);
            out << '\n';
            begun = true;
        }
        std::string ranks;
        for (interval const& x : line.by_rank) ranks += right(number_text("%.4f", x.mean), 8);
        out << columns({{line.law, 22}, {line.verifier, 22}, {ranks, 0}});
    }
}

/// A table with a row a verifier and a column a number of drafts.
template <class Cell>
latex_table by_drafts(summary const& found, std::string caption, Cell cell) {
    latex_table table{std::move(caption), {"Drafts", "Verifier"}};
    auto const numbers = shown_numbers(found);
    for (index_t const n : numbers)
        table.head.push_back(found.of_trees() ? "Accepted" : "$n = " + std::to_string(n) + "$");
    std::vector<std::pair<std::string, std::string>> names;
    std::map<std::pair<std::string, std::string>, std::map<index_t, std::string>> cells;
    for (summary_line const& line : found.lines) {
        if (std::find(numbers.begin(), numbers.end(), line.drafts) == numbers.end()) continue;
        std::pair const name{line.law, line.verifier};
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        cells[name][line.drafts] = cell(line);
    }
    // Laws together, in the order in which they came.
    std::vector<std::string> order;
    for (auto const& name : names)
        if (std::find(order.begin(), order.end(), name.first) == order.end()) order.push_back(name.first);
    auto const place = [&](auto const& name) {
        return std::find(order.begin(), order.end(), name.first) - order.begin();
    };
    std::stable_sort(names.begin(), names.end(), [&](auto const& a, auto const& b) { return place(a) < place(b); });
    std::string law;
    for (auto const& name : names) {
        if (name.first != law || table.groups.empty()) table.groups.emplace_back();
        std::vector<std::string> row{name.first == law ? "" : latex_name(name.first),
                                     name.second.empty() ? "bound" : latex_name(name.second)};
        law = name.first;
        for (index_t const n : numbers) {
            auto const at = cells[name].find(n);
            row.push_back(at == cells[name].end() ? "--" : at->second);
        }
        table.groups.back().push_back(std::move(row));
    }
    return table;
}

std::string count_text(summary const& found) {
    auto const one = [](std::int64_t n, std::string const& what) {
        return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
    };
    if (found.of_trees())
        return one(found.rows, "tree") + " of " + one(found.nodes, "node") + " over " +
               std::to_string(found.vocabulary) + " tokens";
    return one(found.rows, "row") + " of " + std::to_string(found.vocabulary) + " tokens";
}

}  // namespace

void require_baseline(summary const& found) {
    if (found.baseline.empty()) return;
    for (index_t const n : shown_numbers(found)) {
        std::string names;
        bool is_there = false;
        for (summary_line const& line : found.lines) {
            if (line.drafts != n) continue;
            is_there = is_there || line.name() == found.baseline;
            names += (names.empty() ? "" : ", ") + line.name();
        }
        if (!is_there)
            throw std::runtime_error("--baseline " + found.baseline + ": not among " +
                                     (n > 0 ? "those of " + std::to_string(n) + " drafts" : "the verifiers") + ": " +
                                     names);
    }
}

void summarise(summary& found) {
    double const least = found.of_trees() ? 0 : -1;
    double const most = found.of_trees() ? infinity : 1;
    for (summary_line& line : found.lines) {
        line.rate = found.units.mean(line.values, 0, most);
        line.by_rank.clear();
        for (auto const& values : line.values_by_rank) line.by_rank.push_back(found.units.mean(values, least, most));
    }
    if (found.baseline.empty()) return;
    for (index_t const n : numbers_of_drafts(found)) {
        auto const is_baseline = [&](summary_line const& x) { return x.drafts == n && x.name() == found.baseline; };
        auto const baseline = std::find_if(found.lines.begin(), found.lines.end(), is_baseline);
        if (baseline == found.lines.end()) continue;  // a number that is only drawn
        for (summary_line& line : found.lines) {
            if (line.drafts != n || is_baseline(line)) continue;
            std::vector<double> differences(line.values.size());
            for (std::size_t k = 0; k < differences.size(); ++k) differences[k] = line.values[k] - baseline->values[k];
            line.difference = found.units.mean(differences, -most, most);
        }
    }
}

void print_table(std::ostream& out, summary const& found) {
    bool first = true;
    for (index_t const n : shown_numbers(found)) {
        if (first)
            out << count_text(found) << (found.of_trees() ? "" : ", " + std::to_string(n) + " drafts at a node")
                << "; means with 95 % intervals, " << found.units.description(found.what()) << "\n\n";
        else
            out << '\n' << n << " drafts at a node\n\n";
        first = false;
        print_lines(out, found, n);
        print_ranks(out, found, n);
    }
}

ordered_json to_json(summary const& found) {
    ordered_json result = {{"target", found.target}, {"draft", found.draft}};
    result[found.what()] = found.rows;
    if (found.of_trees()) result["nodes"] = found.nodes;
    result["vocabulary"] = found.vocabulary;
    if (!found.of_trees()) result["drafts"] = found.drafts.back();
    result["confidence"] = 0.95;
    result["intervals"] = found.units.json(found.what());
    if (!found.baseline.empty()) result["baseline"] = found.baseline;
    if (found.of_trees()) {
        auto lines = ordered_json::object();
        for (summary_line const& line : found.lines) lines[line.name()] = to_json(line);
        result["mean_accepted"] = std::move(lines);
        return result;
    }
    result["laws"] = laws(found, found.drafts.back());
    auto const numbers = numbers_of_drafts(found);
    if (numbers.size() > 1) {
        auto list = ordered_json::array();
        for (index_t const n : numbers) list.push_back({{"drafts", n}, {"laws", laws(found, n)}});
        result["by_drafts"] = std::move(list);
    }
    return result;
}

void print_latex(std::ostream& out, summary const& found) {
    std::string const basis = count_text(found) + " of " + latex_text(found.target) + " and " +
                              latex_text(found.draft) + ", with 95\\,\\% intervals " +
                              latex_text(found.units.description(found.what())) + ".";
    bool const trees = found.of_trees();
    write_latex(
        out, by_drafts(found, (trees ? "Mean number of accepted tokens: " : "Acceptance rates at one node: ") + basis,
                       [](summary_line const& line) { return latex_interval(line.rate); }));
    if (!found.baseline.empty()) {
        auto const slash = found.baseline.find('/');
        std::string const name = latex_name(found.baseline.substr(0, slash)) + " of " +
                                 latex_name(found.baseline.substr(slash + 1)) + " drafts";
        out << '\n';
        write_latex(out,
                    by_drafts(found, "Paired differences from " + name + ": " + basis, [](summary_line const& line) {
                        return line.difference ? latex_difference(*line.difference) : "--";
                    }));
    }
    for (index_t const n : found.drafts) {
        latex_table table{"How often each of " + std::to_string(n) + " drafts is the one accepted: " + basis,
                          {"Drafts", "Verifier"}};
        for (index_t k = 1; k <= n; ++k) table.head.push_back(std::to_string(k));
        std::string law;
        for (summary_line const& line : found.lines) {
            if (line.drafts != n || line.by_rank.empty()) continue;
            if (line.law != law) table.groups.emplace_back();
            std::vector<std::string> row{line.law == law ? "" : latex_name(line.law), latex_name(line.verifier)};
            law = line.law;
            for (interval const& x : line.by_rank) row.push_back(latex_interval(x));
            table.groups.back().push_back(std::move(row));
        }
        if (table.groups.empty()) continue;
        out << '\n';
        write_latex(out, table);
    }
}

void write_csv(std::ostream& out, summary const& found) {
    bool const differences = !found.baseline.empty();
    bool const ranks =
        std::any_of(found.lines.begin(), found.lines.end(), [](auto const& line) { return !line.by_rank.empty(); });
    out << "drafts,law,quantity,mean,low,high," << found.what()
        << (differences ? ",difference,difference_low,difference_high" : "") << (ranks ? ",rank" : "") << '\n';
    for (summary_line const& line : found.lines) {
        auto const begin = [&](interval const& x) -> std::ostream& {
            if (!found.of_trees()) out << line.drafts;
            return out << ',' << line.law << ',' << quantity(line) << ',' << digits(x.mean) << ',' << digits(x.low)
                       << ',' << digits(x.high) << ',' << found.rows;
        };
        begin(line.rate);
        if (differences && line.difference)
            out << ',' << digits(line.difference->mean) << ',' << digits(line.difference->low) << ','
                << digits(line.difference->high);
        else if (differences)
            out << ",,,";
        out << (ranks ? ",\n" : "\n");
        for (std::size_t k = 0; k < line.by_rank.size(); ++k)
            begin(line.by_rank[k]) << (differences ? ",,,," : ",") << k + 1 << '\n';
    }
}

void write_rows_csv(std::ostream& out, summary const& found) {
    out << (found.of_trees() ? "tree" : "row") << ",group,drafts,law,quantity,rank,value,stderr\n";
    for (std::size_t row = 0; row < static_cast<std::size_t>(found.rows); ++row)
        for (summary_line const& line : found.lines) {
            auto const begin = [&]() -> std::ostream& {
                out << row << ',';
                if (found.units.grouped()) out << found.units.groups()[row];
                out << ',';
                if (!found.of_trees()) out << line.drafts;
                return out << ',' << line.law << ',' << quantity(line) << ',';
            };
            begin() << ',' << digits(line.values[row]) << ',' << digits(line.errors[row]) << '\n';
            for (std::size_t k = 0; k < line.values_by_rank.size(); ++k)
                begin() << k + 1 << ',' << digits(line.values_by_rank[k][row]) << ",\n";
        }
}

void write_rows_json(std::ostream& out, summary const& found) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(found.rows); ++row)
        for (summary_line const& line : found.lines) {
            ordered_json common = {{found.of_trees() ? "tree" : "row", row}};
            if (found.units.grouped()) common["group"] = found.units.groups()[row];
            if (!found.of_trees()) common["drafts"] = line.drafts;
            common["law"] = line.law;
            common["quantity"] = quantity(line);
            ordered_json whole = common;
            whole["value"] = line.values[row];
            if (line.errors[row]) whole["stderr"] = *line.errors[row];
            out << whole.dump() << '\n';
            for (std::size_t k = 0; k < line.values_by_rank.size(); ++k) {
                ordered_json of_rank = common;
                of_rank["rank"] = k + 1;
                of_rank["value"] = line.values_by_rank[k][row];
                out << of_rank.dump() << '\n';
            }
        }
}

}  // namespace multidraft::examples
