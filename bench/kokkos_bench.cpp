// The Kokkos backend against the host group: drafting a level, masks, and verifying trees from logits.
#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/kokkos/from_views.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

using space = Kokkos::DefaultExecutionSpace;
using memory = space::memory_space;
using rows_type = Kokkos::View<float const**, Kokkos::LayoutRight, memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using verifier = verify::recursive_rejection<law::sequential>;

constexpr std::size_t requests = 8;
constexpr int children = 4;

template <class T>
Kokkos::View<T*, memory> to_machine(std::vector<T> const& from) {
    Kokkos::View<T*, memory> to("to", from.size());
    auto const mirror = Kokkos::create_mirror_view(to);
    std::copy(from.begin(), from.end(), mirror.data());
    Kokkos::deep_copy(to, mirror);
    return to;
}

/// A tree of n nodes: two children per node, truncated at n.
topology tree_of(node_id n) {
    std::vector<node_id> parents{none};
    for (node_id i = 1; i < n; ++i) parents.push_back((i - 1) / 2);
    return topology::from_parents(parents);
}

/// Trees of one shape for some requests.
struct trees {
    explicit trees(node_id count) : shape(tree_of(count)), nodes(count) {
        for (std::size_t r = 0; r < requests; ++r) {
            parents.insert(parents.end(), shape.parents().begin(), shape.parents().end());
            offsets.push_back(static_cast<std::int64_t>(parents.size()));
            seeds.push_back(r);
        }
    }

    topology shape;
    node_id nodes;
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;
    std::vector<std::uint64_t> seeds;
};

/// The same with tokens, drawn on the host. All requests read the same rows, with different seeds: a batch of trees of
/// 64 nodes would have 4 GB of rows otherwise.
struct batch : trees {
    batch(index_t vocabulary, node_id count) : trees(count), v(vocabulary), rows(count, vocabulary) {
        host_group const g;
        for (std::size_t r = 0; r < requests; ++r) {
            std::vector<token_id> own(static_cast<std::size_t>(nodes), 0);
            addressed_source source{addressed_uniforms(seeds[r])};
            for (node_id node = 0; node < nodes; ++node) {
                if (shape.child_count(node) == 0) continue;
                auto q = process_logits(g, draft_rows()(node), sampling_params{});
                std::ignore =
                    draft::sequential{}(g, q.row, q.sums, source, draw_site{0, node},
                                        span<token_id>(own).subspan(static_cast<std::size_t>(shape.first_child(node)),
                                                                    static_cast<std::size_t>(shape.child_count(node))));
            }
            tokens.insert(tokens.end(), own.begin(), own.end());
        }
    }

    [[nodiscard]] rows_view<float> draft_rows() const { return {rows.draft_logits.data(), nodes, v}; }
    [[nodiscard]] rows_view<float> target_rows() const { return {rows.target_logits.data(), nodes, v}; }

    index_t v;
    bench::rows rows;
    std::vector<token_id> tokens;
};

/// Made once for all repetitions of a case; one batch is kept.
batch const& batch_of(std::int64_t vocabulary, std::int64_t nodes) {
    static std::unique_ptr<batch> made;
    auto const v = static_cast<index_t>(vocabulary);
    auto const n = static_cast<node_id>(nodes);
    if (!made || made->v != v || made->nodes != n) {
        made.reset();
        made = std::make_unique<batch>(v, n);
    }
    return *made;
}

verdict verdict_on_host(batch const& b, std::size_t r, std::int32_t position, span<node_id> path) {
    addressed_source source{addressed_uniforms(b.seeds[r])};
    auto const n = static_cast<std::size_t>(b.nodes);
    drafted<law::sequential> const tree{{{b.parents.data() + r * n, n}, {b.tokens.data() + r * n, n}}};
    return verifier{}(host_group{}, tree, target_rows(logit_rows<float>(b.target_rows(), sampling_params{})),
                      draft_rows(logit_rows<float>(b.draft_rows(), sampling_params{})), source, position, path);
}

