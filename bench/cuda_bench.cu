// The launches on a device: time by CUDA events with a cold L2 cache, and the rate against a measured copy.
#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/cuda_device.cuh"
#include "support/cuda_stopwatch.cuh"

namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
using bench::device_array;
using bench::require;
using bench::stopwatch;
using verifier = verify::recursive_rejection<law::sequential>;

[[nodiscard]] bool has_device() {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

/// Bytes read and written per second by a copy on the device.
double copy_rate() {
    static double const rate = [] {
        stopwatch watch;
        return bench::bytes_of_copy_per_second(watch);
    }();
    return rate;
}

/// The median time of the launches goes to the report, beside google-benchmark's own mean.
template <class Launch>
void measure(benchmark::State& state, double bytes, Launch const& launch) {
    stopwatch watch;
    for (int k = 0; k < 3; ++k) static_cast<void>(watch.once(launch));
    std::vector<double> seconds;
    for (auto _ : state) {
        seconds.push_back(watch.once(launch));
        state.SetIterationTime(seconds.back());
    }
    std::sort(seconds.begin(), seconds.end());
    double const median = seconds[seconds.size() / 2];
    state.counters["median_us"] = median * 1e6;
    state.counters["GB_per_s"] = bytes / median * 1e-9;
    state.counters["of_copy"] = bytes / median / copy_rate();
}

/// Random logits: two models whose rows agree about as well as a small one's do with a large one's, or entirely.
template <class T>
__global__ void fill(T* target, T* draft, std::int64_t n, float difference) {
    std::int64_t const step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
        philox_block const words =
            philox4x32({{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}}, {{1, 2}});
        auto const uniform = [&](int k) { return static_cast<float>(words.word[k] >> 8) * 0x1p-24F; };
        float const base = 8.0F * (uniform(0) + uniform(1) + uniform(2) - 1.5F);
        target[i] = T(base);
        draft[i] = T(base + difference * (uniform(3) - 0.5F));
    }
}

/// A tree of n nodes and five levels below the root.
std::vector<node_id> tree_of(node_id n) {
    constexpr node_id depth = 5;
    std::vector<node_id> parents{none};
    node_id begin = 0;
    node_id width = 1;
    for (node_id level = 0; level < depth; ++level) {
        node_id const here = (n - 1) / depth + (level < (n - 1) % depth ? 1 : 0);
        auto const end = static_cast<node_id>(parents.size());
        for (node_id k = 0; k < here; ++k) parents.push_back(begin + k * width / here);
        begin = end;
        width = here;
    }
    return parents;
}

