// The example transformer: one forward call after a context of 128 tokens, by the number of rows.
//
// Besides the shipped models, those in the directories that MULTIDRAFT_BENCH_MODELS names, with colons between them:
// for example what models/train/pad.py makes. Counters: `weights` is the rate at which the call reads its weights,
// `memory` the rate at which this machine reads memory beyond every cache in the model's number of threads, measured in
// the same run, and `slower` how many times as long the call takes as reading its weights once from there. A small
// model's weights stay in a cache, so that `slower` may be below 1.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "support/memory_rate.hpp"
#include "transformer/transformer.hpp"

namespace {

using multidraft::token_batch;
using multidraft::token_id;
using multidraft::examples::multiplier;
using multidraft::examples::precision;
using multidraft::examples::transformer;
using multidraft::examples::transformer_options;
using multidraft::examples::transformer_weights;

constexpr std::int32_t context = 128;
constexpr std::int64_t shipped = 3;

std::vector<std::filesystem::path> find_models() {
    std::filesystem::path const directory = MULTIDRAFT_MODELS_DIR;
    std::vector<std::filesystem::path> found{directory / "target", directory / "draft", directory / "draft-tiny"};
    if (char const* const more = std::getenv("MULTIDRAFT_BENCH_MODELS"); more != nullptr) {
        std::istringstream names(more);
        for (std::string name; std::getline(names, name, ':');)
            if (!name.empty()) found.emplace_back(name);
    }
    return found;
}

std::vector<std::filesystem::path> const& models() {
    static std::vector<std::filesystem::path> const found = find_models();
    return found;
}

std::string name_of(std::int64_t model) { return models()[static_cast<std::size_t>(model)].filename().string(); }

char const* name_of(precision numbers) {
    return numbers == precision::bf16 ? " bf16" : numbers == precision::f32 ? " f32" : " int8";
}

/// One model at a time stays loaded: large ones would not all fit.
std::shared_ptr<transformer_weights const> load(std::int64_t model, std::int64_t threads, precision numbers,
                                                multiplier by) {
    static std::tuple<std::int64_t, std::int64_t, precision, multiplier> which;
    static std::shared_ptr<transformer_weights const> loaded;
    std::tuple const wanted{model, threads, numbers, by};
    if (loaded == nullptr || which != wanted) {
        loaded.reset();
        transformer_options options;
        options.threads = static_cast<int>(threads);
        options.numbers = numbers;
        options.by = by;
        loaded = std::make_shared<transformer_weights const>(models()[static_cast<std::size_t>(model)], options);
        which = wanted;
    }
    return loaded;
}

void forward(benchmark::State& state, precision numbers, multiplier by) {
    auto const weights = load(state.range(0), state.range(2), numbers, by);
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
    state.SetLabel(name_of(state.range(0)) + name_of(weights->numbers()) + ", threads " +
                   std::to_string(weights->threads()));
    using benchmark::Counter;
    auto const bytes = static_cast<double>(weights->bytes_per_step());
    auto const calls = static_cast<double>(state.iterations());
    double const memory = multidraft::bench::memory_rate(weights->threads());
    state.counters["weights"] = Counter(bytes * calls, Counter::kIsRate, Counter::kIs1000);
    state.counters["memory"] = Counter(memory, Counter::kDefaults, Counter::kIs1000);
    // Seconds per call, divided by the seconds of reading.
    state.counters["slower"] = Counter(calls * bytes / memory, Counter::kIsRate | Counter::kInvert);
}

/// Tokens per second of a prompt whose last logits only are needed.
void prompt(benchmark::State& state) {
    transformer model(load(state.range(0), 0, precision::automatic, multiplier::automatic));
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
    state.SetLabel(name_of(state.range(0)));
}

/// From a directory to a model that can be called.
void loading(benchmark::State& state) {
    (void)load(0, 1, precision::automatic, multiplier::automatic);  // nothing large stays from before
    for (auto _ : state) {
        transformer_weights const weights(models()[static_cast<std::size_t>(state.range(0))]);
        benchmark::DoNotOptimize(weights.parameters());
    }
    state.SetLabel(name_of(state.range(0)));
}

double least(std::vector<double> const& values) { return *std::ranges::min_element(values); }

void register_all() {
    auto const count = static_cast<std::int64_t>(models().size());
    std::vector<std::int64_t> all;
    for (std::int64_t m = 0; m < count; ++m) all.push_back(m);
    std::vector<std::int64_t> const more(all.begin() + shipped, all.end());
    auto const add = [](char const* name, precision numbers, multiplier by, std::vector<std::int64_t> const& of) {
        // threads: 0 is the model's own choice.
        for (std::int64_t const m : of)
            benchmark::RegisterBenchmark(name, forward, numbers, by)
                ->ArgNames({"model", "rows", "threads"})
                ->ArgsProduct({{m}, {1, 2, 4, 8, 16, 32, 64}, {0, 1}})
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime()
                ->ComputeStatistics("least", least);
    };
    add("forward/automatic", precision::automatic, multiplier::automatic, all);
    add("forward/f32", precision::f32, multiplier::automatic, all);
    // The baseline for the kernels for large models, and the option that halves their bytes.
    add("forward/int8", precision::int8, multiplier::automatic, more);
    add("forward/onednn", precision::automatic, multiplier::onednn, more);
    for (std::int64_t m = 0; m < count; ++m) {
        if (m < 2 || m >= shipped)
            benchmark::RegisterBenchmark("prompt", prompt)
                ->ArgNames({"model", "length"})
                ->ArgsProduct({{m}, {128, 512}})
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime();
        benchmark::RegisterBenchmark("loading", loading)
            ->ArgName("model")
            ->Arg(m)
            ->Unit(benchmark::kMillisecond)
            ->Iterations(3)
            ->UseRealTime();
    }
}

}  // namespace

int main(int argc, char** argv) {
    register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
