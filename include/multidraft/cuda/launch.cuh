// How a batch of rows is spread over a device: the group's shape, and launches with or without clusters.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/cuda/simt_group.hpp"

namespace multidraft::cuda {

/// What a caller may decide about a launch.
struct launch_options {
    /// Blocks of a cluster at most. Above 8 the device must be able to place such clusters (Hopper can, of 16).
    int max_cluster = 8;
};

namespace detail {

/// Threads of a block that walks rows: eight warps with up to 255 registers a thread, so that a warp keeps a whole
/// chunk of a row in registers.
inline constexpr int row_threads = 256;
inline constexpr int row_warps = row_threads / warp_size;

/// Warps that sum a chunk together where rows are few.
inline constexpr int short_split = 4;

struct shape {
    int ranks = 1;
    bool split = false;  ///< several warps a chunk
};

/// As many multiprocessors for a row as there are for each of `batch` rows, but no warp without work: a chunk is the
/// work of one warp, or of `short_split`.
[[nodiscard]] inline shape choose(std::int64_t batch, index_t vocabulary, int multiprocessors, int max_ranks_here) {
    shape s;
    std::int64_t const chunks = chunks_of(vocabulary);
    while (s.ranks * 2 <= max_ranks_here && s.ranks * 2 * batch <= multiprocessors &&
           s.ranks * 2 * row_warps <= chunks * short_split)
        s.ranks *= 2;
    s.split = s.ranks * row_warps > chunks;
    return s;
}

/// The shape for a kernel on the current device.
template <class Kernel>
[[nodiscard]] cudaError_t choose_for(Kernel* kernel, std::int64_t batch, index_t vocabulary,
                                     launch_options const& options, shape& result) {
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
    int const most = options.max_cluster < max_ranks ? options.max_cluster : max_ranks;
    result = choose(batch, vocabulary, multiprocessors, has_clusters != 0 && attributes.ptxVersion >= 90 ? most : 1);
    return cudaSuccess;
}

/// Launches `batch` groups of `ranks` blocks.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch(void (*kernel)(Parameters...), std::int64_t batch, int ranks, int threads,
                                 cudaStream_t stream, Arguments const&... arguments) {
    if (batch == 0) return cudaSuccess;
    if (batch < 0 || batch > 0x7fffffff / ranks) return cudaErrorInvalidValue;
    if (ranks > 8)
        if (cudaError_t const e = cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel),
                                                       cudaFuncAttributeNonPortableClusterSizeAllowed, 1))
            return e;
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(static_cast<unsigned>(batch * ranks));
    configuration.blockDim = dim3(static_cast<unsigned>(threads));
    configuration.stream = stream;
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(ranks);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    configuration.attrs = &cluster;
    configuration.numAttrs = ranks > 1 ? 1 : 0;
    void* pointers[] = {const_cast<void*>(static_cast<void const*>(&arguments))...};
    return cudaLaunchKernelExC(&configuration, reinterpret_cast<void const*>(kernel), pointers);
}

}  // namespace detail

}  // namespace multidraft::cuda
