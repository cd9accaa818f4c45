// The rate at which this machine reads uncached memory, with one thread or several: the baseline for a call of a large
// model.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::bench {

/// A sum over the numbers, prefetching `ahead` bytes.
inline std::uint64_t sum_of(std::span<std::uint64_t const> numbers, std::size_t ahead) {
    constexpr std::size_t line = 8;
    std::uint64_t lane[2 * line] = {};
    for (std::size_t i = 0; i + 2 * line <= numbers.size(); i += 2 * line) {
#if defined(__GNUC__)
        auto const* const next = reinterpret_cast<char const*>(numbers.data() + i) + ahead;
        __builtin_prefetch(next, 0, 2);
        __builtin_prefetch(next + line * sizeof(std::uint64_t), 0, 2);
#endif
        for (std::size_t l = 0; l < 2 * line; ++l) lane[l] += numbers[i + l];
    }
    std::uint64_t sum = 0;
    for (std::uint64_t const l : lane) sum += l;
    return sum;
}

/// Bytes per second that `threads` threads together read from 256 MiB: the best of several tries and of several
/// methods, measured once for each number of threads.
inline double memory_rate(int threads) {
    static std::map<int, double> known;
    if (auto const found = known.find(threads); found != known.end()) return found->second;
    std::vector<std::uint64_t> const numbers(std::size_t{1} << 25, 1);
    std::size_t const share = numbers.size() / static_cast<std::size_t>(threads);
    double best = 0;
    for (int round = 0; round < 20; ++round)
        for (std::size_t const ahead : {std::size_t{0}, std::size_t{4096}, std::size_t{16384}}) {
            std::vector<std::uint64_t> sums(static_cast<std::size_t>(threads));
            std::vector<std::thread> others;
            auto const begin = std::chrono::steady_clock::now();
            auto const read = [&](std::size_t t) {
                sums[t] = sum_of(std::span(numbers).subspan(t * share, share), ahead);
            };
            for (std::size_t t = 1; t < sums.size(); ++t) others.emplace_back(read, t);
            read(0);
            for (std::thread& other : others) other.join();
            double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            // Using the sums keeps the loops from being removed.
            std::uint64_t total = 0;
            for (std::uint64_t const s : sums) total += s;
            if (total != 0)
                best = std::max(best, static_cast<double>(share * sums.size() * sizeof(std::uint64_t)) / seconds);
        }
    return known[threads] = best;
}

}  // namespace multidraft::bench