void verify_on_host(benchmark::State& state) {
    batch const& b = batch_of(state.range(0), state.range(1));
    std::vector<node_id> path(8);
    std::int32_t position = 0;
    for (auto _ : state) {
        for (std::size_t r = 0; r < requests; ++r) {
            auto answer = verdict_on_host(b, r, position, path);
            benchmark::DoNotOptimize(answer);
        }
        position = (position + 1) % 16;
    }
}

void verify_with_kokkos(benchmark::State& state) {
    batch const& b = batch_of(state.range(0), state.range(1));
    auto const n = static_cast<std::size_t>(b.nodes);
    auto const held_target = to_machine(b.rows.target_logits);
    auto const held_draft = to_machine(b.rows.draft_logits);
    auto const here = kokkos::on(space(), {static_cast<int>(state.range(2))});
    auto const v = static_cast<std::size_t>(b.v);
    auto const offsets = to_machine(b.offsets);
    auto const parents = to_machine(b.parents);
    auto const tokens = to_machine(b.tokens);
    auto const seeds = to_machine(b.seeds);
    Kokkos::View<std::int32_t*, memory> const positions("positions", requests);
    tree_batch const batched = kokkos::trees_from_views(here, offsets, parents, tokens);
    // All requests read the same rows.
    std::vector<std::int64_t> host_row_of(b.parents.size());
    for (std::size_t i = 0; i < host_row_of.size(); ++i) host_row_of[i] = static_cast<std::int64_t>(i % n);
    auto const row_of = to_machine(host_row_of);
    auto const logits = [&](auto const& held) {
        return kokkos::logits_from_views(here, batched, rows_type(held.data(), n, v), sampling_params{}, row_of);
    };
    target_rows const target(logits(held_target));
    draft_rows const draft(logits(held_draft));
    request_batch const draws = kokkos::requests_from_views(here, batched, seeds, positions);
    Kokkos::View<node_id*, memory> const paths("paths", b.parents.size());
    Kokkos::View<std::int32_t*, memory> const accepted_of("accepted", requests);
    Kokkos::View<token_id*, memory> const next_of("next", requests);
    verdict_batch const out = kokkos::verdicts_from_views(here, batched, paths, accepted_of, next_of);
    std::int32_t last = 0;
    std::int32_t position = 0;
    for (auto _ : state) {
        Kokkos::deep_copy(positions, position);
        verify_batch(here, verifier{}, drawn_by<law::sequential>(batched), target, draft, draws, out);
        Kokkos::fence();
        last = position;
        position = (position + 1) % 16;  // the host's, so that both do the same work
    }
    auto const accepted = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), accepted_of);
    auto const next = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), next_of);
    std::vector<node_id> path(8);
    for (std::size_t r = 0; r < requests; ++r) {
        auto const expected = verdict_on_host(b, r, last, path);
        if (accepted(r) != expected.accepted || next(r) != expected.next)
            state.SkipWithError("the verdicts are not those of the host");
    }
}

void draft_on_host(benchmark::State& state) {
    batch const& b = batch_of(state.range(0), 8);
    token_id drawn[children];
    std::int32_t position = 0;
    for (auto _ : state) {
        for (std::size_t r = 0; r < requests; ++r) {
            addressed_source source{addressed_uniforms(b.seeds[r])};
            auto q = process_logits(host_group{}, b.draft_rows()(static_cast<node_id>(r)), sampling_params{});
            benchmark::DoNotOptimize(draft::sequential{}(host_group{}, q.row, q.sums, source, draw_site{position, 0},
                                                         span<token_id>(drawn, children)));
        }
        ++position;
    }
}

