// The exact law of a draw from one uniform: how many of the 2^53 uniforms give each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The uniforms of a draw are k * 2^-53 for k below this.
inline constexpr std::int64_t uniforms = std::int64_t{1} << 53;

/// Uniform number k.
[[nodiscard]] inline double uniform_at(std::int64_t k) { return static_cast<double>(k) * 0x1p-53; }

/// The smallest k in [low, high] with `holds(k)`, which is monotone and assumed true at `high`. The search starts at
/// `guess`.
template <class Holds>
[[nodiscard]] std::int64_t first_uniform(std::int64_t low, std::int64_t high, std::int64_t guess, Holds const& holds) {
    std::int64_t false_at = low - 1;
    std::int64_t true_at = high;
    std::int64_t at = guess < low ? low : guess;
    std::int64_t step = 1;
    while (false_at + 1 < true_at) {
        if (at >= true_at || at <= false_at) at = false_at + (true_at - false_at) / 2;
        if (holds(at)) {
            true_at = at;
            at -= step;
        } else {
            false_at = at;
            at += step;
        }
        if (step < high - low) step *= 2;
    }
    return true_at;
}

/// How many uniforms give each of n tokens. `draw(u)` must be nondecreasing in u. `weight(i)` is the expected weight of
/// token i; it only saves time, since every border is located exactly, between two neighbouring uniforms. Borders are
/// searched between chunks first, then between runs, then between tokens.
template <class Draw, class Weight>
[[nodiscard]] std::vector<std::int64_t> count_uniforms(index_t n, Draw const& draw, Weight const& weight) {
    std::vector<long double> before(static_cast<std::size_t>(n) + 1, 0.0L);  // sums of weights
    for (index_t i = 0; i < n; ++i)
        before[static_cast<std::size_t>(i) + 1] =
            before[static_cast<std::size_t>(i)] + static_cast<long double>(weight(i));
    std::vector<std::int64_t> from(static_cast<std::size_t>(n) + 1,
                                   0);  // the first uniform that gives i or a later one
    from.back() = uniforms;
    for (index_t width = n, finer = 4096; finer >= 1; width = finer, finer /= 16) {
        for (index_t begin = 0; begin < n; begin += width) {
            index_t const end = n - begin < width ? n : begin + width;
            auto const low = from[static_cast<std::size_t>(begin)];
            auto const high = from[static_cast<std::size_t>(end)];
            long double const mass = before[static_cast<std::size_t>(end)] - before[static_cast<std::size_t>(begin)];
            std::int64_t found = low;
            for (index_t i = begin + finer; i < end; i += finer) {
                auto const at = static_cast<std::size_t>(i);
                long double const share =
                    mass > 0 ? (before[at] - before[static_cast<std::size_t>(begin)]) / mass : 0.0L;
                auto const guess = low + static_cast<std::int64_t>(share * static_cast<long double>(high - low));
                found = first_uniform(found, high, guess, [&](std::int64_t k) { return draw(uniform_at(k)) >= i; });
                from[at] = found;
            }
        }
    }
    std::vector<std::int64_t> counts(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = from[i + 1] - from[i];
    return counts;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
