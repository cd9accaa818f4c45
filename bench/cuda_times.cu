// What the calls of one method take on a device, by CUDA events with a cold L2 cache: drafting, preparing rows, and
// verifying over prepared rows and over logits, which are bfloat16. One JSON object a line.
//
//   cuda_times [--seconds N]        no case begins after N seconds
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/methods/list.hpp"
#include "support/cuda_device.cuh"
#include "support/cuda_stopwatch.cuh"

#if !defined(MULTIDRAFT_TIMES_METHOD)
#define MULTIDRAFT_TIMES_METHOD recursive_rejection_sequential
#endif

namespace cuda_times {

using namespace multidraft;
namespace mc = multidraft::cuda;
using bench::device_array;
using bench::require;
using bench::stopwatch;
using method = methods::MULTIDRAFT_TIMES_METHOD;
using element = multidraft::bfloat16;

/// Random logits of a target, and of a draft that agrees with it for the most part.
struct fill_logits {
    element* target;
    element* draft;

    MULTIDRAFT_HD void operator()(std::int64_t i) const {
        philox_block const words =
            philox4x32({{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}}, {{1, 2}});
        float sum = -1.5F;
        for (int k = 0; k < 3; ++k) sum += static_cast<float>(words.word[k] >> 8) * 0x1p-24F;
        target[i] = element(8 * sum);
        draft[i] = element(8 * sum + 2 * (static_cast<float>(words.word[3] >> 8) * 0x1p-24F - 0.5F));
    }
};

/// n nodes, two children a node, in level order: all methods of these times take it.
std::vector<node_id> tree_of(node_id n) {
    std::vector<node_id> parents{none};
    for (node_id v = 1; v < n; ++v) parents.push_back((v - 1) / 2);
    return parents;
}

void measure(stopwatch& watch, double copy, std::int32_t requests, node_id nodes, index_t v) {
    auto const shape = tree_of(nodes);
    std::int64_t const rows = std::int64_t{requests} * nodes;
    auto const n = static_cast<std::size_t>(rows);
    std::vector<std::int64_t> offsets{0}, first;
    std::vector<node_id> parents, inner;
    std::vector<std::int32_t> request, wanted, positions;
    std::vector<std::int64_t> row;
    std::vector<std::uint64_t> seeds;
    tree_view const tree{shape, {}};
    for (std::int32_t b = 0; b < requests; ++b) {
        for (node_id u = 0; u < nodes; ++u) {
            auto const children = tree.children(u);
            if (children.empty()) continue;
            request.push_back(b);
            inner.push_back(u);
            wanted.push_back(children.count);
            first.push_back(offsets.back() + children.first);
            row.push_back(offsets.back() + u);
        }
        parents.insert(parents.end(), shape.begin(), shape.end());
        offsets.push_back(offsets.back() + nodes);
        positions.push_back(100 + b);
        seeds.push_back(static_cast<std::uint64_t>(b) + 7);
    }
    device_array<std::int64_t> const d_offsets(offsets), d_first(first), d_row(row);
    device_array<node_id> const d_parents(parents), d_inner(inner);
    device_array<std::int32_t> const d_request(request), d_wanted(wanted), d_positions(positions);
    device_array<std::uint64_t> const d_seeds(seeds);
    std::size_t const entries = n * static_cast<std::size_t>(v);
    device_array<element> const target(entries), draft(entries);
    require(mc::for_each(mc::on(nullptr), rows * v, fill_logits{target.data(), draft.data()}));
    device_array<token_id> const tokens(n);
    device_array<index_t> const certain(n);
    device_array<row_state> const p_states(n), q_states(n);
    device_array<float> const sums(n * static_cast<std::size_t>(kept_sums(v)));
    constexpr std::int64_t depth = 8;
    auto const b = static_cast<std::size_t>(requests);
    device_array<node_id> const path(b * depth);
    device_array<std::int32_t> const accepted(b);
    device_array<token_id> const next(b);
    auto const policy = mc::on(nullptr);
    using verifier = method::verifier;
    std::size_t const bytes =
        std::max({verify_workspace_size<verifier>(policy, requests, nodes, depth), row_workspace_size(policy, rows),
                  draft_workspace_size(policy, static_cast<std::int32_t>(request.size()))});
    device_array<std::byte> const memory(bytes);
    workspace const scratch(memory.data(), bytes);

    tree_batch const trees{requests, rows, d_offsets.data(), d_parents.data(), tokens.data(), certain.data(), nodes};
    request_batch const of_requests{d_seeds.data(), d_positions.data()};
    logit_batch<element> const p{target.data(), v, v};
    logit_batch<element> const q{draft.data(), v, v, d_row.data()};
    prepared_batch<element> const prepared_q{draft.data(), v, v, q_states.data()};
    prepared_batch<element> const prepared_p{target.data(), v, v, p_states.data(), nullptr, sums.data()};
    verdict_batch const out{path.data(), depth, accepted.data(), next.data()};
    double mean = 0;
    auto const report = [&](char const* call, double row_passes, double seconds) {
        double const of_rows = row_passes * static_cast<double>(v) * sizeof(element);
        std::printf(
            "{\"call\": \"%s\", \"method\": \"%s\", \"requests\": %d, \"nodes\": %d, \"vocabulary\": %d, "
            "\"us\": %.2f, \"GB_per_s\": %.1f, \"of_copy\": %.3f, \"accepted\": %.2f}\n",
            call, std::string(method::name).c_str(), requests, nodes, v, seconds * 1e6, of_rows / seconds * 1e-9,
            of_rows / seconds / copy, mean);
        std::fflush(stdout);
    };
    auto const draw = [&] {
        return draft_batch(
            policy, method::sampler{},
            {static_cast<std::int32_t>(request.size()), d_request.data(), d_inner.data(), d_wanted.data()},
            draft_rows(q), of_requests,
            {tokens.data(), d_first.data(), 0, nullptr, certain.data(), q_states.data(), d_row.data()}, scratch);
    };
    auto const drafts = drawn_by<method::law>(trees);
    report("draft_batch", static_cast<double>(request.size()), watch(draw));
    report("prepare_batch", static_cast<double>(rows), watch([&] {
               return prepare_batch(policy, trees, target_rows(p), {p_states.data(), sums.data()}, scratch);
           }));
    // The bytes are those of a row of the target for each accepted node and one more.
    double const over_prepared = watch([&] {
        return verify_batch(policy, verifier{}, drafts, target_rows(prepared_p), draft_rows(prepared_q), of_requests,
                            out, scratch);
    });
    for (std::int32_t const a : accepted.host()) mean += static_cast<double>(a) / requests;
    report("verify_batch, prepared rows", (mean + 1) * requests, over_prepared);
    report("verify_batch", (mean + 1) * requests, watch([&] {
               return verify_batch(policy, verifier{}, drafts, target_rows(p), draft_rows(prepared_q), of_requests, out,
                                   scratch);
           }));
}

void measure_all(double limit) {
    auto const begin = std::chrono::steady_clock::now();
    stopwatch watch;
    double const copy = bench::bytes_of_copy_per_second(watch);
    std::printf("{\"call\": \"copy\", \"GB_per_s\": %.1f}\n", copy * 1e-9);
    // The cases that matter most come first.
    for (index_t const v : {128256, 32000, 151936})
        for (std::int32_t const requests : {1, 8, 64, 256})
            for (node_id const nodes : {64, 16, 8}) {
                double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                if (seconds > limit) {
                    std::printf("{\"call\": \"skipped\", \"requests\": %d, \"nodes\": %d, \"vocabulary\": %d}\n",
                                requests, nodes, v);
                    continue;
                }
                measure(watch, copy, requests, nodes, v);
            }
}

}  // namespace cuda_times

int main(int argc, char** argv) {
    try {
        bool const has_limit = argc == 3 && std::string_view(argv[1]) == "--seconds";
        cuda_times::measure_all(has_limit ? std::atof(argv[2]) : 1e9);
        return 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "cuda_times: %s\n", e.what());
        return 2;
    }
}
