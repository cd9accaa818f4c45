// The library's share of a decoding step: drawing a tree, its mask, its verification, with models that cost only a
// copy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

/// A model whose logits are one of 64 rows, chosen by the token; the time of its calls is the time of copying them.
class copying_model {
public:
    copying_model(std::vector<float> const& rows, index_t vocabulary) : rows_(rows), vocabulary_(vocabulary) {}

    [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const { return 1 << 30; }
    [[nodiscard]] std::int32_t length() const { return length_; }
    void forward(token_batch const& batch, std::span<float> logits) {
        length_ += static_cast<std::int32_t>(batch.tokens.size());
        auto const v = static_cast<std::size_t>(vocabulary_);
        std::size_t const first = batch.tokens.size() - logits.size() / v;
        for (std::size_t r = 0; r * v < logits.size(); ++r)
            std::memcpy(logits.data() + r * v,
                        rows_.data() + static_cast<std::size_t>(batch.tokens[first + r] % 64) * v, v * sizeof(float));
    }
    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        length_ = context + static_cast<std::int32_t>(entries.size());
    }

private:
    std::vector<float> const& rows_;
    std::int32_t vocabulary_;
    std::int32_t length_ = 0;
};

template <class Sampler, class Verifier>
void step(benchmark::State& state, std::initializer_list<std::int32_t> tree) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(64, v);
    copying_model target(r.target_logits, v);
    copying_model draft(r.draft_logits, v);
    topology const shape = branching(tree);
    auto loop = make_speculative<Sampler, Verifier>(target, draft, shape);
    generation_options options;
    options.max_tokens = 64;
    std::vector<token_id> const prompt{1};
    generation_metrics sum;
    for (auto _ : state) {
        ++options.seed;
        auto const g = loop(prompt, options);
        sum += g.metrics;
        state.SetIterationTime(g.metrics.time.sample + g.metrics.time.mask + g.metrics.time.verify);
    }
    auto const steps = static_cast<double>(sum.target_calls);
    state.counters["nodes"] = shape.size();
    state.counters["depth"] = shape.max_depth();
    state.counters["us_a_step"] = 1e6 * (sum.time.sample + sum.time.mask + sum.time.verify) / steps;
    state.counters["us_sample"] = 1e6 * sum.time.sample / steps;
    state.counters["us_mask"] = 1e6 * sum.time.mask / steps;
    state.counters["us_verify"] = 1e6 * sum.time.verify / steps;
    state.counters["block_efficiency"] = sum.block_efficiency();
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond)->UseManualTime();
}

void sequential(benchmark::State& state, std::initializer_list<std::int32_t> tree) {
    step<draft::sequential, verify::recursive_rejection<law::sequential>>(state, tree);
}
void iid(benchmark::State& state, std::initializer_list<std::int32_t> tree) {
    step<draft::iid, verify::recursive_rejection<law::iid>>(state, tree);
}
void top_n(benchmark::State& state, std::initializer_list<std::int32_t> tree) {
    step<draft::top_n, verify::naive<law::deterministic>>(state, tree);
}

BENCHMARK_CAPTURE(sequential, 4x2x2x1, {4, 2, 2, 1})->Apply(vocabularies);
BENCHMARK_CAPTURE(sequential, chain_4, {1, 1, 1, 1})->Apply(vocabularies);
BENCHMARK_CAPTURE(iid, 4x2x2x1, {4, 2, 2, 1})->Apply(vocabularies);
BENCHMARK_CAPTURE(top_n, 4x2x2x1, {4, 2, 2, 1})->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
