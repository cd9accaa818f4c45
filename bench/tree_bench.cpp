// Verifiers of whole trees and paths: cost of a verdict from normalised rows, and the naive form beside it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

/// A tree of one shape whose tokens are drawn anew for each of 16 positions.
template <class Sampler>
struct drawn_trees {
    static constexpr std::int32_t count = 16;
    topology shape;
    bench::rows rows;
    std::vector<std::vector<token_id>> tokens;
    std::vector<std::vector<index_t>> certain;
    addressed_source source{addressed_uniforms(1)};

    drawn_trees(topology s, index_t v, bench::sampling how = {}) : shape(std::move(s)), rows(shape.size(), v, 1, how) {
        host_group const g;
        for (std::int32_t position = 0; position < count; ++position) {
            std::vector<token_id> drawn(static_cast<std::size_t>(shape.size()), 0);
            std::vector<index_t> certain_children(drawn.size(), 0);
            for (node_id node = 0; node < shape.size(); ++node) {
                if (shape.child_count(node) == 0) continue;
                auto const q = draft()(g, node);
                auto sums = g.sum_chunks(v, weight_of{q});
                constexpr bool by_text = Sampler::law::traits.addressed_by_text;
                auto const children =
                    Sampler{}(g, q, sums, source, draw_site{by_text ? position + shape.depth(node) : position, node},
                              span<token_id>(drawn).subspan(static_cast<std::size_t>(shape.first_child(node)),
                                                            static_cast<std::size_t>(shape.child_count(node))));
                certain_children[static_cast<std::size_t>(node)] = children.certain;
            }
            tokens.push_back(std::move(drawn));
            certain.push_back(std::move(certain_children));
        }
    }
    [[nodiscard]] probability_rows<float> target() const { return {rows.target.data(), shape.size(), rows.size}; }
    [[nodiscard]] probability_rows<float> draft() const { return {rows.draft.data(), shape.size(), rows.size}; }
};

/// One verdict.
template <class Verifier, class Sampler>
void verdict_of(benchmark::State& state, std::vector<int> const& children, bench::sampling how = {}) {
    std::vector<index_t> const levels(children.begin(), children.end());
    drawn_trees<Sampler> trees(branching(levels), static_cast<index_t>(state.range(0)), how);
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(trees.shape.size(), trees.shape.max_depth()));
    std::vector<node_id> path(16);
    host_group const g;
    std::int32_t position = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        auto const k = static_cast<std::size_t>(position % trees.count);
        auto const tree =
            make_drafted<typename Sampler::law>({trees.shape.parents(), trees.tokens[k]}, trees.certain[k]);
        verdict answer;
        if constexpr (std::is_same_v<Verifier, verify::shared_randomness>)
            answer =
                verify::shared_randomness{}(g, tree, target_rows(trees.target()), draft_rows(verify::no_draft_rows{}),
                                            trees.source, position % trees.count, path);
        else
            answer = verify::verify_tree(Verifier{}, g, tree, target_rows(trees.target()), draft_rows(trees.draft()),
                                         trees.source, position, span<node_id>(path), span<std::byte>(scratch));
        ++position;
        accepted += answer.accepted;
        benchmark::DoNotOptimize(answer);
    }
    state.counters["accepted"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

/// Traversal with residuals and drafts written out for every node, literally as in its formulas.
struct naive_traversal {
    drawn_trees<draft::sequential> const& trees;
    std::vector<token_id> const& tokens;
    std::int32_t position;
    node_id end = none;

    void visit(node_id node, float weight) {
        auto const v = static_cast<std::size_t>(trees.rows.size);
        auto const begin = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(node) * v);
        std::vector<float> r(trees.rows.target.begin() + begin, trees.rows.target.begin() + begin + trees.rows.size);
        if (trees.shape.child_count(node) > 0) {
            std::vector<float> d(trees.rows.draft.begin() + begin, trees.rows.draft.begin() + begin + trees.rows.size);
            for (node_id child = trees.shape.first_child(node);
                 child < trees.shape.first_child(node) + trees.shape.child_count(node); ++child) {
                auto const x = static_cast<std::size_t>(tokens[static_cast<std::size_t>(child)]);
                visit(child, std::min(1.0F, weight * r[x] / d[x]));
                if (end != none) return;
                float mass = 0;
                for (std::size_t i = 0; i < v; ++i) {
                    r[i] = std::max(weight * r[i] - d[i], 0.0F);
                    mass += r[i];
                }
                if (mass > 0)
                    for (float& a : r) a /= mass;
                weight = mass / (mass + 1 - weight);
                d[x] = 0;
                float left = 0;
                for (float const a : d) left += a;
                for (float& a : d) a /= left;
            }
        }
        if (node == 0 || trees.source.bernoulli(draw_site{position, node}(purpose::acceptance, 0), weight, 1.0F))
            end = node;
    }
};

