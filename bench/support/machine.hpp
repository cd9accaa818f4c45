// The machine's read bandwidth, with which rates are compared.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace multidraft::bench {

/// Bytes per second at which one thread repeatedly reads `bytes` of memory: the best of several tries, measured once
/// for each size. Rows are compared with the bandwidth at their own size, since a row of 128,256 floats is in a cache
/// and not in memory.
inline double read_bandwidth(std::int64_t bytes) {
    struct known {
        std::int64_t bytes;
        double rate;
    };
    static std::vector<known> measured;
    for (auto const& k : measured)
        if (k.bytes == bytes) return k.rate;
    std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float) / 64 * 64 + 64, 1.0F);
    double best = 0;
    for (int repeat = 0; repeat < 20; ++repeat) {
        auto const passes = std::max<std::int64_t>(1, (std::int64_t(1) << 24) / bytes);
        auto const begin = std::chrono::steady_clock::now();
        for (std::int64_t k = 0; k < passes; ++k) {
            float lane[64] = {};
            for (std::size_t i = 0; i < data.size(); i += 64)
                for (std::size_t l = 0; l < 64; ++l) lane[l] += data[i + l];
            benchmark::DoNotOptimize(lane);
        }
        double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        best = std::max(best, static_cast<double>(data.size() * sizeof(float)) * static_cast<double>(passes) / seconds);
    }
    measured.push_back({bytes, best});
    return best;
}

/// Reports the bytes read per iteration, and the fraction of the measured read bandwidth at that size.
inline void report_bytes(benchmark::State& state, std::int64_t bytes) {
    state.SetBytesProcessed(state.iterations() * bytes);
    double const rate = read_bandwidth(bytes);
    state.counters["machine_read"] =
        benchmark::Counter(rate, benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
    state.counters["of_machine"] =
        benchmark::Counter(static_cast<double>(bytes) / rate, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace multidraft::bench
