// Batches on host threads against a plain loop over the requests: ragged trees, rows of logits, batch by threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/remembered_rows.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

constexpr index_t vocabulary = 32000;
constexpr sampling_params sampling{.temperature = 0.8F, .top_p = 0.95F};

/// Trees of 3 to 16 nodes. All requests of one shape read the same rows, with different seeds.
template <class Sampler>
struct batch {
    explicit batch(std::int32_t requests) {
        std::vector<topology> const shapes{chain(2), branching({2, 1, 1}), branching({3, 2, 1}), fork(4, 3)};
        for (std::int32_t b = 0; b < requests; ++b) {
            topology const& shape = shapes[static_cast<std::size_t>(b) % shapes.size()];
            for (node_id v = 0; v < shape.size(); ++v) {
                row_of.push_back(v);
                if (shape.child_count(v) == 0) continue;
                of_request.push_back(b);
                nodes.push_back(v);
                wanted.push_back(shape.child_count(v));
                first.push_back(offsets.back() + shape.first_child(v));
                index.push_back(offsets.back() + v);
                level_row.push_back(v);
            }
            parents.insert(parents.end(), shape.parents().begin(), shape.parents().end());
            offsets.push_back(static_cast<std::int64_t>(parents.size()));
            seeds.push_back(static_cast<std::uint64_t>(b));
            positions.push_back(b);
        }
        tokens.assign(parents.size(), 0);
        certain.assign(parents.size(), 0);
        logit_batch<float> level_rows = draft();
        level_rows.row_of = level_row.data();
        draft_batch(host_threads(1), Sampler{},
                    {static_cast<std::int32_t>(nodes.size()), of_request.data(), nodes.data(), wanted.data()},
                    draft_rows(level_rows), requests_of(),
                    {tokens.data(), first.data(), 0, nullptr, certain.data(), nullptr, index.data()});
        path.resize(parents.size());
        accepted.resize(seeds.size());
        next.resize(seeds.size());
    }

    [[nodiscard]] tree_batch trees() const {
        return {static_cast<std::int32_t>(seeds.size()),
                static_cast<std::int64_t>(parents.size()),
                offsets.data(),
                parents.data(),
                tokens.data(),
                certain.data()};
    }
    [[nodiscard]] request_batch requests_of() const { return {seeds.data(), positions.data()}; }
    [[nodiscard]] logit_batch<float> target() const { return of(rows.target_logits); }
    [[nodiscard]] logit_batch<float> draft() const { return of(rows.draft_logits); }

    bench::rows rows{16, vocabulary};
    std::vector<std::int64_t> offsets{0}, row_of, first, index, level_row;
    std::vector<node_id> parents, nodes, path;
    std::vector<token_id> tokens, next;
    std::vector<index_t> certain;
    std::vector<std::int32_t> of_request, wanted, positions, accepted;
    std::vector<std::uint64_t> seeds;

private:
    [[nodiscard]] logit_batch<float> of(std::vector<float> const& logits) const {
        return {logits.data(), vocabulary, vocabulary, row_of.data(), nullptr, sampling};
    }
};

/// The code of a caller without batches: request after request.
template <class Sampler, class Verifier>
void in_a_loop(benchmark::State& state) {
    batch<Sampler> b(static_cast<std::int32_t>(state.range(0)));
    host_group const g;
    verify::scratch_memory memory;
    using logits = logit_rows<float>;
    row_memory<typename remembered_rows<logits>::row> of_target, of_draft;
    for (auto _ : state) {
        for (std::int32_t r = 0; r < b.trees().requests; ++r) {
            auto const at = static_cast<std::size_t>(r);
            tree_view const tree = b.trees()(r);
            auto const scratch = memory.of<Verifier>(tree.size(), tree.depth(tree.size() - 1));
            addressed_source source{b.requests_of().uniforms(r)};
            logits const p(rows_view<float>(b.rows.target_logits.data(), tree.size(), vocabulary), sampling);
            logits const q(rows_view<float>(b.rows.draft_logits.data(), tree.size(), vocabulary), sampling);
            auto const with = [&](auto const& target, auto const& draft) {
                verdict const v = verify::verify_tree(
                    Verifier{}, g, make_drafted<typename Sampler::law>(tree, b.trees().certain_of(r)), target, draft,
                    source, b.positions[at], span<node_id>(b.path).subspan(static_cast<std::size_t>(b.offsets[at])),
                    scratch);
                b.accepted[at] = v.accepted;
                b.next[at] = v.next;
            };
            // Verifiers of whole trees read a row more than once.
            if constexpr (verify::needs_scratch<Verifier>)
                with(remembered_rows(p, of_target), remembered_rows(q, of_draft));
            else
                with(p, q);
        }
        benchmark::ClobberMemory();
    }
}

template <class Sampler, class Verifier>
void in_a_batch(benchmark::State& state) {
    batch<Sampler> b(static_cast<std::int32_t>(state.range(0)));
    host_threads const pool(static_cast<int>(state.range(1)));
    verify::scratch_memory memory;
    workspace const scratch = memory.of(verify_workspace_size<Verifier>(pool, b.trees().requests, 16, 4));
    for (auto _ : state) {
        verify_batch(pool, Verifier{}, drawn_by<typename Sampler::law>(b.trees()), target_rows(b.target()),
                     draft_rows(b.draft()), b.requests_of(), {b.path.data(), 0, b.accepted.data(), b.next.data()},
                     scratch);
        benchmark::ClobberMemory();
    }
}

void loops(benchmark::internal::Benchmark* b) {
    for (int const requests : {1, 8, 64}) b->Args({requests});
    b->ArgNames({"batch"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void batches(benchmark::internal::Benchmark* b) {
    for (int const requests : {1, 8, 64})
        for (int const threads : {1, 2, 4}) b->Args({requests, threads});
    b->ArgNames({"batch", "threads"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

void recursive_rejection_in_a_loop(benchmark::State& s) {
    in_a_loop<draft::sequential, verify::recursive_rejection<law::sequential>>(s);
}
void recursive_rejection_in_a_batch(benchmark::State& s) {
    in_a_batch<draft::sequential, verify::recursive_rejection<law::sequential>>(s);
}
void nested_ranked_block_in_a_loop(benchmark::State& s) {
    in_a_loop<draft::stratified, verify::nested_ranked_block<law::stratified>>(s);
}
void nested_ranked_block_in_a_batch(benchmark::State& s) {
    in_a_batch<draft::stratified, verify::nested_ranked_block<law::stratified>>(s);
}

BENCHMARK(recursive_rejection_in_a_loop)->Apply(loops);
BENCHMARK(recursive_rejection_in_a_batch)->Apply(batches);
BENCHMARK(nested_ranked_block_in_a_loop)->Apply(loops);
BENCHMARK(nested_ranked_block_in_a_batch)->Apply(batches);

}  // namespace

BENCHMARK_MAIN();
