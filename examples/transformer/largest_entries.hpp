// The largest entries of a row, in the order of their places.
#pragma once

#include <cstddef>
#include <cstdint>
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
    [[nodiscard]] list find(std::span<float const> row, std::size_t count);

private:
    std::vector<float> maxima_, values_;
    std::vector<std::int32_t> places_;
};

}  // namespace multidraft::examples
