// Means with 95 % intervals, of rows that are independent or that come in groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace multidraft::examples {

/// A mean with its 95 % confidence interval, where there are two rows or groups or more.
struct interval {
    double mean = 0;
    std::optional<double> low;
    std::optional<double> high;
};

/// The independent units: the rows (or trees), or groups of them, such as the rows of one text.
class sampling_units {
public:
    /// `samples` rows, each for itself.
    explicit sampling_units(std::size_t samples) : samples_(samples), units_(samples) {}
    /// The group of each row.
    explicit sampling_units(std::vector<std::int64_t> groups);

    [[nodiscard]] bool grouped() const noexcept { return !groups_.empty(); }
    /// How many are independent of each other.
    [[nodiscard]] std::size_t units() const noexcept { return units_; }
    [[nodiscard]] std::size_t samples() const noexcept { return samples_; }
    [[nodiscard]] std::vector<std::int64_t> const& groups() const noexcept { return groups_; }

    /// The mean of `values`, one per row, with its interval: by the bootstrap (BCa) over the units; for more than a
    /// thousand units the normal interval, from the spread of the units. Ends are clamped to `least` and `most`.
    [[nodiscard]] interval mean(std::span<double const> values, double least, double most) const;

    /// How intervals are computed, as text: "by the bootstrap over 12 groups of rows". `what`: "rows" or "trees".
    [[nodiscard]] std::string description(std::string const& what) const;
    /// The same as JSON: {"method", "over", "units"}.
    [[nodiscard]] nlohmann::ordered_json json(std::string const& what) const;

private:
    std::size_t samples_;
    std::size_t units_;
    std::vector<std::int64_t> groups_;
};

/// The units of `samples` rows or trees: those of an array of group numbers, or if `groups` is empty each for itself.
/// Throws `std::runtime_error` naming the file when it has not one number for each.
[[nodiscard]] sampling_units read_units(std::filesystem::path const& groups, std::size_t samples,
                                        std::string const& what);

/// {"mean", "low", "high"}, null where there is none.
[[nodiscard]] nlohmann::ordered_json to_json(interval const& x);

/// All digits, for files; nothing for nothing.
[[nodiscard]] std::string digits(std::optional<double> x);

/// "0.8390 .. 0.8520", or nothing.
[[nodiscard]] std::string range_text(interval const& x);

/// "+0.0123 [+0.0100 .. +0.0150]": a difference, with its sign.
[[nodiscard]] std::string difference_text(interval const& x);

}  // namespace multidraft::examples
