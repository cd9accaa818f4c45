// Building ancestor masks, packed and dense, against walking the ancestors of every node.
//
// items are nodes; bytes are those of the mask. A batch is that many trees, each with separate memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/span.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace {

using multidraft::node_id;
using multidraft::topology;

/// A tree of n nodes: two children per node, truncated at n, so about log2(n) deep.
topology tree_of(std::int64_t n) {
    std::vector<node_id> parents{multidraft::none};
    for (node_id i = 1; i < n; ++i) parents.push_back((i - 1) / 2);
    return topology::from_parents(parents);
}

struct batch {
    explicit batch(benchmark::State const& state)
        : nodes(state.range(0)),
          trees(state.range(1)),
          row_words(multidraft::words_per_row(static_cast<node_id>(nodes))) {
        shape = tree_of(nodes);
    }
    void report(benchmark::State& state, std::int64_t bytes_per_tree) const {
        state.SetItemsProcessed(state.iterations() * trees * nodes);
        state.SetBytesProcessed(state.iterations() * trees * bytes_per_tree);
    }
    std::int64_t nodes;
    std::int64_t trees;
    std::int64_t row_words;
    topology shape;
};

/// Each row from its parent's row.
void packed(benchmark::State& state) {
    batch const b(state);
    std::vector<std::uint64_t> words(static_cast<std::size_t>(b.trees * b.nodes * b.row_words));
    auto const size = static_cast<std::size_t>(b.nodes * b.row_words);
    for (auto _ : state) {
        for (std::int64_t t = 0; t < b.trees; ++t)
            benchmark::DoNotOptimize(multidraft::write_mask(
                b.shape.parents(),
                multidraft::span<std::uint64_t>(words.data() + static_cast<std::size_t>(t) * size, size), b.row_words));
        benchmark::ClobberMemory();
    }
    b.report(state, b.nodes * b.row_words * 8);
}

/// Level by level, as while drafting; memory kept from one tree to the next.
void packed_by_levels(benchmark::State& state) {
    batch const b(state);
    multidraft::ancestor_mask mask;
    for (auto _ : state) {
        for (std::int64_t t = 0; t < b.trees; ++t) {
            mask.reset(b.shape.size());
            for (std::int32_t d = 0; d <= b.shape.max_depth(); ++d) {
                auto const level = b.shape.level(d);
                mask.append(b.shape.parents().subspan(static_cast<std::size_t>(level.first),
                                                      static_cast<std::size_t>(level.count)));
            }
            benchmark::DoNotOptimize(mask.view());
        }
        benchmark::ClobberMemory();
    }
    b.report(state, b.nodes * b.row_words * 8);
}

/// A dense mask from the packed one: bytes, or floats to add to scores.
template <class T>
void dense(benchmark::State& state) {
    batch const b(state);
    multidraft::ancestor_mask const mask(b.shape.parents());
    std::vector<T> out(static_cast<std::size_t>(b.trees * b.nodes * b.nodes));
    for (auto _ : state) {
        for (std::int64_t t = 0; t < b.trees; ++t) {
            multidraft::dense_mask<T> const tree{out.data() + t * b.nodes * b.nodes, b.nodes, b.nodes, b.nodes};
            if constexpr (sizeof(T) == 1)
                multidraft::write_bytes(mask.view(), 0, tree);
            else
                multidraft::write_bias<T>(mask.view(), 0, tree);
        }
        benchmark::ClobberMemory();
    }
    b.report(state, b.nodes * b.nodes * static_cast<std::int64_t>(sizeof(T)));
}

/// The baseline: every entry by a look-up in the packed mask.
void dense_bias_by_entry(benchmark::State& state) {
    batch const b(state);
    multidraft::ancestor_mask const owner(b.shape.parents());
    multidraft::mask_view const mask = owner.view();
    std::vector<float> out(static_cast<std::size_t>(b.trees * b.nodes * b.nodes));
    for (auto _ : state) {
        float* entry = out.data();
        for (std::int64_t t = 0; t < b.trees; ++t)
            for (node_id i = 0; i < b.shape.size(); ++i)
                for (node_id j = 0; j < b.shape.size(); ++j)
                    *entry++ = mask(i, j) ? 0.0F : multidraft::minus_infinity<float>;
        benchmark::ClobberMemory();
    }
    b.report(state, b.nodes * b.nodes * 4);
}

void arguments(benchmark::internal::Benchmark* b) {
    b->ArgNames({"nodes", "batch"});
    for (std::int64_t const nodes : {16, 45, 64, 256, 1024})
        for (std::int64_t const trees : {1, 32}) b->Args({nodes, trees});
}

BENCHMARK(packed)->Apply(arguments);
BENCHMARK(packed_by_levels)->Apply(arguments);
BENCHMARK(dense<std::uint8_t>)->Apply(arguments);
BENCHMARK(dense<float>)->Apply(arguments);
BENCHMARK(dense_bias_by_entry)->Apply(arguments);

}  // namespace
