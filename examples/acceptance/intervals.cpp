#include "acceptance/intervals.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "acceptance/npy.hpp"
#include "multidraft/analysis/bootstrap.hpp"

namespace multidraft::examples {
namespace {

/// Means of more than this are normal; resampling them would only take time.
constexpr std::size_t most_resampled = 1000;

}  // namespace

sampling_units::sampling_units(std::vector<std::int64_t> groups)
    : samples_(groups.size()), units_(0), groups_(std::move(groups)) {
    auto sorted = groups_;
    std::sort(sorted.begin(), sorted.end());
    units_ = static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
}

interval sampling_units::mean(std::span<double const> values, double least, double most) const {
    double mean = 0;
    for (double const x : values) mean += x;
    mean /= static_cast<double>(values.size());
    if (units_ < 2) return {mean, {}, {}};
    if (units_ <= most_resampled) {
        auto const found =
            grouped() ? analysis::bootstrap_clustered_mean(values, groups_) : analysis::bootstrap_mean(values);
        return {mean, found.low, found.high};
    }
    double squares = 0;
    if (grouped()) {
        auto const of_groups = analysis::sums_of_clusters(values, groups_);
        for (std::size_t k = 0; k < of_groups.sums.size(); ++k) {
            double const off = of_groups.sums[k] - of_groups.counts[k] * mean;
            squares += off * off;
        }
    } else {
        for (double const x : values) squares += (x - mean) * (x - mean);
    }
    auto const count = static_cast<double>(values.size());
    auto const units = static_cast<double>(units_);
    double const margin = 1.959963984540054 * std::sqrt(squares * units / (units - 1)) / count;
    return {mean, std::max(mean - margin, least), std::min(mean + margin, most)};
}

std::string sampling_units::description(std::string const& what) const {
    std::string const units =
        grouped() ? std::to_string(units_) + (units_ == 1 ? " group" : " groups") + " of " + what : what;
    if (units_ < 2) return "no intervals of one " + std::string(grouped() ? "group of " + what : "row or tree");
    std::string const of = units_ <= most_resampled ? "by the bootstrap over " : "from the spread of ";
    return of + units + (grouped() ? ", " + what + " of a group may be correlated" : ", taken as independent");
}

nlohmann::ordered_json sampling_units::json(std::string const& what) const {
    return {{"method", units_ < 2 ? "none" : (units_ <= most_resampled ? "bootstrap (BCa)" : "normal")},
            {"over", grouped() ? "groups" : what},
            {"units", units_}};
}

sampling_units read_units(std::filesystem::path const& groups, std::size_t samples, std::string const& what) {
    if (groups.empty()) return sampling_units(samples);
    auto numbers = read_npy_integers(groups);
    if (numbers.size() != samples)
        throw std::runtime_error(groups.string() + ": " + std::to_string(numbers.size()) + " groups for " +
                                 std::to_string(samples) + ' ' + what);
    return sampling_units(std::move(numbers));
}

nlohmann::ordered_json to_json(interval const& x) {
    nlohmann::ordered_json result = {{"mean", x.mean}, {"low", nullptr}, {"high", nullptr}};
    if (x.low) result["low"] = *x.low;
    if (x.high) result["high"] = *x.high;
    return result;
}

std::string digits(std::optional<double> x) {
    if (!x) return "";
    std::array<char, 32> buffer{};
    auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *x).ptr;
    return {buffer.data(), end};
}

std::string range_text(interval const& x) {
    if (!x.low) return "";
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.4f .. %.4f", *x.low, *x.high);
    return buffer;
}

std::string difference_text(interval const& x) {
    char buffer[96];
    if (x.low)
        std::snprintf(buffer, sizeof buffer, "%+.4f [%+.4f .. %+.4f]", x.mean, *x.low, *x.high);
    else
        std::snprintf(buffer, sizeof buffer, "%+.4f", x.mean);
    return buffer;
}

}  // namespace multidraft::examples
