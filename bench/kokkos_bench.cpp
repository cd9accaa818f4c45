// The Kokkos backend against the host group: drafting a level and verifying a batch of trees from logits.
#include <benchmark/benchmark.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/kokkos/draft.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

using space = Kokkos::DefaultExecutionSpace;
using memory = space::memory_space;
using rows_type = Kokkos::View<float const**, Kokkos::LayoutRight, memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using verifier = verify::recursive_rejection<law::sequential>;

constexpr std::size_t requests = 8;

template <class T>
Kokkos::View<T*, memory> to_machine(std::vector<T> const& from) {
    Kokkos::View<T*, memory> to("to", from.size());
    auto const mirror = Kokkos::create_mirror_view(to);
    std::copy(from.begin(), from.end(), mirror.data());
    Kokkos::deep_copy(to, mirror);
    return to;
}

/// Eight requests with one tree each, drawn on the host.
struct batch {
    explicit batch(index_t vocabulary)
        : v(vocabulary), nodes(shape.size()), rows(static_cast<index_t>(requests) * shape.size(), vocabulary) {
        host_group const g;
        for (std::size_t r = 0; r < requests; ++r) {
            std::vector<token_id> own(static_cast<std::size_t>(nodes), 0);
            addressed_source source{addressed_uniforms(r)};
            for (node_id node = 0; node < nodes; ++node) {
                if (shape.child_count(node) == 0) continue;
                auto q = warped(g, draft_rows(r)(node), warp{});
                draft::sequential{}(g, q.row, q.weights, source, place{0, node},
                                    span<token_id>(own).subspan(static_cast<std::size_t>(shape.first_child(node)),
                                                                static_cast<std::size_t>(shape.child_count(node))));
            }
            tokens.insert(tokens.end(), own.begin(), own.end());
            parents.insert(parents.end(), shape.parents().begin(), shape.parents().end());
            offsets.push_back(static_cast<std::int64_t>(parents.size()));
            seeds.push_back(r);
        }
    }

    [[nodiscard]] rows_view<float> draft_rows(std::size_t r) const {
        return {rows.draft_logits.data() + static_cast<std::ptrdiff_t>(r) * nodes * v, nodes, v};
    }
    [[nodiscard]] rows_view<float> target_rows(std::size_t r) const {
        return {rows.target_logits.data() + static_cast<std::ptrdiff_t>(r) * nodes * v, nodes, v};
    }

    topology shape = branching({4, 2, 2, 1});
    index_t v;
    node_id nodes;
    bench::rows rows;
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<std::uint64_t> seeds;
};

void verify_on_host(benchmark::State& state) {
    batch const b(static_cast<index_t>(state.range(0)));
    std::vector<node_id> path(8);
    std::int32_t position = 0;
    for (auto _ : state) {
        for (std::size_t r = 0; r < requests; ++r) {
            addressed_source source{addressed_uniforms(b.seeds[r])};
            auto const n = static_cast<std::size_t>(b.nodes);
            drafted<law::sequential> const tree{{{b.parents.data() + r * n, n}, {b.tokens.data() + r * n, n}}};
            auto verdict = verifier{}(host_group{}, tree, logit_rows<float>(b.target_rows(r), warp{}),
                                      logit_rows<float>(b.draft_rows(r), warp{}), source, position, path);
            benchmark::DoNotOptimize(verdict);
        }
        ++position;
    }
}

