// The largest entries of a row, in the order of their places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace multidraft::examples {

/// Finds them in two passes by vector units, and keeps its workspace. For one thread at a time.
class largest_entries {
public:
    /// A list of rising places, with so many entries as were asked for; or where the row has a NaN, none of them and
    /// the place of the first one.
    struct list {
        std::span<std::int32_t const> places;
        std::int32_t not_a_number = -1;
    };

    /// The `count` largest of a row of `count` or more; of equal ones the first. Valid until the next call. O(row).
    ///
    /// Of as many sets of entries as are wanted, or more, each maximum is an entry: so many are as large as the least
    /// of the largest maxima, and little else is.
    [[nodiscard]] list find(std::span<float const> row, std::size_t count) {
        std::size_t const sets = std::min(row.size(), (4 * count + block - 1) / block * block);
        maxima_.assign(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(sets));
        std::uint32_t faults = 0;
        for (std::size_t first = 0; first < row.size(); first += sets) {
            float const* const from = row.data() + first;
            std::size_t const here = std::min(sets, row.size() - first);
            for (std::size_t i = 0; i < here; ++i) {
                maxima_[i] = from[i] > maxima_[i] ? from[i] : maxima_[i];
                faults |= from[i] != from[i] ? 1U : 0U;
            }
        }
        if (faults != 0) {
            auto const first = std::ranges::find_if(row, [](float x) { return x != x; });
            return {{}, static_cast<std::int32_t>(first - row.begin())};
        }
        collect(row, nth(maxima_, count));
        values_.clear();
        for (std::int32_t const place : places_) values_.push_back(row[static_cast<std::size_t>(place)]);
        float const least = nth(values_, count);
        auto equal =
            static_cast<std::ptrdiff_t>(count) - std::ranges::count_if(values_, [&](float x) { return x > least; });
        std::erase_if(places_, [&](std::int32_t place) {
            float const x = row[static_cast<std::size_t>(place)];
            return x < least || (x == least && equal-- <= 0);
        });
        return {places_};
    }

private:
    static constexpr std::size_t block = 16;  ///< entries compared at a time

    /// The `count`-th largest of some numbers, whose order changes.
    static float nth(std::vector<float>& of, std::size_t count) {
        auto const last = of.begin() + static_cast<std::ptrdiff_t>(count - 1);
        std::nth_element(of.begin(), last, of.end(), std::greater<>());
        return *last;
    }
    /// The places of the entries that are not less.
    void collect(std::span<float const> row, float bound) {
        places_.clear();
        std::size_t const whole = row.size() / block * block;
        for (std::size_t first = 0; first < whole; first += block) {
            float const* const from = row.data() + first;
            std::uint32_t any = 0;
            for (std::size_t i = 0; i < block; ++i) any |= from[i] >= bound ? 1U : 0U;
            if (any != 0) add(row, first, first + block, bound);
        }
        add(row, whole, row.size(), bound);
    }
    void add(std::span<float const> row, std::size_t first, std::size_t end, float bound) {
        for (std::size_t i = first; i < end; ++i)
            if (row[i] >= bound) places_.push_back(static_cast<std::int32_t>(i));
    }

    std::vector<float> maxima_, values_;
    std::vector<std::int32_t> places_;
};

}  // namespace multidraft::examples
