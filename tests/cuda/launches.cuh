// Drafting and verifying a ragged batch by launches, in a graph or not, against the host's functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/on_device.cuh"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The draft's rows of a level, gathered as in an engine's batch.
template <class T>
struct device_level {
    device_level(batch<T> const& b, typename batch<T>::level const& l)
        : request(l.request),
          wanted(l.wanted),
          nodes(l.nodes),
          first(l.first),
          row(l.row),
          logits(rows_of(b, l)),
          entries(static_cast<std::int32_t>(l.request.size())) {}

    static std::vector<T> rows_of(batch<T> const& b, typename batch<T>::level const& l) {
        std::vector<T> rows;
        for (std::int64_t const r : l.row)
            rows.insert(rows.end(), b.draft.begin() + r * b.vocabulary, b.draft.begin() + (r + 1) * b.vocabulary);
        return rows;
    }

    on_device<std::int32_t> request, wanted;
    on_device<node_id> nodes;
    on_device<std::int64_t> first, row;
    on_device<T> logits;
    std::int32_t entries;
};

/// The launches of an engine's step: drafting each level, masks, positions, verification, compaction.
template <class T, class Sampler, class Verifier>
struct step {
    explicit step(batch<T> const& host)
        : device(host),
          path(std::vector<node_id>(static_cast<std::size_t>(host.size() * host.path_stride), -7)),
          accepted(static_cast<std::size_t>(host.size())),
          next(static_cast<std::size_t>(host.size())),
          words(host.parents.size()),
          node_positions(host.parents.size()),
          bases(std::vector<std::int64_t>{0, 0, 0, 0}),
          cache(cache_of(host)),
          memory(std::max(verify_workspace_size<Verifier>(cuda::on(nullptr), host.size(), 10, 6),
                          draft_workspace_size(cuda::on(nullptr), 8))),
          path_stride(host.path_stride) {
        for (std::int32_t depth = 0; depth < host.levels().deepest; ++depth)
            levels.push_back(std::make_unique<device_level<T>>(host, host.level_arrays(depth)));
    }

    static constexpr std::int64_t entry = 48;
    static constexpr std::int64_t entries = 16;
    static std::vector<std::uint8_t> cache_of(batch<T> const& host) {
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(host.size() * entries * entry));
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i / 48 * 7 + i % 48);
        return bytes;
    }

    /// `draft`: prepared rows with the states that the draft launches wrote, or the logits again.
    template <class Draft>
    void launch(cudaStream_t stream, Draft const& draft, cuda::launch_options const& options) const {
        auto const policy = cuda::on(stream, options);
        workspace const scratch(memory.data(), memory.size());
        for (auto const& l : levels) {
            level_batch const level{l->entries, l->request.data(), l->nodes.data(), l->wanted.data()};
            children_batch const out{device.tokens.data(), l->first.data(), 0, nullptr, device.certain.data(),
                                     device.states.data(), l->row.data()};
            EXPECT_CUDA(draft_batch(policy, Sampler{}, level, draft_rows(device.logits(l->logits)), device.requests(),
                                    out, scratch));
        }
        EXPECT_CUDA(write_masks(cuda::on(stream), device.trees(), words.data(), 1));
        EXPECT_CUDA(write_positions(cuda::on(stream), device.trees(), device.positions.data(), node_positions.data()));
        EXPECT_CUDA(verify_batch(policy, Verifier{}, drawn_by<typename Sampler::law>(device.trees()),
                                 target_rows(device.logits(device.target)), draft_rows(draft), device.requests(),
                                 verdict_batch{path.data(), path_stride, accepted.data(), next.data()}, scratch));
        contiguous_cache layout;
        layout.data = cache.data();
        layout.request_stride = entries * entry;
        layout.entry_stride = entry;
        layout.entry_bytes = entry;
        EXPECT_CUDA(
            compact_caches(cuda::on(stream), layout,
                           kept_batch{device.size, path.data(), path_stride, accepted.data(), bases.data(), 1}));
    }

    device_batch<T> device;
    std::vector<std::unique_ptr<device_level<T>>> levels;
    on_device<node_id> path;
    on_device<std::int32_t> accepted;
    on_device<token_id> next;
    on_device<std::uint64_t> words;
    on_device<std::int32_t> node_positions;
    on_device<std::int64_t> bases;
    on_device<std::uint8_t> cache;
    on_device<std::byte> memory;
    std::int64_t path_stride;
};

