// Verifiers: one rejection pass against a plain sum, one acceptance, one node, a whole tree.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/detail/ratio_histogram.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/verifier.hpp"
#include "reference/ranked.hpp"
#include "support/machine.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;
using bench::report_bytes;

/// sum max(p - q, 0) with one accumulator: the cost of a loop without explicit lanes.
void scalar_sum(benchmark::State& state) {
    bench::rows const r(1, static_cast<index_t>(state.range(0)));
    for (auto _ : state) {
        float sum = 0;
        for (std::size_t i = 0; i < r.target.size(); ++i) sum += std::max(r.target[i] - r.draft[i], 0.0F);
        benchmark::DoNotOptimize(sum);
    }
    report_bytes(state, 2 * state.range(0) * 4);
}

/// The baseline of the rejection pass: the same sum with 64 free accumulators, in no fixed order.
void plain_sum(benchmark::State& state) {
    bench::rows const r(1, static_cast<index_t>(state.range(0)));
    std::size_t const whole = r.target.size() / 64 * 64;
    for (auto _ : state) {
        float lane[64] = {};
        for (std::size_t i = 0; i < whole; i += 64)
            for (std::size_t l = 0; l < 64; ++l) {
                float const d = r.target[i + l] - r.draft[i + l];
                lane[l] += d > 0 ? d : 0;
            }
        benchmark::DoNotOptimize(lane);
    }
    report_bytes(state, 2 * state.range(0) * 4);
}

/// One rejection: the residual's mass and the chunk sums that the emitted token is drawn from.
void rejection_pass(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    float c = 1;
    for (auto _ : state) {
        benchmark::DoNotOptimize(c);
        auto sums = g.sum_chunks(
            v, verify::residual{probabilities<float>(r.target.data(), v), probabilities<float>(r.draft.data(), v), c});
        benchmark::DoNotOptimize(sums.total);
    }
    report_bytes(state, 2 * state.range(0) * 4);
}

constexpr bench::sampling nucleus{0.6F, 0.9};

/// One histogram of p/q, from which a ranked verifier computes the law of its candidate.
template <class Real, bool Cut = false>
void ratio_histogram(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v, 1, Cut ? nucleus : bench::sampling{});
    std::vector<Real> const target(r.target.begin(), r.target.end());
    std::vector<Real> const draft(r.draft.begin(), r.draft.end());
    verify::detail::ratio_of const rows{probabilities<Real>(target.data(), v), probabilities<Real>(draft.data(), v),
                                        Real(1)};
    std::array<double, verify::detail::ratio_grid::count> mass{};
    for (auto _ : state) {
        auto where = rows;
        benchmark::DoNotOptimize(verify::detail::ratio_histogram<false>(host_group{}, where, {}, mass.data()));
        benchmark::DoNotOptimize(mass);
    }
    report_bytes(state, 2 * state.range(0) * static_cast<std::int64_t>(sizeof(Real)));
}

/// The baseline of the exact form of ranked verification: the tokens in the order of p/q.
void ratio_sort(benchmark::State& state) {
    bench::rows const r(1, static_cast<index_t>(state.range(0)));
    struct entry {
        float ratio;
        token_id token;
    };
    std::vector<entry> entries(r.target.size());
    for (auto _ : state) {
        for (std::size_t i = 0; i < entries.size(); ++i)
            entries[i] = {r.target[i] / r.draft[i], static_cast<token_id>(i)};
        std::sort(entries.begin(), entries.end(), [](entry const& a, entry const& b) { return a.ratio < b.ratio; });
        benchmark::DoNotOptimize(entries.data());
    }
    report_bytes(state, 2 * state.range(0) * 4);
}

/// A source whose Bernoulli draws all have one outcome.
struct fixed_source {
    bool side;
    template <class Real>
    bool bernoulli(address, Real, Real) const {
        return side;
    }
    template <group G, class Real, class W>
    index_t categorical(G const& g, chunk_sums<Real> const& sums, index_t n, W const& w, span<token_id const> taken,
                        address) const {
        return g.inverse_cdf(sums, n, w, 0.5, taken);
    }
    template <class Real>
    Real uniform(address) const {
        return Real(0.5);
    }
};

/// An acceptance: its cost may not depend on V.
void acceptance(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    bench::rows const r(1, v);
    host_group const g;
    fixed_source source{true};
    std::array<token_id, 4> const candidates{1, 2, 3, 4};
    for (auto _ : state) {
        auto verdict = verify::recursive_rejection<law::sequential>{}.decide(
            g, probabilities<float>(r.target.data(), v), probabilities<float>(r.draft.data(), v), candidates, source,
            {});
        benchmark::DoNotOptimize(verdict);
    }
}

