// Ranked verification: the exact form beside one sort of the vocabulary, the binned form beside one rejection pass.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/binned_nested_ranked_block.hpp"
#include "multidraft/verify/binned_ranked.hpp"
#include "multidraft/verify/binned_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/scratch.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

constexpr int positions = 16;

/// Trees of one shape over one set of rows, drawn anew for each of 16 positions.
template <class Sampler>
struct drawn_trees {
    topology shape;
    bench::rows rows;
    std::vector<std::vector<token_id>> tokens;
    addressed_source source{addressed_uniforms(1)};

    drawn_trees(std::vector<index_t> const& levels, index_t v) : shape(branching(levels)), rows(shape.size(), v) {
        host_group const g;
        for (std::int32_t position = 0; position < positions; ++position) {
            std::vector<token_id> drawn(static_cast<std::size_t>(shape.size()), 0);
            for (node_id node = 0; node < shape.size(); ++node) {
                if (shape.child_count(node) == 0) continue;
                auto const q = draft()(g, node);
                auto sums = g.weigh(v, weight_of{q});
                Sampler{}(g, q, sums, source, place{position, node},
                          span<token_id>(drawn).subspan(static_cast<std::size_t>(shape.first_child(node)),
                                                        static_cast<std::size_t>(shape.child_count(node))));
            }
            tokens.push_back(std::move(drawn));
        }
    }
    [[nodiscard]] probability_rows<float> target() const { return {rows.target.data(), shape.size(), rows.size}; }
    [[nodiscard]] probability_rows<float> draft() const { return {rows.draft.data(), shape.size(), rows.size}; }
    /// Nodes with children: what a whole-tree verifier has to look at.
    [[nodiscard]] index_t inner() const {
        index_t count = 0;
        for (node_id node = 0; node < shape.size(); ++node) count += shape.child_count(node) > 0 ? 1 : 0;
        return count;
    }
};

/// Times one verdict; `us_an_inner_node` is what a row of nested trees costs.
template <class Verifier, class Sampler>
void verdict_of(benchmark::State& state, std::vector<index_t> const& levels) {
    drawn_trees<Sampler> trees(levels, static_cast<index_t>(state.range(0)));
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(trees.shape.size(), trees.shape.max_depth()));
    std::vector<node_id> path(16);
    host_group const g;
    std::int32_t position = 0;
    for (auto _ : state) {
        drafted<typename Sampler::law> const tree{
            tree_view{trees.shape.parents(), trees.tokens[static_cast<std::size_t>(position % positions)]}};
        verdict answer = verify::verify_tree(Verifier{}, g, tree, trees.target(), trees.draft(), trees.source, position,
                                             span<node_id>(path), span<std::byte>(scratch));
        ++position;
        benchmark::DoNotOptimize(answer);
    }
    state.counters["s_an_inner_node"] =
        benchmark::Counter(static_cast<double>(trees.inner()) * static_cast<double>(state.iterations()),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// The baseline of the exact form: the ratios of one row, sorted.
void sort_of_ratios(benchmark::State& state) {
    bench::rows const rows(1, static_cast<index_t>(state.range(0)));
    std::vector<double> ratios(rows.target.size());
    for (auto _ : state) {
        for (std::size_t i = 0; i < ratios.size(); ++i)
            ratios[i] = static_cast<double>(rows.target[i]) / static_cast<double>(rows.draft[i]);
        std::sort(ratios.begin(), ratios.end());
        benchmark::DoNotOptimize(ratios.data());
        benchmark::ClobberMemory();
    }
}

/// The baseline of the binned form: the mass of (p - q)+.
void rejection_pass(benchmark::State& state) {
    bench::rows const rows(1, static_cast<index_t>(state.range(0)));
    host_group const g;
    float const* p = rows.target.data();
    float const* q = rows.draft.data();
    for (auto _ : state) {
        auto sums = g.weigh(rows.size, [=] MULTIDRAFT_INLINE_LAMBDA(index_t i) {
            float const left = p[i] - q[i];
            return left < 0 ? 0.0F : left;
        });
        benchmark::DoNotOptimize(sums.total);
    }
    state.SetBytesProcessed(state.iterations() * state.range(0) * 8);
}

void ranked_exact(benchmark::State& s) { verdict_of<verify::ranked<law::iid>, draft::iid>(s, {3}); }
void ranked_binned(benchmark::State& s) { verdict_of<verify::binned_ranked<law::iid>, draft::iid>(s, {3}); }
void ranked_binned_stratified(benchmark::State& s) {
    verdict_of<verify::binned_ranked<law::stratified>, draft::stratified>(s, {3});
}
void ranked_block_of_a_tree(benchmark::State& s) {
    verdict_of<verify::binned_ranked_block<law::stratified>, draft::stratified>(s, {4, 2, 2, 1});
}
void nested_ranked_block_of_a_tree(benchmark::State& s) {
    verdict_of<verify::binned_nested_ranked_block<law::stratified>, draft::stratified>(s, {4, 2, 2, 1});
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(sort_of_ratios)->Apply(vocabularies);
BENCHMARK(ranked_exact)->Apply(vocabularies);
BENCHMARK(rejection_pass)->Apply(vocabularies);
BENCHMARK(ranked_binned)->Apply(vocabularies);
BENCHMARK(ranked_binned_stratified)->Apply(vocabularies);
BENCHMARK(ranked_block_of_a_tree)->Apply(vocabularies);
BENCHMARK(nested_ranked_block_of_a_tree)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