/// `requests` equal trees on the device, with the rows of both models.
template <class T>
struct batch {
    batch(std::int32_t requests, node_id nodes, index_t v, float difference,
          sampling_params const& sampling_of_all = {})
        : size(requests),
          vocabulary(v),
          w(sampling_of_all),
          shape(tree_of(nodes)),
          rows(std::int64_t{requests} * nodes),
          scratch_size(std::max(verify_workspace_size<verifier>(mc::on(nullptr), requests, nodes, 8),
                                draft_workspace_size(mc::on(nullptr), static_cast<std::int32_t>(rows)))),
          scratch(std::make_unique<device_array<std::byte>>(scratch_size)) {
        std::vector<std::int64_t> host_offsets;
        std::vector<node_id> host_parents;
        std::vector<std::int32_t> host_positions;
        std::vector<std::uint64_t> host_seeds;
        for (std::int32_t b = 0; b < requests; ++b) {
            host_offsets.push_back(std::int64_t{b} * nodes);
            host_parents.insert(host_parents.end(), shape.begin(), shape.end());
            host_positions.push_back(100 + b);
            host_seeds.push_back(static_cast<std::uint64_t>(b) + 7);
        }
        host_offsets.push_back(rows);
        offsets = std::make_unique<device_array<std::int64_t>>(host_offsets);
        parents = std::make_unique<device_array<node_id>>(host_parents);
        positions = std::make_unique<device_array<std::int32_t>>(host_positions);
        seeds = std::make_unique<device_array<std::uint64_t>>(host_seeds);
        auto const n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(v);
        target = std::make_unique<device_array<T>>(n);
        draft = std::make_unique<device_array<T>>(n);
        fill<<<4096, 256>>>(target->data(), draft->data(), rows * v, difference);
        require(cudaGetLastError());
        // All inner nodes at once, since the draws are independent.
        std::vector<std::int32_t> host_request, host_wanted;
        std::vector<node_id> host_nodes;
        std::vector<std::int64_t> host_first;
        tree_view const tree{shape, {}};
        for (std::int32_t b = 0; b < requests; ++b)
            for (node_id v_node = 0; v_node < nodes; ++v_node) {
                auto const children = tree.children(v_node);
                host_request.push_back(b);
                host_nodes.push_back(v_node);
                host_wanted.push_back(children.count);
                host_first.push_back(std::int64_t{b} * nodes + (children.empty() ? 0 : children.first));
            }
        request = std::make_unique<device_array<std::int32_t>>(host_request);
        wanted = std::make_unique<device_array<std::int32_t>>(host_wanted);
        nodes_of_entries = std::make_unique<device_array<node_id>>(host_nodes);
        first = std::make_unique<device_array<std::int64_t>>(host_first);
    }

    [[nodiscard]] tree_batch trees() const { return {size, rows, offsets->data(), parents->data(), tokens.data()}; }
    [[nodiscard]] request_batch requests() const { return {seeds->data(), positions->data()}; }
    [[nodiscard]] logit_batch<T> logits(device_array<T> const& from) const {
        return {from.data(), vocabulary, vocabulary, nullptr, nullptr, w};
    }
    void draw() const {
        level_batch const level{static_cast<std::int32_t>(rows), request->data(), nodes_of_entries->data(),
                                wanted->data()};
        children_batch const out{tokens.data(), first->data(), 0, nullptr, nullptr, states.data()};
        require(draft_batch(mc::on(nullptr), draft::sequential{}, level, draft_rows(logits(*draft)), requests(), out,
                            {scratch->data(), scratch_size}));
    }
    void verify_all(mc::launch_options const& options) const {
        prepared_batch<T> const q{draft->data(), vocabulary, vocabulary, states.data()};
        require(verify_batch(mc::on(nullptr, options), verifier{}, drawn_by<law::sequential>(trees()),
                             target_rows(logits(*target)), draft_rows(q), requests(),
                             {path.data(), 8, accepted.data(), next.data()}, {scratch->data(), scratch_size}));
    }

    std::int32_t size;
    index_t vocabulary;
    sampling_params w;
    std::vector<node_id> shape;
    std::int64_t rows;
    std::size_t scratch_size;
    std::unique_ptr<device_array<std::byte>> scratch;
    std::unique_ptr<device_array<std::int64_t>> offsets, first;
    std::unique_ptr<device_array<node_id>> parents, nodes_of_entries;
    std::unique_ptr<device_array<std::int32_t>> positions, request, wanted;
    std::unique_ptr<device_array<std::uint64_t>> seeds;
    std::unique_ptr<device_array<T>> target, draft;
    device_array<token_id> tokens{static_cast<std::size_t>(rows)};
    device_array<row_state> states{static_cast<std::size_t>(rows)};
    device_array<node_id> path{static_cast<std::size_t>(size) * 8};
    device_array<std::int32_t> accepted{static_cast<std::size_t>(size)};
    device_array<token_id> next{static_cast<std::size_t>(size)};
};

