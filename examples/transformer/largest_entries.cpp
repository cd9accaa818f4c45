#include "transformer/largest_entries.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

// The place of a float among all, which rises with it.
std::int64_t rank_of(float x) noexcept {
    auto const bits = std::bit_cast<std::int32_t>(x);
    return bits < 0 ? std::numeric_limits<std::int32_t>::min() - std::int64_t{bits} : bits;
}
float with_rank(std::int64_t rank) noexcept {
    std::int64_t const bits = rank < 0 ? std::numeric_limits<std::int32_t>::min() - rank : rank;
    return std::bit_cast<float>(static_cast<std::int32_t>(bits));
}

/// A bound that `least` to `most` of some numbers are not less than; where equal ones leave no such bound, the
/// `least`-th largest. The floats are halved until it is found: counting is all that the numbers are read for.
float bound_of(std::span<float const> numbers, std::size_t least, std::size_t most) {
    std::int64_t low = rank_of(-std::numeric_limits<float>::infinity());
    std::int64_t high = rank_of(std::numeric_limits<float>::infinity());
    while (low < high) {
        std::int64_t const middle = (low + high + 1) >> 1;
        std::size_t const count = kernels::count_from(numbers, with_rank(middle));
        if (count < least) {
            high = middle - 1;
        } else {
            low = middle;
            if (count <= most) break;
        }
    }
    return with_rank(low);
}

}  // namespace

// Of as many sets of entries as are wanted, or more, each maximum is an entry: so many are as large as the least of the
// largest maxima, and little else is.
largest_entries::list largest_entries::find(std::span<float const> row, std::size_t count) {
    constexpr std::size_t block = kernels::lanes;
    maxima_.resize(std::min(row.size(), (4 * count + block - 1) / block * block));
    if (!kernels::maxima(row, maxima_)) {
        auto const first = std::ranges::find_if(row, [](float x) { return x != x; });
        return {{}, static_cast<std::int32_t>(first - row.begin())};
    }
    if (places_.size() < row.size() + block) {
        places_.resize(row.size() + block);
        values_.resize(row.size() + block);
    }
    float const bound = bound_of(maxima_, count, count + count / 8);
    std::size_t const found = kernels::collect_from(row, bound, places_.data(), values_.data());
    auto const values = std::span<float const>(values_).first(found);
    float const least = bound_of(values, count, count);
    auto equal = static_cast<std::ptrdiff_t>(count) - std::ranges::count_if(values, [&](float x) { return x > least; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found; ++i) {
        places_[kept] = places_[i];
        bool const tied = values[i] == least;
        kept += values[i] > least || (tied && equal > 0) ? 1 : 0;
        equal -= tied ? 1 : 0;
    }
    return {std::span<std::int32_t const>(places_).first(kept)};
}

}  // namespace multidraft::examples
