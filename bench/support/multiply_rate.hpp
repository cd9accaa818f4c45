// The rate of float multiply-adds of this machine's cores, with one thread or several: the baseline for a call of many
// rows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#include <immintrin.h>
#define MULTIDRAFT_BENCH_X86_64
#endif

namespace multidraft::bench {

namespace detail {

// As many independent sums as hide the time of one multiply-add in two pipes, and fit in the registers.
constexpr std::size_t sums = 12;

inline float add_products(std::int64_t rounds) {
    constexpr std::size_t lanes = 8;
    float sum[sums][lanes] = {};
    for (std::int64_t i = 0; i < rounds; ++i)
        for (auto& vector : sum)
            for (float& s : vector) s = std::fma(s, 0.5F, 1.F);
    float all = 0;
    for (auto const& vector : sum)
        for (float const s : vector) all += s;
    return all;
}

#ifdef MULTIDRAFT_BENCH_X86_64
// The same loop in vectors of that many bits. A template cannot have the instructions of its argument.
#define MULTIDRAFT_BENCH_ADD_PRODUCTS(name, instructions, bits)                    \
    __attribute__((target(instructions))) inline float name(std::int64_t rounds) { \
        __m##bits const half = _mm##bits##_set1_ps(0.5F);                          \
        __m##bits const one = _mm##bits##_set1_ps(1.F);                            \
        __m##bits sum[sums];                                                       \
        for (__m##bits & s : sum) s = _mm##bits##_setzero_ps();                    \
        for (std::int64_t i = 0; i < rounds; ++i)                                  \
            for (__m##bits & s : sum) s = _mm##bits##_fmadd_ps(s, half, one);      \
        float all = 0;                                                             \
        for (__m##bits const& s : sum) all += _mm##bits##_cvtss_f32(s);            \
        return all;                                                                \
    }
MULTIDRAFT_BENCH_ADD_PRODUCTS(add_products_avx2, "avx2,fma", 256)
MULTIDRAFT_BENCH_ADD_PRODUCTS(add_products_avx512, "avx512f", 512)
#undef MULTIDRAFT_BENCH_ADD_PRODUCTS
#endif

struct multiply_loop {
    float (*function)(std::int64_t);
    double multiply_adds_a_round;
};

inline multiply_loop choose_multiply_loop() {
#ifdef MULTIDRAFT_BENCH_X86_64
    if (__builtin_cpu_supports("avx512f") != 0) return {add_products_avx512, 16. * sums};
    if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
        return {add_products_avx2, 8. * sums};
#endif
    return {add_products, 8. * sums};
}

}  // namespace detail

/// Multiply-adds of floats per second that `threads` threads do together, in registers alone: the best of several
/// tries, measured once for each number of threads.
inline double multiply_rate(int threads) {
    static std::map<int, double> known;
    if (auto const found = known.find(threads); found != known.end()) return found->second;
    constexpr std::int64_t rounds = 2'000'000;
    auto const [function, multiply_adds] = detail::choose_multiply_loop();
    double best = 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
        std::vector<float> results(static_cast<std::size_t>(threads));
        std::vector<std::thread> others;
        auto const begin = std::chrono::steady_clock::now();
        auto const run = [&](std::size_t t) { results[t] = function(rounds); };
        for (std::size_t t = 1; t < results.size(); ++t) others.emplace_back(run, t);
        run(0);
        for (std::thread& other : others) other.join();
        double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        // Using the results keeps the loops from being removed.
        if (*std::ranges::max_element(results) > 0)
            best = std::max(best, multiply_adds * static_cast<double>(rounds) * threads / seconds);
    }
    return known[threads] = best;
}

}  // namespace multidraft::bench
