// The example transformer: one forward call after a context of 128 tokens, by the number of rows, and after longer ones
// with keys and values in floats and in halves; and the products of the matrices of a model of the sizes of
// SmolLM2-135M, with weights of every type.
//
// Besides the shipped models, those in the directories that MULTIDRAFT_BENCH_MODELS names, with colons between them:
// for example what models/train/pad.py makes. Counters: `weights` is the rate at which the call reads its weights,
// `memory` the rate at which this machine reads memory beyond every cache in the model's number of threads, measured in
// the same run, and `slower` how many times as long the call takes as reading its weights once from there. A small
// model's weights stay in a cache, so that `slower` may be below 1. `multiplies` is the rate of the call's
// multiply-adds (parameters times rows), and `of_peak` this as a part of what the same threads do in registers
// (bench/roofline).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "support/memory_rate.hpp"
#include "support/multiply_rate.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/linear.hpp"
#include "transformer/team.hpp"
#include "transformer/tensor_view.hpp"
#include "transformer/transformer.hpp"

namespace {

using multidraft::token_batch;
using multidraft::token_id;
using multidraft::examples::aligned_array;
using multidraft::examples::cache_precision;
using multidraft::examples::linear;
using multidraft::examples::linear_maker;
using multidraft::examples::multiplier;
using multidraft::examples::precision;
using multidraft::examples::team;
using multidraft::examples::tensor_type;
using multidraft::examples::tensor_view;
using multidraft::examples::transformer;
using multidraft::examples::transformer_options;
using multidraft::examples::transformer_weights;

constexpr std::int32_t usual_context = 128;
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
    return numbers == precision::bf16      ? " bf16"
           : numbers == precision::f32     ? " f32"
           : numbers == precision::stored  ? " stored"
           : numbers == precision::stored8 ? " stored8"
           : numbers == precision::q8_0    ? " q8_0"
                                           : " int8";
}

/// One model at a time stays loaded: large ones would not all fit.
std::shared_ptr<transformer_weights const> load(std::int64_t model, std::int64_t threads, precision numbers,
                                                multiplier by, cache_precision cache = cache_precision::automatic) {
    static std::tuple<std::int64_t, std::int64_t, precision, multiplier, cache_precision> which;
    static std::shared_ptr<transformer_weights const> loaded;
    std::tuple const wanted{model, threads, numbers, by, cache};
    if (loaded == nullptr || which != wanted) {
        loaded.reset();
        transformer_options options;
        options.threads = static_cast<int>(threads);
        options.numbers = numbers;
        options.by = by;
        options.cache = cache;
        loaded = std::make_shared<transformer_weights const>(models()[static_cast<std::size_t>(model)], options);
        which = wanted;
    }
    return loaded;
}

void forward_after(benchmark::State& state, std::shared_ptr<transformer_weights const> const& weights,
                   std::int32_t context) {
    transformer model(weights);
    auto const rows = static_cast<std::size_t>(state.range(1));
    std::vector<token_id> tokens(static_cast<std::size_t>(context));
    std::vector<std::int32_t> positions(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<token_id>(3 + (i * 2654435761U) % 4000);
        positions[i] = static_cast<std::int32_t>(i);
    }
    model.forward({tokens, positions, 0, {}}, {});
    for (std::int32_t& position : positions) position += context;
    token_batch const batch{std::span(tokens).first(rows), std::span(positions).first(rows), context, {}};
    std::vector<float> logits(rows * static_cast<std::size_t>(model.vocabulary()));
    // Not counted: among the first calls the model tries other numbers of threads, later in one of 16 to 256.
    for (int i = 0; i < 3; ++i) {
        model.forward(batch, logits);
        model.keep(context, {});
    }
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
    double const multiplies = static_cast<double>(weights->parameters()) * static_cast<double>(rows) * calls;
    state.counters["multiplies"] = Counter(multiplies, Counter::kIsRate, Counter::kIs1000);
    state.counters["of_peak"] =
        Counter(multiplies / multidraft::bench::multiply_rate(weights->threads()), Counter::kIsRate);
}

void forward(benchmark::State& state, precision numbers, multiplier by) {
    forward_after(state, load(state.range(0), state.range(2), numbers, by), usual_context);
}

/// After a long text, whose keys and values every call reads.
void long_text(benchmark::State& state, cache_precision cache) {
    auto const context = static_cast<std::int32_t>(state.range(2));
    auto const weights = load(state.range(0), 0, precision::automatic, multiplier::automatic, cache);
    if (context + state.range(1) > weights->context_limit()) return state.SkipWithError("beyond the model's positions");
    forward_after(state, weights, context);
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

// --- Products alone --------------------------------------------------------------------------------------------------

struct matrix_size {
    char const* name;
    std::int32_t inputs, outputs, copies;  ///< copies: in a step
};
constexpr matrix_size step_matrices[] = {{"qkv", 576, 960, 30},
                                         {"out", 576, 576, 30},
                                         {"gate_up", 576, 3072, 30},
                                         {"down", 1536, 576, 30},
                                         {"head", 576, 49152, 1}};
constexpr std::int64_t whole_step = std::size(step_matrices);

/// Some numbers of a type: any integers, and scales of about 2^-7.
std::vector<std::byte> some_weights(tensor_type type, std::size_t count) {
    std::size_t const blocks = count / multidraft::examples::block_numbers(type);
    std::size_t const bytes = multidraft::examples::block_bytes(type);
    std::vector<std::byte> all(blocks * bytes);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
    bool const in_blocks = bytes > 2;
    auto const high = static_cast<std::byte>(in_blocks ? 0x20 : 0x3c);  // of a half, of a bfloat16
    for (std::size_t b = 0; b < blocks; ++b) {
        all[b * bytes + 1] = high;
        if (type == tensor_type::q4_1) all[b * bytes + 3] = static_cast<std::byte>(0xac);
    }
    return all;
}

/// The matrices that are multiplied one after another: of a whole step, or copies of one that no cache holds together.
std::vector<std::unique_ptr<linear>> const& load(std::int64_t which, tensor_type type, precision numbers,
                                                 multiplier by) {
    static std::tuple<std::int64_t, tensor_type, precision, multiplier> what;
    static std::vector<std::unique_ptr<linear>> loaded;
    std::tuple const wanted{which, type, numbers, by};
    if (!loaded.empty() && what == wanted) return loaded;
    loaded.clear();
    what = wanted;
    team threads(1);
    linear_maker maker(numbers, by, std::size_t{1} << 28U, 64);
    for (std::int64_t m = 0; m < whole_step; ++m) {
        if (which != whole_step && which != m) continue;
        auto const [name, inputs, outputs, copies] = step_matrices[m];
        auto const bytes = some_weights(type, static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs));
        tensor_view const tensor{type, {outputs, inputs}, bytes};
        std::size_t all = 0;
        for (std::int32_t i = 0; which == whole_step ? i < copies : all < (std::size_t{64} << 20U); ++i) {
            loaded.push_back(maker.make({{&tensor, outputs}}, inputs, threads));
            all += loaded.back()->bytes();
        }
    }
    return loaded;
}