void draft_with_kokkos(benchmark::State& state) {
    batch const& b = batch_of(state.range(0), 8);
    auto const v = static_cast<std::size_t>(b.v);
    auto const held = to_machine(b.rows.draft_logits);
    rows_type const logits(held.data(), requests, v);
    auto const here = kokkos::on(space(), {static_cast<int>(state.range(1))});
    std::vector<std::int32_t> host_of;
    for (std::size_t r = 0; r < requests; ++r) host_of.push_back(static_cast<std::int32_t>(r));
    auto const of = to_machine(host_of);
    auto const nodes = to_machine(std::vector<node_id>(requests));
    auto const seeds = to_machine(b.seeds);
    Kokkos::View<std::int32_t*, memory> const positions("positions", requests);
    Kokkos::View<token_id**, Kokkos::LayoutRight, memory> const tokens("tokens", requests, children);
    Kokkos::View<index_t*, memory> const counts("counts", requests);
    level_batch const level = kokkos::level_from_views(here, of, nodes);
    draft_rows const rows(kokkos::logits_from_views(here, level, logits, sampling_params{}));
    request_batch const draws = kokkos::requests_from_views(here, tree_batch{requests}, seeds, positions);
    children_batch const out = kokkos::children_from_views(here, level, tokens, counts);
    std::int32_t position = 0;
    for (auto _ : state) {
        Kokkos::deep_copy(positions, position++);
        draft_batch(here, draft::sequential{}, level, rows, draws, out);
        Kokkos::fence();
    }
}

void mask_on_host(benchmark::State& state) {
    trees const b(static_cast<node_id>(state.range(0)));
    std::int64_t const row_words = words_per_row(b.nodes);
    auto const size = static_cast<std::size_t>(b.nodes * row_words);
    std::vector<std::uint64_t> words(requests * size);
    for (auto _ : state) {
        for (std::size_t r = 0; r < requests; ++r)
            benchmark::DoNotOptimize(
                write_mask(b.shape.parents(), span<std::uint64_t>(words.data() + r * size, size), row_words));
        benchmark::ClobberMemory();
    }
}

void mask_with_kokkos(benchmark::State& state) {
    trees const b(static_cast<node_id>(state.range(0)));
    std::size_t const nodes = b.parents.size();
    auto const here = kokkos::on(space());
    auto const offsets = to_machine(b.offsets);
    auto const parents = to_machine(b.parents);
    tree_batch const batched = kokkos::trees_from_views(here, offsets, parents, kokkos::no_view{});
    Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory> const words(
        "words", nodes, static_cast<std::size_t>(words_per_row(b.nodes)));
    for (auto _ : state) {
        write_masks(here, batched, words.data(), static_cast<std::int64_t>(words.stride(0)));
        Kokkos::fence();
    }
}

/// The cases, `V` and `nodes`; `team` 0 is the default team size.
constexpr int vocabularies[] = {32000, 128256};
constexpr int sizes[] = {8, 64};

void drafts(benchmark::internal::Benchmark* b) {
    for (int v : vocabularies) b->Args({v});
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void drafts_of_teams(benchmark::internal::Benchmark* b) {
    for (int v : vocabularies) b->Args({v, 0});
    b->ArgNames({"V", "team"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void verdicts(benchmark::internal::Benchmark* b) {
    for (int v : vocabularies)
        for (int n : sizes) b->Args({v, n});
    b->ArgNames({"V", "nodes"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void verdicts_of_teams(benchmark::internal::Benchmark* b) {
    for (int v : vocabularies)
        for (int n : sizes) b->Args({v, n, 0});
    b->ArgNames({"V", "nodes", "team"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void masks(benchmark::internal::Benchmark* b) {
    for (int n : sizes) b->Args({n});
    b->ArgNames({"nodes"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK(verify_on_host)->Apply(verdicts);
BENCHMARK(verify_with_kokkos)->Apply(verdicts_of_teams);
BENCHMARK(draft_on_host)->Apply(drafts);
BENCHMARK(draft_with_kokkos)->Apply(drafts_of_teams);
BENCHMARK(mask_on_host)->Apply(masks);
BENCHMARK(mask_with_kokkos)->Apply(masks);

}  // namespace

int main(int argc, char** argv) {
    Kokkos::initialize(argc, argv);
    benchmark::Initialize(&argc, argv);
    benchmark::AddCustomContext("kokkos_space", space::name());
    int const threads = static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
    if (threads > 1)
        benchmark::RegisterBenchmark("verify_with_kokkos", verify_with_kokkos)
            ->Args({128256, 64, threads})
            ->ArgNames({"V", "nodes", "team"})
            ->Unit(benchmark::kMicrosecond)
            ->UseRealTime();
    benchmark::RunSpecifiedBenchmarks();
    Kokkos::finalize();
    return 0;
}