/// Compares the results of a step with the host's.
template <class T, class Sampler, class Verifier>
void expect_host_results(step<T, Sampler, Verifier> const& s, batch<T> const& blank) {
    auto host = blank;
    host.draft_on_host(Sampler{});
    auto const expected = host.verify_on_host(Verifier{});
    EXPECT_EQ(s.device.tokens.host(), host.tokens);
    EXPECT_EQ(s.device.certain.host(), host.certain);
    EXPECT_EQ(s.accepted.host(), expected.accepted);
    EXPECT_EQ(s.next.host(), expected.next);
    // The normalisers, bit for bit.
    auto const states = s.device.states.host();
    for (std::size_t k = 0; k < states.size(); ++k) {
        EXPECT_EQ(states[k].largest, host.states[k].largest) << k;
        EXPECT_EQ(states[k].mass, host.states[k].mass) << k;
        EXPECT_EQ(states[k].cut_value, host.states[k].cut_value) << k;
        EXPECT_TRUE(host.keeps_the_same(k, states[k])) << k;
    }
    verdicts got(host.size(), host.path_stride);
    got.path = s.path.host();
    auto const words = s.words.host();
    auto const positions = s.node_positions.host();
    auto const before = s.cache_of(host);
    auto const after = s.cache.host();
    for (std::int32_t b = 0; b < host.size(); ++b) {
        auto const at = static_cast<std::size_t>(b);
        for (std::int32_t k = 0; k < expected.accepted[at]; ++k) {
            EXPECT_EQ(got.node(b, k), expected.node(b, k));
            auto const to = static_cast<std::size_t>((b * s.entries + 1 + k) * s.entry);
            auto const from = static_cast<std::size_t>((b * s.entries + expected.node(b, k)) * s.entry);
            EXPECT_TRUE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(to),
                                   after.begin() + static_cast<std::ptrdiff_t>(to) + s.entry,
                                   before.begin() + static_cast<std::ptrdiff_t>(from)));
        }
        tree_view const tree = host.trees()(b);
        ancestor_mask const mask(tree.parents);
        for (node_id i = 0; i < tree.size(); ++i) {
            auto const row = static_cast<std::size_t>(host.offsets[at] + i);
            EXPECT_EQ(positions[row], host.positions[at] + tree.depth(i));
            for (node_id j = 0; j < tree.size(); ++j) EXPECT_EQ(((words[row] >> j) & 1U) != 0, mask.view()(i, j));
        }
    }
}

enum class how { at_once, in_a_graph };

template <class T, class Sampler, class Verifier>
void expect_step(index_t vocabulary, sampling_params w, bool use_states, cuda::launch_options const& options,
                 how when) {
    SCOPED_TRACE(::testing::Message() << "V " << vocabulary << " cluster " << options.max_cluster << " grid "
                                      << options.max_grid);
    batch<T> const blank(vocabulary, w);
    step<T, Sampler, Verifier> const s(blank);
    auto const launch = [&](cudaStream_t stream) {
        if (use_states)
            s.launch(stream, prepared_batch<T>{s.device.draft.data(), vocabulary, vocabulary, s.device.states.data()},
                     options);
        else
            s.launch(stream, s.device.logits(s.device.draft), options);
    };
    cudaStream_t stream = nullptr;
    EXPECT_CUDA(cudaStreamCreate(&stream));
    if (when == how::at_once) {
        launch(stream);
        EXPECT_CUDA(cudaStreamSynchronize(stream));
        expect_host_results(s, blank);
    } else {
        // Captured once, launched twice: the second run begins from the same inputs and gives the same bits.
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        launch(stream);
        EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
        EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
        auto const cache = s.cache_of(blank);
        for (int run = 0; run < 2; ++run) {
            EXPECT_CUDA(cudaMemcpy(s.device.tokens.data(), blank.tokens.data(), blank.tokens.size() * sizeof(token_id),
                                   cudaMemcpyHostToDevice));
            EXPECT_CUDA(cudaMemcpy(s.cache.data(), cache.data(), cache.size(), cudaMemcpyHostToDevice));
            EXPECT_CUDA(cudaMemset(s.next.data(), 0x55, s.next.size() * sizeof(token_id)));
            EXPECT_CUDA(cudaMemset(s.memory.data(), 0xaa, s.memory.size()));  // its contents do not matter
            EXPECT_CUDA(cudaGraphLaunch(executable, stream));
            EXPECT_CUDA(cudaStreamSynchronize(stream));
            expect_host_results(s, blank);
        }
        EXPECT_CUDA(cudaGraphExecDestroy(executable));
        EXPECT_CUDA(cudaGraphDestroy(graph));
    }
    EXPECT_CUDA(cudaStreamDestroy(stream));
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