void verify_with_kokkos(benchmark::State& state) {
    batch const b(static_cast<index_t>(state.range(0)));
    auto const all = b.parents.size();
    auto const held_target = to_machine(b.rows.target_logits);
    auto const held_draft = to_machine(b.rows.draft_logits);
    auto const warps = to_machine(std::vector<warp>(requests));
    auto const v = static_cast<std::size_t>(b.v);
    kokkos::tree_batch<memory> const trees{to_machine(b.offsets), to_machine(b.parents), to_machine(b.tokens)};
    kokkos::logit_batch<rows_type> const target{rows_type(held_target.data(), all, v), warps};
    kokkos::logit_batch<rows_type> const draft{rows_type(held_draft.data(), all, v), warps};
    Kokkos::View<std::int32_t*, memory> const positions("positions", requests);
    kokkos::draw_batch<memory> const draws{to_machine(b.seeds), positions};
    kokkos::verdict_batch<memory> const out{Kokkos::View<node_id*, memory>("paths", all),
                                            Kokkos::View<std::int32_t*, memory>("accepted", requests),
                                            Kokkos::View<token_id*, memory>("next", requests)};
    std::int32_t position = 0;
    for (auto _ : state) {
        Kokkos::deep_copy(positions, position++);
        kokkos::verify_trees<verifier>(space(), trees, target, draft, draws, out,
                                       kokkos::launch_shape{static_cast<int>(state.range(1))});
        Kokkos::fence();
    }
}

void draft_on_host(benchmark::State& state) {
    batch const b(static_cast<index_t>(state.range(0)));
    token_id children[4];
    std::int32_t position = 0;
    for (auto _ : state) {
        for (std::size_t r = 0; r < requests; ++r) {
            addressed_source source{addressed_uniforms(b.seeds[r])};
            auto q = warped(host_group{}, b.draft_rows(r)(0), warp{});
            benchmark::DoNotOptimize(draft::sequential{}(host_group{}, q.row, q.weights, source, place{position, 0},
                                                         span<token_id>(children, 4)));
        }
        ++position;
    }
}

void draft_with_kokkos(benchmark::State& state) {
    batch const b(static_cast<index_t>(state.range(0)));
    auto const v = static_cast<std::size_t>(b.v);
    auto const held = to_machine(b.rows.draft_logits);
    rows_type const logits(held.data(), requests, v);
    Kokkos::View<warp const*, memory> const warps = to_machine(std::vector<warp>(requests));
    std::vector<std::int32_t> of;
    for (std::size_t r = 0; r < requests; ++r) of.push_back(static_cast<std::int32_t>(r));
    kokkos::level_batch<memory> const level{to_machine(of), to_machine(std::vector<node_id>(requests))};
    Kokkos::View<std::int32_t*, memory> const positions("positions", requests);
    kokkos::draw_batch<memory> const draws{to_machine(b.seeds), positions};
    kokkos::children_batch<memory> const out{
        Kokkos::View<token_id**, Kokkos::LayoutRight, memory>("tokens", requests, 4),
        Kokkos::View<index_t*, memory>("counts", requests)};
    std::int32_t position = 0;
    for (auto _ : state) {
        Kokkos::deep_copy(positions, position++);
        kokkos::draft_children<draft::sequential>(space(), level, logits, warps, draws, out,
                                                  kokkos::launch_shape{static_cast<int>(state.range(1))});
        Kokkos::fence();
    }
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
/// Teams of the size that suits (0), and on a CPU with threads one team of all of them.
void vocabularies_and_teams(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Args({v, 0});
    b->ArgNames({"V", "team"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK(verify_on_host)->Apply(vocabularies);
BENCHMARK(verify_with_kokkos)->Apply(vocabularies_and_teams);
BENCHMARK(draft_on_host)->Apply(vocabularies);
BENCHMARK(draft_with_kokkos)->Apply(vocabularies_and_teams);

}  // namespace

int main(int argc, char** argv) {
    Kokkos::initialize(argc, argv);
    benchmark::Initialize(&argc, argv);
    int const threads = static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
    if (threads > 1)
        benchmark::RegisterBenchmark("verify_with_kokkos", verify_with_kokkos)
            ->Args({128256, threads})
            ->ArgNames({"V", "team"})
            ->Unit(benchmark::kMicrosecond)
            ->UseRealTime();
    benchmark::RunSpecifiedBenchmarks();
    Kokkos::finalize();
    return 0;
}
