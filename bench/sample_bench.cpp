// Samplers and logits processing over one row of logits, beside the library's own softmax pass.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/machine.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;
using bench::report_bytes;

/// Softmax written out: the pass that engines make today, and the baseline of the samplers.
void softmax_written(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    std::vector<float> out(static_cast<std::size_t>(v));
    for (auto _ : state) {
        auto row = process_logits(g, row_view<float>(r.target_logits.data(), v), sampling_params{}).row;
        for (index_t i = 0; i < v; ++i) out[static_cast<std::size_t>(i)] = row(i);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    report_bytes(state, state.range(0) * 4);
}

/// The normaliser alone: one pass over the logits, nothing written.
void softmax_normaliser(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    for (auto _ : state) {
        auto row = process_logits(g, row_view<float>(r.target_logits.data(), v), sampling_params{});
        benchmark::DoNotOptimize(row);
    }
    report_bytes(state, state.range(0) * 4);
}

/// From logits to n children: normaliser and draws together.
template <class Sampler>
void draw(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    std::vector<token_id> out(static_cast<std::size_t>(state.range(1)));
    std::int32_t position = 0;
    for (auto _ : state) {
        auto q = process_logits(g, row_view<float>(r.target_logits.data(), v), sampling_params{});
        auto const drawn = Sampler{}(g, q.row, q.sums, source, draw_site{position++, 0}, out);
        benchmark::DoNotOptimize(drawn);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    report_bytes(state, state.range(0) * 4);
}

void logits_processing(benchmark::State& state, sampling_params const& w) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    for (auto _ : state) {
        auto row = process_logits(g, row_view<float>(r.target_logits.data(), v), w);
        benchmark::DoNotOptimize(row);
    }
    report_bytes(state, state.range(0) * 4);
}

/// A mask that allows that many of a thousand tokens, spread at random: a word rarely has all bits equal.
std::vector<std::uint32_t> mask_of(index_t v, std::int64_t allowed_of_1000) {
    testing::test_numbers numbers(1);
    std::vector<std::uint32_t> words(static_cast<std::size_t>((v + 31) / 32));
    for (index_t i = 0; i < v; ++i)
        if (i == 0 || numbers() * 1000 < static_cast<double>(allowed_of_1000))
            words[static_cast<std::size_t>(i / 32)] |= 1U << i % 32;
    return words;
}

/// A view without runs, as an engine might write it: tests the bit of each token.
struct own_view {
    using real = float;
    row_view<float> row;
    std::uint32_t const* words;
    [[nodiscard]] index_t size() const noexcept { return row.size(); }
    [[nodiscard]] float operator()(index_t i) const noexcept {
        return (words[i / 32] >> i % 32 & 1U) != 0 ? row(i) : minus_infinity<float>;
    }
};

template <class View>
void normalise(benchmark::State& state, View const& view) {
    host_group const g;
    for (auto _ : state) {
        auto row = process_logits(g, view, sampling_params{});
        benchmark::DoNotOptimize(row);
    }
    report_bytes(state, state.range(0) * 4);
}

/// The normaliser of a row with a grammar mask.
void mask(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    auto const words = mask_of(v, state.range(1));
    normalise(state, adjusted_view(row_view<float>(r.target_logits.data(), v), token_mask(words)));
}
void mask_of_ones_own(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    auto const words = mask_of(v, state.range(1));
    normalise(state, own_view{row_view<float>(r.target_logits.data(), v), words.data()});
}
/// The normaliser of a row with a bias of that many tokens, equally spaced.
void bias(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    std::vector<token_id> tokens;
    for (std::int64_t k = 0; k < state.range(1); ++k) tokens.push_back(static_cast<token_id>(k * v / state.range(1)));
    std::vector<float> const values(tokens.size(), -0.5F);
    normalise(state,
              adjusted_view(row_view<float>(r.target_logits.data(), v), token_mask(), logit_bias{tokens, values}));
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_pairs(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Args({v, 2});
    b->ArgNames({"V", "children"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_children(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Args({v, 4});
    b->ArgNames({"V", "children"})->Unit(benchmark::kMicrosecond);
}

void vocabularies_and_masks(benchmark::internal::Benchmark* b) {
    for (int v : {32000, 128256})
        for (int allowed : {1, 500, 990, 1000}) b->Args({v, allowed});
    b->ArgNames({"V", "allowed_of_1000"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_biases(benchmark::internal::Benchmark* b) {
    for (int v : {32000, 128256})
        for (int tokens : {10, 300, 3000}) b->Args({v, tokens});
    b->ArgNames({"V", "tokens"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(softmax_written)->Apply(vocabularies);
BENCHMARK(softmax_normaliser)->Apply(vocabularies);
BENCHMARK(draw<draft::iid>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::sequential>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::gumbel_top_k>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::stratified>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::top_n>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::top_then_one>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::top_paired>)->Apply(vocabularies_and_pairs);
BENCHMARK(draw<draft::conditional_poisson>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::shared_randomness>)->Apply(vocabularies_and_children);
BENCHMARK_CAPTURE(logits_processing, greedy, sampling_params{.temperature = 0.0F})->Apply(vocabularies);
BENCHMARK_CAPTURE(logits_processing, top_k_50, sampling_params{.top_k = 50})->Apply(vocabularies);
BENCHMARK_CAPTURE(logits_processing, top_p_0_9, sampling_params{.top_p = 0.9F})->Apply(vocabularies);
BENCHMARK_CAPTURE(logits_processing, top_p_0_9_of_few_tokens, sampling_params{.temperature = 0.2F, .top_p = 0.9F})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(logits_processing, top_k_20_top_p_0_8,
                  sampling_params{.temperature = 0.7F, .top_k = 20, .top_p = 0.8F})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(logits_processing, min_p_0_05, sampling_params{.min_p = 0.05F})->Apply(vocabularies);

BENCHMARK(mask)->Apply(vocabularies_and_masks);
BENCHMARK(mask_of_ones_own)->Apply(vocabularies_and_masks);
BENCHMARK(bias)->Apply(vocabularies_and_biases);

}  // namespace

BENCHMARK_MAIN();