/// One node from probabilities: real candidates (without replacement unless said otherwise), real draws.
template <class Verifier, class Sampler = draft::sequential, bool Cut = false>
void node(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    auto const children = static_cast<std::size_t>(state.range(1));
    bench::rows const r(1, v, 1, Cut ? nucleus : bench::sampling{});
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    probabilities<float> const p(r.target.data(), v);
    probabilities<float> const q(r.draft.data(), v);
    std::vector<std::vector<token_id>> tokens(256, std::vector<token_id>(children));
    std::vector<verify::candidate_list> candidates;
    for (std::size_t k = 0; k < tokens.size(); ++k) {
        auto sums = g.sum_chunks(v, weight_of{q});
        auto const drawn = Sampler{}(g, q, sums, source, draw_site{static_cast<std::int32_t>(k), 0}, tokens[k]);
        candidates.emplace_back(span<token_id const>(tokens[k]).first(static_cast<std::size_t>(drawn.count)),
                                drawn.certain);
    }
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(1, 1));
    std::int32_t position = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        auto const& c = candidates[static_cast<std::size_t>(position) % candidates.size()];
        verify::node_verdict verdict;
        if constexpr (verify::needs_scratch<Verifier>)
            verdict = Verifier{}.decide(g, p, q, c, source, draw_site{position++, 0}, span<std::byte>(scratch));
        else
            verdict = Verifier{}.decide(g, p, q, c, source, draw_site{position++, 0});
        accepted += verdict.child == none ? 0 : 1;
        benchmark::DoNotOptimize(verdict);
    }
    state.counters["acceptance_rate"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

/// The rows of several draft models, one per candidate.
struct rows_of_drafts {
    float const* data;
    index_t size;
    [[nodiscard]] probabilities<float> of_child(index_t k) const noexcept {
        return {data + static_cast<std::ptrdiff_t>(k) * size, size};
    }
};

/// One node whose candidates were each drawn from a different model.
template <class Verifier>
void node_of_several_drafts(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    auto const children = static_cast<std::size_t>(state.range(1));
    bench::rows const r(static_cast<index_t>(children), v);
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    probabilities<float> const p(r.target.data(), v);
    rows_of_drafts const drafts{r.draft.data(), v};
    std::vector<std::vector<token_id>> tokens(256, std::vector<token_id>(children));
    for (std::size_t k = 0; k < tokens.size(); ++k)
        for (std::size_t model = 0; model < children; ++model) {
            auto const q = drafts.of_child(static_cast<index_t>(model));
            auto sums = g.sum_chunks(v, weight_of{q});
            draw_site const site{static_cast<std::int32_t>(k), static_cast<node_id>(model)};
            static_cast<void>(draft::iid{}(g, q, sums, source, site, span<token_id>(tokens[k]).subspan(model, 1)));
        }
    std::int32_t position = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        span<token_id const> const candidates(tokens[static_cast<std::size_t>(position) % tokens.size()]);
        verify::node_verdict const verdict =
            Verifier{}.decide(g, p, drafts, candidates, source, draw_site{position++, 0});
        accepted += verdict.child == none ? 0 : 1;
        benchmark::DoNotOptimize(verdict);
    }
    state.counters["acceptance_rate"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

/// A whole tree straight from logits: the normalisers of the rows on the path are computed as they are read.
void tree_from_logits(benchmark::State& state) {
    auto const v = static_cast<index_t>(state.range(0));
    topology const shape = branching({4, 2, 2, 1});
    bench::rows const r(shape.size(), v);
    host_group const g;
    addressed_source source{addressed_uniforms(1)};
    std::vector<token_id> tokens(static_cast<std::size_t>(shape.size()), 0);
    std::vector<softmax_row<row_view<float>>> of_draft;
    rows_view<float> const draft(r.draft_logits.data(), shape.size(), v);
    for (node_id node = 0; node < shape.size(); ++node) {
        auto q = process_logits(g, draft(node), sampling_params{});
        of_draft.push_back(q.row);
        if (shape.child_count(node) > 0)
            static_cast<void>(
                draft::sequential{}(g, q.row, q.sums, source, draw_site{0, node},
                                    span<token_id>(tokens).subspan(static_cast<std::size_t>(shape.first_child(node)),
                                                                   static_cast<std::size_t>(shape.child_count(node)))));
    }
    logit_rows<float> const target(rows_view<float>(r.target_logits.data(), shape.size(), v), sampling_params{});
    prepared_rows<softmax_row<row_view<float>>> const q(of_draft, v);
    std::vector<node_id> path(8);
    std::int32_t position = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        auto verdict = verify::recursive_rejection<law::sequential>{}(
            g, drafted<law::sequential>{tree_view{shape.parents(), tokens}}, target_rows(target), draft_rows(q), source,
            position++, path);
        accepted += verdict.accepted;
        benchmark::DoNotOptimize(verdict);
    }
    state.counters["accepted"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_children(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256})
        for (int children : {1, 4}) b->Args({v, children});
    b->ArgNames({"V", "children"})->Unit(benchmark::kMicrosecond);
}
void vocabularies_and_pairs(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Args({v, 2});
    b->ArgNames({"V", "children"})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(scalar_sum)->Apply(vocabularies);
BENCHMARK(plain_sum)->Apply(vocabularies);
BENCHMARK(rejection_pass)->Apply(vocabularies);
BENCHMARK(ratio_histogram<float>)->Apply(vocabularies);
BENCHMARK(ratio_histogram<double>)->Apply(vocabularies);
BENCHMARK(ratio_histogram<float, true>)->Apply(vocabularies);
BENCHMARK(ratio_sort)->Apply(vocabularies);
BENCHMARK(acceptance)->Apply(vocabularies);
BENCHMARK(node<verify::recursive_rejection<law::sequential>>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::naive<law::sequential>>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::k_seq<law::iid>, draft::iid>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::greedy_optimal<law::top_then_one>, draft::top_then_one>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::spec_hub<law::top_paired>, draft::top_paired>)->Apply(vocabularies_and_pairs);
BENCHMARK(node_of_several_drafts<verify::multi_round<law::independent>>)->Apply(vocabularies_and_children);
BENCHMARK(node<multidraft::testing::reference::ranked<law::iid>, draft::iid>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::ranked<law::iid>, draft::iid>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::ranked<law::stratified>, draft::stratified>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::ranked<law::iid>, draft::iid, true>)->Apply(vocabularies_and_children);
BENCHMARK(node<verify::recursive_rejection<law::iid>, draft::iid, true>)->Apply(vocabularies_and_children);
BENCHMARK(tree_from_logits)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
