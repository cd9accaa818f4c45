// A whole tree from logits where a row of the draft has k candidates: against the same draft with all V entries.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;
using law_of_draws = law::stratified;

/// The draft's k largest logits of each row, in the order of their tokens.
struct shortened {
    shortened(bench::rows const& rows, index_t count, index_t k) : candidates(k) {
        auto const v = static_cast<std::size_t>(rows.size);
        for (index_t r = 0; r < count; ++r) {
            float const* const row = rows.draft_logits.data() + static_cast<std::size_t>(r) * v;
            std::vector<token_id> order(v);
            std::iota(order.begin(), order.end(), 0);
            std::nth_element(order.begin(), order.begin() + k - 1, order.end(),
                             [&](token_id a, token_id b) { return row[a] > row[b]; });
            std::sort(order.begin(), order.begin() + k);
            for (index_t i = 0; i < k; ++i) {
                tokens.push_back(order[static_cast<std::size_t>(i)]);
                logits.push_back(row[order[static_cast<std::size_t>(i)]]);
            }
        }
    }
    [[nodiscard]] candidate_view<float> row(index_t r, index_t vocabulary) const {
        auto const first = static_cast<std::size_t>(r) * static_cast<std::size_t>(candidates);
        return {span<token_id const>(tokens).subspan(first, static_cast<std::size_t>(candidates)),
                logits.data() + first, vocabulary};
    }
    index_t candidates;
    std::vector<token_id> tokens;
    std::vector<float> logits;
};

/// Verifies trees whose rows, of the draft, are `row(node)`. The draft's rows were processed when its tokens were
/// drawn.
template <class Verifier, class Row>
void verify_trees(benchmark::State& state, bench::rows const& r, topology const& shape, Row const& row) {
    using view = decltype(row(0));
    host_group const g;
    index_t const v = r.size;
    addressed_source source{addressed_uniforms(1)};
    constexpr std::size_t trees = 64;
    auto const nodes = static_cast<std::size_t>(shape.size());
    std::vector<token_id> tokens(trees * nodes);
    std::vector<index_t> certain(trees * nodes, 0);
    std::vector<softmax_row<view>> of_draft;
    for (node_id node = 0; node < shape.size(); ++node) {
        auto const q = process_logits(g, row(node), sampling_params{});
        of_draft.push_back(q.row);
        auto const first = static_cast<std::size_t>(shape.first_child(node));
        auto const children = static_cast<std::size_t>(shape.child_count(node));
        if (children == 0) continue;
        for (std::size_t k = 0; k < trees; ++k)
            certain[k * nodes + static_cast<std::size_t>(node)] =
                draft::stratified{}(g, q.row, q.sums, source, draw_site{static_cast<std::int32_t>(k), node},
                                    span<token_id>(tokens).subspan(k * nodes + first, children))
                    .certain;
    }
    rows_view<float> const logits(r.target_logits.data(), shape.size(), v);
    row_memory<logit_rows<float>> memory;
    prepared_rows<softmax_row<view>> const q(of_draft, v);
    std::vector<node_id> path(8);
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(shape.size(), shape.max_depth()));
    std::size_t k = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        auto const target = remember(logit_rows<float>(logits, sampling_params{}), memory);
        tree_view const tree{shape.parents(), span<token_id const>(tokens).subspan(k * nodes, nodes)};
        drafted<law_of_draws> const drafts{tree, span<index_t const>(certain).subspan(k * nodes, nodes)};
        verdict found;
        if constexpr (verify::needs_scratch<Verifier>)
            found = Verifier{}(g, drafts, target_rows(target), draft_rows(q), source, static_cast<std::int32_t>(k),
                               path, span<std::byte>(scratch));
        else
            found =
                Verifier{}(g, drafts, target_rows(target), draft_rows(q), source, static_cast<std::int32_t>(k), path);
        accepted += found.accepted;
        k = (k + 1) % trees;
        benchmark::DoNotOptimize(found);
    }
    state.counters["accepted"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

/// Rows as peaked as those of a model that is sure of some tokens: temperature 0.5.
bench::rows peaked(index_t count, index_t vocabulary) {
    bench::rows result(count, vocabulary);
    for (auto* const logits : {&result.target_logits, &result.draft_logits})
        for (float& x : *logits) x *= 2;
    return result;
}

template <class Verifier>
void all_entries(benchmark::State& state) {
    topology const shape = branching({4, 2, 2, 1});
    bench::rows const r = peaked(shape.size(), static_cast<index_t>(state.range(0)));
    rows_view<float> const draft(r.draft_logits.data(), shape.size(), r.size);
    verify_trees<Verifier>(state, r, shape, [&](node_id node) { return draft(node); });
}

template <class Verifier>
void candidates(benchmark::State& state) {
    topology const shape = branching({4, 2, 2, 1});
    bench::rows const r = peaked(shape.size(), static_cast<index_t>(state.range(0)));
    shortened const draft(r, shape.size(), static_cast<index_t>(state.range(1)));
    verify_trees<Verifier>(state, r, shape, [&](node_id node) { return draft.row(node, r.size); });
}

/// One row of the draft: its normaliser, and four draws.
template <class Row>
void draw_from(benchmark::State& state, Row const& row) {
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    std::vector<token_id> tokens(4);
    std::int32_t position = 0;
    for (auto _ : state) {
        auto const q = process_logits(g, row, sampling_params{});
        auto const drawn = draft::stratified{}(g, q.row, q.sums, source, draw_site{position++, 0}, tokens);
        benchmark::DoNotOptimize(drawn.count);
        benchmark::DoNotOptimize(tokens.data());
    }
}
void draw_of_all_entries(benchmark::State& state) {
    bench::rows const r = peaked(1, static_cast<index_t>(state.range(0)));
    draw_from(state, row_view<float>(r.draft_logits.data(), r.size));
}
void draw_of_candidates(benchmark::State& state) {
    bench::rows const r = peaked(1, static_cast<index_t>(state.range(0)));
    shortened const draft(r, 1, static_cast<index_t>(state.range(1)));
    draw_from(state, draft.row(0, r.size));
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_candidates(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 128256})
        for (int k : {16, 64, 512}) b->Args({v, k});
    b->ArgNames({"V", "candidates"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(all_entries<verify::nested_ranked_block<law_of_draws>>)->Apply(vocabularies);
BENCHMARK(candidates<verify::nested_ranked_block<law_of_draws>>)->Apply(vocabularies_and_candidates);
BENCHMARK(all_entries<verify::ranked_block<law_of_draws>>)->Apply(vocabularies);
BENCHMARK(candidates<verify::ranked_block<law_of_draws>>)->Apply(vocabularies_and_candidates);

BENCHMARK(draw_of_all_entries)->Apply(vocabularies);
BENCHMARK(draw_of_candidates)->Apply(vocabularies_and_candidates);

}  // namespace

BENCHMARK_MAIN();
