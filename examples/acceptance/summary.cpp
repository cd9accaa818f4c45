#include "acceptance/summary.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "multidraft/analysis/bootstrap.hpp"

namespace multidraft::examples {
namespace {

using nlohmann::ordered_json;

/// Means of more rows than this are normal; resampling them would only take time.
constexpr std::size_t most_resampled = 1000;

ordered_json to_json(interval const& x) {
    ordered_json result = {{"mean", x.mean}, {"low", nullptr}, {"high", nullptr}};
    if (x.low) result["low"] = *x.low;
    if (x.high) result["high"] = *x.high;
    return result;
}

ordered_json laws(summary const& found, index_t drafts) {
    ordered_json result = ordered_json::object();
    for (summary_line const& line : found.lines) {
        if (line.drafts != drafts) continue;
        auto& law = result[std::string(line.law)];
        if (line.verifier.empty())
            law = {{"bound", to_json(line.rate)}, {"verifiers", ordered_json::object()}};
        else
            law["verifiers"][std::string(line.verifier)] = to_json(line.rate);
    }
    return result;
}

std::string text(std::optional<double> x) {
    if (!x) return "";
    std::array<char, 32> buffer{};
    auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *x).ptr;
    return {buffer.data(), end};
}

}  // namespace

interval interval_of(std::vector<double> const& values) {
    auto const count = static_cast<double>(values.size());
    double mean = 0;
    for (double const x : values) mean += x;
    mean /= count;
    if (values.size() < 2) return {mean, {}, {}};
    if (values.size() <= most_resampled) {
        auto const found = analysis::bootstrap_mean(values);
        return {mean, found.low, found.high};
    }
    double squares = 0;
    for (double const x : values) squares += (x - mean) * (x - mean);
    double const margin = 1.959963984540054 * std::sqrt(squares / (count - 1) / count);
    return {mean, std::max(mean - margin, 0.0), std::min(mean + margin, 1.0)};
}

void print_table(std::ostream& out, summary const& found) {
    char buffer[160];
    std::snprintf(buffer, sizeof buffer, "%lld %s of %d tokens, %d drafts at a node; means with 95 %% intervals\n\n",
                  static_cast<long long>(found.rows), found.rows == 1 ? "row" : "rows", found.vocabulary, found.drafts);
    out << buffer;
    std::snprintf(buffer, sizeof buffer, "%-22s%-22s%8s  %-18s%s\n", "law of the drafts", "verifier", "rate",
                  "interval", "of the bound");
    out << buffer;
    double bound = 0;
    for (summary_line const& line : found.lines) {
        if (line.drafts != found.drafts) continue;
        bool const is_bound = line.verifier.empty();
        if (is_bound) bound = line.rate.mean;
        std::string range;
        if (line.rate.low) {
            std::snprintf(buffer, sizeof buffer, "%.4f .. %.4f", *line.rate.low, *line.rate.high);
            range = buffer;
        }
        std::string share;
        if (!is_bound && bound > 0) {
            std::snprintf(buffer, sizeof buffer, "%5.1f %%", 100 * line.rate.mean / bound);
            share = buffer;
        }
        std::string row(160, '\0');
        auto const length = std::snprintf(
            row.data(), row.size(), "%-22s%-22s%8.4f  %-18s%s", is_bound ? std::string(line.law).c_str() : "",
            is_bound ? "bound" : std::string(line.verifier).c_str(), line.rate.mean, range.c_str(), share.c_str());
        row.resize(static_cast<std::size_t>(std::max(length, 0)));
        row.erase(row.find_last_not_of(' ') + 1);
        out << row << '\n';
    }
}

ordered_json to_json(summary const& found) {
    ordered_json result = {{"target", found.target},           {"draft", found.draft},   {"rows", found.rows},
                           {"vocabulary", found.vocabulary},   {"drafts", found.drafts}, {"confidence", 0.95},
                           {"laws", laws(found, found.drafts)}};
    std::vector<index_t> others;
    for (summary_line const& line : found.lines)
        if (others.empty() || others.back() != line.drafts) others.push_back(line.drafts);
    if (others.size() > 1) {
        auto list = ordered_json::array();
        for (index_t const n : others) list.push_back({{"drafts", n}, {"laws", laws(found, n)}});
        result["by_drafts"] = std::move(list);
    }
    return result;
}

void write_csv(std::ostream& out, summary const& found) {
    out << "drafts,law,quantity,mean,low,high,rows\n";
    for (summary_line const& line : found.lines)
        out << line.drafts << ',' << line.law << ',' << (line.verifier.empty() ? "bound" : line.verifier) << ','
            << text(line.rate.mean) << ',' << text(line.rate.low) << ',' << text(line.rate.high) << ',' << found.rows
            << '\n';
}

}  // namespace multidraft::examples
