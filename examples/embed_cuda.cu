// An engine on a device: its own pointers to logits, its stream, its memory, and one launch that it captures in a graph
// together with its own kernels. Only the engine allocates or waits.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

static void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    std::printf("%s\n", cudaGetErrorString(error));
    std::exit(1);
}

// The engine's allocator.
template <class T>
static T* device_array(std::size_t size, T const* from = nullptr) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size * sizeof(T)));
    if (from != nullptr) check(cudaMemcpy(memory, from, size * sizeof(T), cudaMemcpyHostToDevice));
    return static_cast<T*>(memory);
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("no device here; nothing was run\n");
        return 0;
    }

    using sampler = md::draft::sequential;
    // One request: two candidates below the root, drawn on the host here (`draft_batch` draws them on a device).
    std::int64_t const offsets[] = {0, 3};
    md::node_id const parents[] = {-1, 0, 0};
    md::token_id tokens[] = {42, 0, 0};
    std::uint64_t const seed = 2024;
    std::int32_t const position = 1;
    md::sampling_params const sampling{.temperature = 0.8F, .top_p = 0.95F};
    std::vector<float> p(3 * toy::row_stride);
    std::vector<float> q(3 * toy::row_stride);
    md::host_group const g;
    md::addressed_source source{md::addressed_uniforms(seed)};
    for (int v = 0; v < 3; ++v) {
        std::vector<std::int32_t> text{7, 42};
        if (v > 0) text.push_back(tokens[v]);
        toy::forward(toy::model::target, text, p.data() + v * toy::row_stride);
        toy::forward(toy::model::draft, text, q.data() + v * toy::row_stride);
        if (v > 0) continue;
        auto row = md::process_logits(g, md::row_view<float>(q.data(), toy::vocabulary), sampling);
        [[maybe_unused]] md::drawn_children const drawn =
            sampler{}(g, row.row, row.sums, source, {position, 0}, {tokens + 1, 2});
    }

    // The engine's data on the device. `out` is written by the launch.
    using verifier = md::verify::recursive_rejection<sampler::law>;
    // The trees carry the sampler's law: with a verifier of another one the launch below does not compile.
    md::tree_batch const trees{1, 3, device_array(2, offsets), device_array(3, parents), device_array(3, tokens)};
    auto const drafts = md::drawn_by<sampler::law>(trees);
    md::request_batch const requests{device_array(1, &seed), device_array(1, &position)};
    auto const rows = [&](std::vector<float> const& from) {
        return md::logit_batch<float>{
            device_array(from.size(), from.data()), toy::row_stride, toy::vocabulary, nullptr, nullptr, sampling};
    };
    md::target_rows const target(rows(p));
    md::draft_rows const draft(rows(q));
    std::size_t const size = md::verify_workspace_size<verifier>(md::cuda::on(nullptr), 1, 3, 1);
    md::workspace const scratch(device_array<std::byte>(size), size);
    auto* const accepted = device_array<std::int32_t>(1);
    auto* const next = device_array<md::token_id>(1);
    auto* const path = device_array<md::node_id>(1);
    md::verdict_batch const out{path, 1, accepted, next};

    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream));
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(md::verify_batch(md::cuda::on(stream), verifier{}, drafts, target, draft, requests, out, scratch));
    check(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t step = nullptr;
    check(cudaGraphInstantiate(&step, graph, 0));
    check(cudaGraphLaunch(step, stream));
    check(cudaStreamSynchronize(stream));

    std::int32_t device_accepted = 0;
    md::token_id device_next = 0;
    check(cudaMemcpy(&device_accepted, accepted, sizeof(device_accepted), cudaMemcpyDeviceToHost));
    check(cudaMemcpy(&device_next, next, sizeof(device_next), cudaMemcpyDeviceToHost));

    // The host takes the same decision, bit for bit.
    md::node_id host_path[1];
    auto const host =
        verifier{}(g, md::drafted<sampler::law>{{parents, tokens}},
                   md::target_rows(md::logit_rows<float>({p.data(), 3, toy::vocabulary, toy::row_stride}, sampling)),
                   md::draft_rows(md::logit_rows<float>({q.data(), 3, toy::vocabulary, toy::row_stride}, sampling)),
                   source, position, host_path);
    bool const same = host.accepted == device_accepted && host.next == device_next;
    std::printf("accepted %d, next token %d; as on the host: %s\n", device_accepted, device_next, same ? "yes" : "no");
    return same ? 0 : 1;
}

// Output with a device (without one: "no device here; nothing was run"):
// accepted ..., next token ...; as on the host: yes