/// A product, or all of a step, in one thread.
void product(benchmark::State& state, tensor_type type, precision numbers, multiplier by) {
    std::int64_t const which = state.range(0);
    auto const& matrices = load(which, type, numbers, by);
    auto const rows = static_cast<std::int32_t>(state.range(1));
    auto const most = [&](auto const& size_of) {
        std::size_t all = 0;
        for (auto const& one : matrices) all = std::max(all, static_cast<std::size_t>(size_of(*one)));
        return all;
    };
    std::vector<float> const inputs(most([](linear const& l) { return l.inputs(); }) * static_cast<std::size_t>(rows),
                                    0.5F);
    std::vector<float> output(most([](linear const& l) { return l.outputs(); }) * static_cast<std::size_t>(rows));
    aligned_array<std::byte> const workspace(most([&](linear const& l) { return l.workspace_bytes(rows); }));
    team threads(1);
    std::size_t next = 0;
    auto const multiply = [&](linear const& by_it) {
        by_it.multiply(threads, 1, inputs.data(), rows, output.data(), workspace.data());
        benchmark::DoNotOptimize(output.data());
    };
    for (auto _ : state) {
        if (which == whole_step) {
            for (auto const& one : matrices) multiply(*one);
        } else {
            multiply(*matrices[next]);
            next = (next + 1) % matrices.size();
        }
    }
    std::size_t bytes = 0;
    for (auto const& one : matrices) bytes += one->bytes();
    if (which != whole_step) bytes = matrices.front()->bytes();
    state.SetLabel(std::string(which == whole_step ? "step" : step_matrices[which].name) + ": " +
                   matrices.front()->description());
    state.counters["bytes"] = static_cast<double>(bytes);
    state.counters["weights"] = benchmark::Counter(static_cast<double>(bytes) * static_cast<double>(state.iterations()),
                                                   benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
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
                ->ArgsProduct({{m}, {1, 2, 4, 7, 8, 16, 32, 64}, {0, 1}})
                ->Unit(benchmark::kMicrosecond)
                ->UseRealTime()
                ->ComputeStatistics("least", least);
    };
    add("forward/automatic", precision::automatic, multiplier::automatic, all);
    add("forward/f32", precision::f32, multiplier::automatic, all);
    // The baseline, and the option that halves the bytes of large models.
    add("forward/onednn", precision::automatic, multiplier::onednn, all);
    add("forward/int8", precision::int8, multiplier::automatic, more);
    auto const add_long = [&](char const* name, cache_precision cache) {
        for (std::int64_t m = 0; m < count; ++m)
            if (m == 0 || m >= shipped)
                benchmark::RegisterBenchmark(name, long_text, cache)
                    ->ArgNames({"model", "rows", "context"})
                    ->ArgsProduct({{m}, {1, 7}, {256, 1024, 2000}})
                    ->Unit(benchmark::kMicrosecond)
                    ->UseRealTime()
                    ->ComputeStatistics("least", least);
    };
    add_long("long_text/floats", cache_precision::f32);
    add_long("long_text/halves", cache_precision::f16);
    auto const add_products = [](char const* name, tensor_type type, precision numbers, multiplier by) {
        for (std::int64_t m = 0; m <= whole_step; ++m)
            benchmark::RegisterBenchmark(name, product, type, numbers, by)
                ->ArgNames({"matrix", "rows"})
                ->ArgsProduct({{m}, {1, 2, 4, 7, 8, 16, 32, 64}})
                ->Unit(benchmark::kMicrosecond)
                ->ComputeStatistics("least", least);
    };
    add_products("product/bf16", tensor_type::bf16, precision::bf16, multiplier::ours);
    add_products("product/int8", tensor_type::bf16, precision::int8, multiplier::ours);
    add_products("product/q8_0", tensor_type::q8_0, precision::stored, multiplier::ours);
    add_products("product/q4_1", tensor_type::q4_1, precision::stored, multiplier::ours);
    add_products("product/q8_0_inputs8", tensor_type::q8_0, precision::stored8, multiplier::ours);
    add_products("product/q4_1_inputs8", tensor_type::q4_1, precision::stored8, multiplier::ours);
    add_products("product/f32_onednn", tensor_type::bf16, precision::f32, multiplier::onednn);
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
