// What an engine without this library calls for the same rows, by CUDA events with a cold L2 cache: the plain softmax
// of logits in bfloat16, and their order by a segmented sort of CUB, from which top-k takes the first. One JSON object
// a line.
//
//   cuda_baseline [--seconds N]        no case begins after N seconds
#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/block/block_reduce.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <exception>
#include <string_view>
#include <vector>

#include "support/cuda_device.cuh"
#include "support/cuda_stopwatch.cuh"

namespace cuda_baseline {

using bench::device_array;
using bench::require;
using bench::stopwatch;

constexpr int threads = 512;

__global__ void fill(__nv_bfloat16* logits, std::int64_t n) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n;
         i += std::int64_t{gridDim.x} * blockDim.x)
        logits[i] = __float2bfloat16(static_cast<float>((i * 2654435761LL >> 7) & 1023) * 0.01F);
}

/// One block a row, in three passes: the largest logit, the sum of the weights, the probabilities.
__global__ void softmax(__nv_bfloat16 const* logits, __nv_bfloat16* probabilities, int v) {
    using reduce = cub::BlockReduce<float, threads>;
    __shared__ typename reduce::TempStorage memory;
    __shared__ float shared;
    __nv_bfloat16 const* const row = logits + std::int64_t{blockIdx.x} * v;
    float largest = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < v; i += threads) largest = fmaxf(largest, __bfloat162float(row[i]));
    largest = reduce(memory).Reduce(largest, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x == 0) shared = largest;
    __syncthreads();
    largest = shared;
    __syncthreads();
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < v; i += threads) sum += __expf(__bfloat162float(row[i]) - largest);
    sum = reduce(memory).Sum(sum);
    if (threadIdx.x == 0) shared = 1 / sum;
    __syncthreads();
    float const scale = shared;
    for (int i = static_cast<int>(threadIdx.x); i < v; i += threads)
        probabilities[std::int64_t{blockIdx.x} * v + i] =
            __float2bfloat16(__expf(__bfloat162float(row[i]) - largest) * scale);
}

void measure(stopwatch& watch, double copy, int requests, int nodes, int v) {
    int const rows = requests * nodes;
    std::size_t const n = static_cast<std::size_t>(rows) * static_cast<std::size_t>(v);
    device_array<__nv_bfloat16> const logits(n), out(n);
    fill<<<2048, threads>>>(logits.data(), static_cast<std::int64_t>(n));
    require(cudaGetLastError());
    auto const report = [&](char const* call, double passes, double seconds) {
        double const bytes = passes * static_cast<double>(n) * sizeof(__nv_bfloat16);
        std::printf(
            "{\"call\": \"%s\", \"method\": \"baseline\", \"requests\": %d, \"nodes\": %d, \"vocabulary\": %d, "
            "\"us\": %.2f, \"GB_per_s\": %.1f, \"of_copy\": %.3f}\n",
            call, requests, nodes, v, seconds * 1e6, bytes / seconds * 1e-9, bytes / seconds / copy);
        std::fflush(stdout);
    };
    // The bytes are those of a row read once and written once.
    report("plain softmax", 2, watch([&] {
               softmax<<<static_cast<unsigned>(rows), threads>>>(logits.data(), out.data(), v);
               return cudaGetLastError();
           }));
    if (n > (std::size_t{1} << 30)) return;  // a sort's memory
    std::vector<int> ends;
    for (int row = 0; row <= rows; ++row) ends.push_back(row * v);
    device_array<int> const offsets(ends);
    std::size_t bytes = 0;
    auto const sort = [&](void* memory) {
        return cub::DeviceSegmentedSort::SortKeysDescending(
            memory, bytes, logits.data(), out.data(), static_cast<int>(n), rows, offsets.data(), offsets.data() + 1);
    };
    require(sort(nullptr));
    device_array<std::byte> const memory(bytes);
    report("segmented sort of CUB", 2, watch([&] { return sort(memory.data()); }));
}

void measure_all(double limit) {
    auto const begin = std::chrono::steady_clock::now();
    stopwatch watch;
    double const copy = bench::bytes_of_copy_per_second(watch);
    std::printf("{\"call\": \"copy\", \"GB_per_s\": %.1f}\n", copy * 1e-9);
    for (int const v : {128256, 32000, 151936})
        for (int const requests : {1, 8, 64})
            for (int const nodes : {64, 16, 8}) {
                if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > limit) return;
                measure(watch, copy, requests, nodes, v);
            }
}

}  // namespace cuda_baseline

int main(int argc, char** argv) {
    try {
        bool const has_limit = argc == 3 && std::string_view(argv[1]) == "--seconds";
        cuda_baseline::measure_all(has_limit ? std::atof(argv[2]) : 1e9);
        return 0;
    } catch (std::exception const& e) {
        std::fprintf(stderr, "cuda_baseline: %s\n", e.what());
        return 2;
    }
}