/// Verification. With equal models every tree is accepted down to a leaf: one row of the target per level and no other.
/// With different models rejections add passes over a row of each; the bytes are then a lower bound.
template <class T>
void verify_trees(benchmark::State& state, float difference) {
    batch<T> const b(static_cast<std::int32_t>(state.range(0)), static_cast<node_id>(state.range(1)),
                     static_cast<index_t>(state.range(2)), difference);
    b.draw();
    mc::launch_options options;
    options.max_cluster = static_cast<int>(state.range(3));
    options.max_grid = static_cast<int>(state.range(4));
    options.max_prefetched_rows = static_cast<int>(state.range(5));
    b.verify_all(options);
    std::vector<std::int32_t> accepted(static_cast<std::size_t>(b.size));
    require(cudaMemcpy(accepted.data(), b.accepted.data(), accepted.size() * 4, cudaMemcpyDeviceToHost));
    double rows = 0;
    for (std::int32_t const a : accepted) rows += a + 1;
    measure(state, rows * static_cast<double>(b.vocabulary) * sizeof(T), [&] { b.verify_all(options); });
    state.counters["accepted"] = rows / b.size - 1;
}

/// Children for every node of every tree, as one level. The bytes are those of one pass.
template <class T>
void draw_children(benchmark::State& state, sampling_params const& w) {
    batch<T> const b(static_cast<std::int32_t>(state.range(0)), static_cast<node_id>(state.range(1)),
                     static_cast<index_t>(state.range(2)), 2.0F, w);
    measure(state, static_cast<double>(b.rows) * static_cast<double>(b.vocabulary) * sizeof(T), [&] { b.draw(); });
}

void packed_masks(benchmark::State& state) {
    batch<float> const b(static_cast<std::int32_t>(state.range(0)), static_cast<node_id>(state.range(1)), 8, 1.0F);
    std::int64_t const words = (state.range(1) + 63) / 64;
    device_array<std::uint64_t> const out(static_cast<std::size_t>(b.rows * words));
    measure(state, static_cast<double>(b.rows * words) * 8,
            [&] { require(write_masks(mc::on(nullptr), b.trees(), out.data(), words)); });
}

void dense_masks(benchmark::State& state) {
    batch<float> const b(static_cast<std::int32_t>(state.range(0)), static_cast<node_id>(state.range(1)), 8, 1.0F);
    std::int64_t const words = (state.range(1) + 63) / 64;
    std::int64_t const columns = (state.range(1) + 15) / 16 * 16;
    device_array<std::uint64_t> const packed(static_cast<std::size_t>(b.rows * words));
    device_array<multidraft::float16> const out(static_cast<std::size_t>(b.rows * columns));
    require(write_masks(mc::on(nullptr), b.trees(), packed.data(), words));
    measure(state, static_cast<double>(b.rows * columns) * 2, [&] {
        require(write_bias(mc::on(nullptr), b.trees(), packed.data(), words,
                           multidraft::dense_masks<multidraft::float16>{out.data(), columns, columns, nullptr}));
    });
}

/// Five kept nodes of 64 in a cache of 32 layers, keys and values, 8 heads of 128 entries of two bytes.
void compaction(benchmark::State& state) {
    auto const requests = static_cast<std::int32_t>(state.range(0));
    constexpr std::int64_t entries = 128;
    constexpr std::int64_t entry = 8 * 128 * 2;
    constexpr std::int64_t planes = 64;
    device_array<std::uint8_t> const data(static_cast<std::size_t>(requests * planes * entries * entry));
    std::vector<node_id> nodes;
    for (std::int32_t b = 0; b < requests; ++b) nodes.insert(nodes.end(), {3, 12, 25, 38, 51});
    device_array<node_id> const kept(nodes);
    device_array<std::int32_t> const counts(std::vector<std::int32_t>(static_cast<std::size_t>(requests), 5));
    device_array<std::int64_t> const bases(std::vector<std::int64_t>(static_cast<std::size_t>(requests), 64));
    contiguous_cache cache;
    cache.data = data.data();
    cache.request_stride = planes * entries * entry;
    cache.entry_stride = entry;
    cache.entry_bytes = entry;
    cache.axes[0] = {planes, entries * entry};
    measure(state, 2.0 * 5 * static_cast<double>(requests * planes * entry), [&] {
        require(compact_caches(mc::on(nullptr), cache,
                               kept_batch{requests, kept.data(), 5, counts.data(), bases.data(), 1}));
    });
}

