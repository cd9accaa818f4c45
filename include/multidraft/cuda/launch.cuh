// Launches of blocks, clusters and cooperative grids in the shape that suits a batch and a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// Blocks of a cluster that every device with clusters can place.
inline constexpr int portable_cluster = 8;

/// Lets a kernel be launched in clusters of more than `portable_cluster` blocks.
template <class Kernel>
[[nodiscard]] cudaError_t allow_large_clusters(Kernel* kernel) {
    return cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel), cudaFuncAttributeNonPortableClusterSizeAllowed,
                                1);
}

/// What makes clusters of `ranks` blocks of a launch.
[[nodiscard]] inline cudaLaunchAttribute cluster_attribute(int ranks) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(ranks);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    return cluster;
}

/// What makes all blocks of a launch be there at once.
[[nodiscard]] inline cudaLaunchAttribute cooperative_attribute() {
    cudaLaunchAttribute cooperative{};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    return cooperative;
}

/// Whether the device has room for `batch` clusters of a kernel at once, all of them of `ranks` blocks of
/// `row_threads`.
///
/// "No" is an answer, not an error of the launch that follows, so it is taken back from the runtime; where an error of
/// the caller's is still to be read nothing is asked, for it would be lost.
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

/// The shape for a kernel on the current device; grid-wide only when `has_memory` for it.
template <class Kernel>
[[nodiscard]] cudaError_t choose_for(Kernel* kernel, std::int64_t batch, index_t vocabulary,
                                     launch_options const& options, bool has_memory, shape& result) {
    int device = 0;
    int multiprocessors = 0;
    if (cudaError_t const e = cudaGetDevice(&device)) return e;
    if (cudaError_t const e = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
        return e;
    // Clusters take a device that has them and code that was compiled for it.
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

/// Launches `batch` groups of `s.ranks` blocks: clusters, or a grid whose blocks are all there at once.
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
    // The arguments have the types of the kernel's parameters: no conversion is hidden here.
    static_assert(sizeof...(Parameters) == sizeof...(Arguments) && (std::is_same_v<Parameters, Arguments> && ...));
    return cudaLaunchKernelEx(&configuration, kernel, arguments...);
}

/// Launches `blocks` blocks that know nothing of each other.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch_blocks(void (*kernel)(Parameters...), std::int64_t blocks, int threads,
                                        cudaStream_t stream, Arguments const&... arguments) {
    return launch(kernel, blocks, shape{}, threads, stream, arguments...);
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
