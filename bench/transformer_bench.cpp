// The example transformer: one forward call after a context of 128 tokens, by the number of rows.
//
// Counters: `weights` is the rate at which the call reads its packed weights, `memory` this machine's rate for memory
// beyond every cache, with the model's number of threads. A small model's weights stay in the cache, so the former may
// exceed the latter.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/matmul.hpp"
#include "transformer/transformer.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace {

using multidraft::token_batch;
using multidraft::token_id;
using multidraft::examples::precision;
using multidraft::examples::transformer;
using multidraft::examples::transformer_options;
using multidraft::examples::transformer_weights;

constexpr char const* models[] = {"target", "draft", "draft-tiny"};
constexpr std::int32_t context = 128;

/// Bytes a second that `threads` threads read from 256 MiB: the best of five times.
double memory_rate(int threads) {
    static std::map<int, double> known;
    if (auto const found = known.find(threads); found != known.end()) return found->second;
    std::vector<std::uint64_t> const numbers(std::size_t{1} << 25, 1);
    auto const n = static_cast<std::int64_t>(numbers.size());
    multidraft::examples::thread_scope const scope(threads);
    double best = 0;
    for (int round = 0; round < 5; ++round) {
        auto const begin = std::chrono::steady_clock::now();
        std::uint64_t sum = 0;
#if defined(_OPENMP)
#pragma omp parallel for reduction(+ : sum) schedule(static)
#endif
        for (std::int64_t i = 0; i < n; ++i) sum += numbers[static_cast<std::size_t>(i)];
        benchmark::DoNotOptimize(sum);
        std::chrono::duration<double> const time = std::chrono::steady_clock::now() - begin;
        best = std::max(best, static_cast<double>(n) * sizeof(std::uint64_t) / time.count());
    }
    return known[threads] = best;
}

std::shared_ptr<transformer_weights const> load(std::int64_t model, std::int64_t threads, precision numbers) {
    static std::map<std::pair<std::int64_t, std::pair<std::int64_t, precision>>,
                    std::shared_ptr<transformer_weights const>>
        loaded;
    auto& entry = loaded[{model, {threads, numbers}}];
    if (!entry) {
        transformer_options options;
        options.threads = static_cast<int>(threads);
        options.numbers = numbers;
        entry = std::make_shared<transformer_weights const>(
            std::filesystem::path(MULTIDRAFT_MODELS_DIR) / models[model], options);
    }
    return entry;
}

void forward(benchmark::State& state, precision numbers) {
    auto const weights = load(state.range(0), state.range(2), numbers);
    transformer model(weights);
    auto const rows = static_cast<std::size_t>(state.range(1));
    std::vector<token_id> tokens(context);
    std::vector<std::int32_t> positions(context);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<token_id>(3 + (i * 2654435761U) % 4000);
        positions[i] = static_cast<std::int32_t>(i);
    }
    model.forward({tokens, positions, 0, {}}, {});
    for (std::int32_t& position : positions) position += context;
    token_batch const batch{std::span(tokens).first(rows), std::span(positions).first(rows), context, {}};
    std::vector<float> logits(rows * static_cast<std::size_t>(model.vocabulary()));
    for (auto _ : state) {
        model.forward(batch, logits);
        benchmark::DoNotOptimize(logits.data());
        model.keep(context, {});
    }
    state.SetLabel(std::string(models[state.range(0)]) + (weights->numbers() == precision::bf16 ? " bf16" : " f32") +
                   ", threads " + std::to_string(weights->threads()));
    state.counters["weights"] =
        benchmark::Counter(static_cast<double>(weights->bytes_per_step()) * static_cast<double>(state.iterations()),
                           benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
    state.counters["memory"] =
        benchmark::Counter(memory_rate(weights->threads()), benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
}

void sizes(benchmark::internal::Benchmark* b) {
    // threads: 0 is the model's own choice.
    b->ArgNames({"model", "rows", "threads"});
    b->ArgsProduct({{0, 1, 2}, {1, 2, 4, 8, 16, 32, 64}, {0, 1}});
    b->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK_CAPTURE(forward, automatic, precision::automatic)->Apply(sizes);
BENCHMARK_CAPTURE(forward, f32, precision::f32)->Apply(sizes);

/// Tokens a second of a prompt of which only the last logits are wanted.
void prompt(benchmark::State& state) {
    transformer model(load(state.range(0), 0, precision::automatic));
    auto const length = static_cast<std::size_t>(state.range(1));
    std::vector<token_id> const tokens(length, 7);
    std::vector<std::int32_t> positions(length);
    for (std::size_t i = 0; i < length; ++i) positions[i] = static_cast<std::int32_t>(i);
    std::vector<float> logits(static_cast<std::size_t>(model.vocabulary()));
    for (auto _ : state) {
        model.keep(0, {});
        model.forward({tokens, positions, 0, {}}, logits);
    }
    state.SetItemsProcessed(state.iterations() * state.range(1));
    state.SetLabel(models[state.range(0)]);
}
BENCHMARK(prompt)
    ->ArgNames({"model", "length"})
    ->ArgsProduct({{0, 1}, {128, 512}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

/// Reading, packing and the check of the matrix products.
void loading(benchmark::State& state) {
    for (auto _ : state) {
        transformer_weights const weights(std::filesystem::path(MULTIDRAFT_MODELS_DIR) / models[state.range(0)]);
        benchmark::DoNotOptimize(weights.parameters());
    }
    state.SetLabel(models[state.range(0)]);
}
BENCHMARK(loading)->ArgName("model")->DenseRange(0, 2)->Unit(benchmark::kMillisecond)->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