/// Bytes of both models' rows.
double bytes_of(std::int64_t requests, std::int64_t nodes, std::int64_t vocabulary, std::size_t entry) {
    return 2.0 * static_cast<double>(requests * nodes * vocabulary) * static_cast<double>(entry);
}

/// Registers a benchmark; without a device it is listed, and reports that nothing was measured.
template <class Function>
benchmark::internal::Benchmark* add(std::string const& name, Function const& function) {
    auto const run = [function](benchmark::State& state) {
        if (has_device()) {
            function(state);
            return;
        }
        for (auto _ : state) state.SetIterationTime(0);
        state.SetLabel("nothing measured: no CUDA device");
    };
    auto* const b = benchmark::RegisterBenchmark(name.c_str(), run);
    b->UseManualTime()->Unit(benchmark::kMicrosecond);
    if (!has_device()) b->Iterations(1);
    return b;
}

template <class T>
void add_rows(std::string const& type, std::int64_t requests, std::int64_t nodes, std::int64_t v, double memory) {
    if (bytes_of(requests, nodes, v, sizeof(T)) > 0.9 * memory) return;
    // One block per tree, clusters, the blocks of a grid; with rows prefetched where requests are few, and without.
    auto const in_every_shape = [&](benchmark::internal::Benchmark* b) {
        b->ArgNames({"B", "nodes", "V", "cluster", "grid", "ahead"});
        b->Args({requests, nodes, v, 1, 1, 0})->Args({requests, nodes, v, 8, 1, 0});
        if (requests > mc::max_grid_requests) return;
        for (int const ahead : {0, 4})
            b->Args({requests, nodes, v, 16, 1, ahead})->Args({requests, nodes, v, 1, mc::max_grid_ranks, ahead});
    };
    in_every_shape(add("verify_accepting/" + type, [](benchmark::State& s) { verify_trees<T>(s, 0.0F); }));
    in_every_shape(add("verify/" + type, [](benchmark::State& s) { verify_trees<T>(s, 2.0F); }));
    auto const plain = [&](benchmark::internal::Benchmark* b) {
        b->ArgNames({"B", "nodes", "V"})->Args({requests, nodes, v});
    };
    plain(add("draw/" + type, [](benchmark::State& s) { draw_children<T>(s, {}); }));
    plain(add("draw_top_k_top_p/" + type,
              [](benchmark::State& s) { draw_children<T>(s, {.temperature = 0.8F, .top_k = 50, .top_p = 0.9F}); }));
}

[[maybe_unused]] bool const registered = [] {
    std::size_t unused = 0;
    std::size_t total = std::size_t{141} << 30;  // an H200, for the list
    if (has_device()) require(cudaMemGetInfo(&unused, &total));
    for (std::int64_t const requests : {1, 8, 64, 256}) {
        for (std::int64_t const nodes : {8, 64, 512}) {
            for (std::int64_t const v : {32000, 128256, 151936}) {
                add_rows<float>("float", requests, nodes, v, static_cast<double>(total));
                add_rows<bfloat16>("bfloat16", requests, nodes, v, static_cast<double>(total));
            }
            add("packed_masks", packed_masks)->ArgNames({"B", "nodes"})->Args({requests, nodes});
            add("dense_masks/float16", dense_masks)->ArgNames({"B", "nodes"})->Args({requests, nodes});
        }
        add("compaction", compaction)->ArgNames({"B"})->Args({requests});
    }
    return true;
}();

}  // namespace

BENCHMARK_MAIN();