void traversal_written_out(benchmark::State& state) {
    drawn_trees<draft::sequential> trees(branching({4, 2, 2, 1}), static_cast<index_t>(state.range(0)));
    std::int32_t position = 0;
    std::int64_t accepted = 0;
    for (auto _ : state) {
        naive_traversal walk{trees, trees.tokens[static_cast<std::size_t>(position % trees.count)], position};
        walk.visit(0, 1.0F);
        accepted += trees.shape.depth(walk.end);
        benchmark::DoNotOptimize(walk.end);
        ++position;
    }
    state.counters["accepted"] = static_cast<double>(accepted) / static_cast<double>(state.iterations());
}

/// One rejection at every node with children: the baseline of verifiers that read all of them. The rows of a tree
/// exceed the cache.
void rejection_at_every_inner_node(benchmark::State& state) {
    drawn_trees<draft::sequential> trees(branching({4, 2, 2, 1}), static_cast<index_t>(state.range(0)));
    host_group const g;
    for (auto _ : state)
        for (node_id node = 0; node < trees.shape.size(); ++node) {
            if (trees.shape.child_count(node) == 0) continue;
            auto sums =
                g.sum_chunks(trees.rows.size, verify::residual{trees.target()(g, node), trees.draft()(g, node), 1.0F});
            benchmark::DoNotOptimize(sums.total);
        }
}

void vocabularies(benchmark::internal::Benchmark* b) {
    for (int v : {4096, 32000, 128256}) b->Arg(v);
    b->ArgNames({"V"})->Unit(benchmark::kMicrosecond);
}

std::vector<int> const chain{1, 1, 1, 1};
std::vector<int> const tree{4, 2, 2, 1};
std::vector<int> const fork{4, 1, 1, 1};

void block_of_a_chain(benchmark::State& s) { verdict_of<verify::block<law::iid>, draft::iid>(s, chain); }
void speculative_sampling_of_a_chain(benchmark::State& s) {
    verdict_of<verify::speculative_sampling<law::iid>, draft::iid>(s, chain);
}
void traversal_of_a_tree(benchmark::State& s) {
    verdict_of<verify::traversal<law::sequential>, draft::sequential>(s, tree);
}
void recursive_rejection_of_a_tree(benchmark::State& s) {
    verdict_of<verify::recursive_rejection<law::sequential>, draft::sequential>(s, tree);
}
void multi_path_block_of_a_fork(benchmark::State& s) { verdict_of<verify::multi_path_block, draft::iid>(s, fork); }
void traversal_of_a_fork(benchmark::State& s) { verdict_of<verify::traversal<law::iid>, draft::iid>(s, fork); }
void nested_ranked_block_of_a_cut_tree(benchmark::State& s) {
    verdict_of<verify::nested_ranked_block<law::stratified>, draft::stratified>(s, tree, {0.6F, 0.9});
}
void shared_randomness_of_a_tree(benchmark::State& s) {
    verdict_of<verify::shared_randomness, draft::shared_randomness>(s, tree);
}

void ranked_block_of_a_tree(benchmark::State& s) {
    verdict_of<verify::ranked_block<law::stratified>, draft::stratified>(s, tree);
}
void nested_ranked_block_of_a_tree(benchmark::State& s) {
    verdict_of<verify::nested_ranked_block<law::stratified>, draft::stratified>(s, tree);
}

BENCHMARK(speculative_sampling_of_a_chain)->Apply(vocabularies);
BENCHMARK(block_of_a_chain)->Apply(vocabularies);
BENCHMARK(recursive_rejection_of_a_tree)->Apply(vocabularies);
BENCHMARK(traversal_of_a_tree)->Apply(vocabularies);
BENCHMARK(traversal_written_out)->Apply(vocabularies);
BENCHMARK(traversal_of_a_fork)->Apply(vocabularies);
BENCHMARK(multi_path_block_of_a_fork)->Apply(vocabularies);
BENCHMARK(rejection_at_every_inner_node)->Apply(vocabularies);
BENCHMARK(ranked_block_of_a_tree)->Apply(vocabularies);
BENCHMARK(nested_ranked_block_of_a_tree)->Apply(vocabularies);
BENCHMARK(nested_ranked_block_of_a_cut_tree)->Apply(vocabularies);
BENCHMARK(shared_randomness_of_a_tree)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
