// Kernel launches as independent blocks, clusters or a cooperative grid, in the shape that suits a batch and a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// The largest cluster size, in blocks, that every device with clusters supports.
inline constexpr int portable_cluster = 8;

/// Allows a kernel clusters of more than `portable_cluster` blocks.
template <class Kernel>
[[nodiscard]] cudaError_t allow_large_clusters(Kernel* kernel) {
    return cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel), cudaFuncAttributeNonPortableClusterSizeAllowed,
                                1);
}

/// The launch attribute for clusters of `ranks` blocks.
[[nodiscard]] inline cudaLaunchAttribute cluster_attribute(int ranks) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(ranks);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    return cluster;
}

/// The launch attribute of a cooperative launch: all its blocks are resident at once.
[[nodiscard]] inline cudaLaunchAttribute cooperative_attribute() {
    cudaLaunchAttribute cooperative{};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    return cooperative;
}

/// Whether `batch` clusters of a kernel fit on the device at once, each of `ranks` blocks of `row_threads`
/// threads.
///
/// "No" is a valid answer, so the runtime's error is cleared and does not reach the launch that follows. While an error
/// of the caller's is pending the runtime is not asked, since that would clear it: the answer is "no".
template <class Kernel>
[[nodiscard]] bool can_place(Kernel* kernel, std::int64_t batch, int ranks) {
    if (cudaPeekAtLastError() != cudaSuccess) return false;
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(static_cast<unsigned>(ranks));
    configuration.blockDim = dim3(static_cast<unsigned>(row_threads));
    cudaLaunchAttribute cluster = cluster_attribute(ranks);
    configuration.attrs = &cluster;
    configuration.numAttrs = 1;
    int clusters = 0;
    if (allow_large_clusters(kernel) == cudaSuccess &&
        cudaOccupancyMaxActiveClusters(&clusters, reinterpret_cast<void const*>(kernel), &configuration) == cudaSuccess)
        return clusters >= batch;
    static_cast<void>(cudaGetLastError());
    return false;
}

/// Chooses the launch shape of a kernel on the current device; grid-wide only with `has_memory`.
template <class Kernel>
[[nodiscard]] cudaError_t choose_for(Kernel* kernel, std::int64_t batch, index_t vocabulary,
                                     launch_options const& options, bool has_memory, shape& result) {
    int device = 0;
    int multiprocessors = 0;
    if (cudaError_t const e = cudaGetDevice(&device)) return e;
    if (cudaError_t const e = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
        return e;
    // Clusters need a device that has them and code that was compiled for it.
    int has_clusters = 0;
    if (cudaError_t const e = cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, device)) return e;
    cudaFuncAttributes attributes{};
    if (cudaError_t const e = cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(kernel))) return e;
    int is_cooperative = 0;
    if (has_memory)
        if (cudaError_t const e = cudaDeviceGetAttribute(&is_cooperative, cudaDevAttrCooperativeLaunch, device))
            return e;
    int const most = options.max_cluster < max_ranks ? options.max_cluster : max_ranks;
    int const grid = is_cooperative == 0 ? 1 : options.max_grid < max_grid_ranks ? options.max_grid : max_grid_ranks;
    int const cluster = has_clusters != 0 && attributes.ptxVersion >= 90 ? most : 1;
    result = choose_shape(batch, vocabulary, multiprocessors, cluster, grid);
    if (!result.grid && result.ranks > portable_cluster && !can_place(kernel, batch, result.ranks))
        result = choose_shape(batch, vocabulary, multiprocessors, portable_cluster, grid);
    return cudaSuccess;
}

/// Launches `batch` groups of `s.ranks` blocks, as clusters or as one cooperative grid. Returns the launch's error.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch(void (*kernel)(Parameters...), std::int64_t batch, shape const& s, int threads,
                                 cudaStream_t stream, Arguments const&... arguments) {
    int const ranks = s.ranks;
    if (batch == 0) return cudaSuccess;
    if (batch < 0 || batch > 0x7fffffff / ranks) return cudaErrorInvalidValue;
    if (ranks > portable_cluster && !s.grid)
        if (cudaError_t const e = allow_large_clusters(kernel)) return e;
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(static_cast<unsigned>(batch * ranks));
    configuration.blockDim = dim3(static_cast<unsigned>(threads));
    configuration.stream = stream;
    cudaLaunchAttribute together = s.grid ? cooperative_attribute() : cluster_attribute(ranks);
    configuration.attrs = &together;
    configuration.numAttrs = ranks > 1 ? 1 : 0;
    // Argument types must equal the kernel's parameter types: no implicit conversions.
    static_assert(sizeof...(Parameters) == sizeof...(Arguments) && (std::is_same_v<Parameters, Arguments> && ...));
    return cudaLaunchKernelEx(&configuration, kernel, arguments...);
}

/// Launches `blocks` independent blocks.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch_blocks(void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                                        cudaStream_t stream, Arguments const&... arguments) {
    return launch(kernel, blocks, shape{}, threads, stream, arguments...);
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
