// Samplers and warps over one row of logits, beside the library's own softmax pass.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/random/source.hpp"
#include "support/machine.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;
using bench::report_bytes;

/// Softmax written out: the pass that engines make today, and the yardstick of the samplers.
void softmax_written(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    std::vector<float> out(static_cast<std::size_t>(v));
    for (auto _ : state) {
        auto row = warped(g, row_view<float>(r.target_logits.data(), v), warp{}).row;
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
        auto row = warped(g, row_view<float>(r.target_logits.data(), v), warp{});
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
        auto q = warped(g, row_view<float>(r.target_logits.data(), v), warp{});
        auto const drawn = Sampler{}(g, q.row, q.weights, source, place{position++, 0}, out);
        benchmark::DoNotOptimize(drawn);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    report_bytes(state, state.range(0) * 4);
}

void warping(benchmark::State& state, warp const& w) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    for (auto _ : state) {
        auto row = warped(g, row_view<float>(r.target_logits.data(), v), w);
        benchmark::DoNotOptimize(row);
    }
    report_bytes(state, state.range(0) * 4);
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_children(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Args({v, 4});
    b->ArgNames({"V", "children"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(softmax_written)->Apply(vocabularies);
BENCHMARK(softmax_normaliser)->Apply(vocabularies);
BENCHMARK(draw<draft::iid>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::sequential>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::gumbel_top_k>)->Apply(vocabularies_and_children);
BENCHMARK(draw<draft::top_n>)->Apply(vocabularies_and_children);
BENCHMARK_CAPTURE(warping, greedy, warp{.temperature = 0.0F})->Apply(vocabularies);
BENCHMARK_CAPTURE(warping, top_k_50, warp{.top_k = 50})->Apply(vocabularies);
BENCHMARK_CAPTURE(warping, top_p_0_9, warp{.top_p = 0.9F})->Apply(vocabularies);
BENCHMARK_CAPTURE(warping, top_k_20_top_p_0_8, warp{.temperature = 0.7F, .top_k = 20, .top_p = 0.8F})
    ->Apply(vocabularies);
BENCHMARK_CAPTURE(warping, min_p_0_05, warp{.min_p = 0.05F})->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
