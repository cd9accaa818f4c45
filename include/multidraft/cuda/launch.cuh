// Kernel launches as independent blocks, clusters or a cooperative grid, in the shape that suits a batch and a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/cuda/device_group.cuh"
#include "multidraft/cuda/kernel_rows.hpp"
#include "multidraft/cuda/launch_shape.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// A text in memory of its own, since launches allocate nothing; a longer one is cut.
class refusal_text {
public:
    void set(std::string_view text) noexcept { size_ = text.copy(text_, sizeof text_); }
    [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

private:
    char text_[256] = {};
    std::string_view::size_type size_ = 0;
};

[[nodiscard]] inline refusal_text& refusal_of_this_thread() noexcept {
    thread_local refusal_text text;
    return text;
}

/// The error of a call with bad arguments; its text is kept for `last_refusal`.
[[nodiscard]] inline cudaError_t refused(invalid_input const& e) noexcept {
    refusal_of_this_thread().set(e.what());
    return cudaErrorInvalidValue;
}

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

/// Launches `batch` groups of `s.ranks` blocks, as clusters or as one cooperative grid. Returns the launch's error. A
/// call that launches was not refused: no earlier refusal's text is left for an error of the runtime.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch(void (*kernel)(Parameters...), std::int64_t batch, shape const& s, int threads,
                                 cudaStream_t stream, Arguments const&... arguments) {
    int const ranks = s.ranks;
    if (batch == 0) return cudaSuccess;
    refusal_of_this_thread().set({});
    if (batch < 0 || batch > 0x7fffffff / ranks)
        return refused({"count", -1, std::to_string(batch),
                        "a launch has fewer than 2^31 blocks, here " + std::to_string(ranks) + " each"});
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

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

// The groups of a launch, for rows of a type.

/// One warp sums a chunk: a block or a cluster.
template <class Rows>
using whole_group = cluster_group<row_threads, 1, float, read_at_once<Rows>>;
/// Several warps sum a chunk: a block, a cluster or, in a cooperative launch, many blocks of a grid.
template <class Rows>
using wide_group = device_group<row_threads, short_split, float, read_at_once<Rows>>;
/// The group for rows that are read entry by entry: a block or a cluster.
using entry_group = cluster_group<row_threads, short_split>;

/// The shared storage of groups for grid-wide launches.
using wide_storage = device_group<row_threads, short_split>::storage;
using wide_exchange = grid_exchange<wide_storage>;

/// The lanes of this block in a launch.
template <class Group>
[[nodiscard]] __device__ __forceinline__ typename Group::lanes_type lanes_in(typename Group::storage& shared,
                                                                             wide_exchange const& grid) {
    if constexpr (Group::lanes_type::exchange != rank_exchange::shared_memory)
        return {shared, grid};
    else
        return {};
}

[[nodiscard]] constexpr std::size_t scratch_size(std::int32_t requests, std::size_t each) noexcept {
    constexpr std::size_t line = grid_memory<wide_storage>::line;
    return (static_cast<std::size_t>(requests) * each + line - 1) / line * line;
}

/// Bytes of workspace for `requests` requests with `each` bytes of scratch. Memory for a grid-wide launch is always
/// included, so that a workspace for a large batch is enough for any smaller one.
[[nodiscard]] constexpr std::size_t workspace_size(std::int32_t requests, std::size_t each) noexcept {
    return scratch_size(requests, each) +
           grid_memory<wide_storage>::bytes(requests < max_grid_requests ? requests : max_grid_requests);
}

struct partition {
    grid_memory<wide_storage> grid;
    bool has_grid = false;
};

/// Refuses a workspace that is too small for scratch, or misaligned.
inline void refuse_bad_scratch(void* workspace, std::size_t size, std::int32_t requests, std::size_t each) {
    if (each != 0) multidraft::detail::refuse_bad_workspace({workspace, size}, scratch_size(requests, each));
}

/// Divides a workspace: scratch first.
[[nodiscard]] inline partition divide_workspace(void* workspace, std::size_t size, std::int32_t requests,
                                                std::size_t each) noexcept {
    partition result;
    std::size_t const scratch = scratch_size(requests, each);
    if (workspace != nullptr && requests >= 1 && requests <= max_grid_requests &&
        size >= workspace_size(requests, each) && reinterpret_cast<std::uintptr_t>(workspace) % 16 == 0) {
        result.has_grid = true;
        result.grid = grid_memory<wide_storage>::at(static_cast<std::byte*>(workspace) + scratch, requests);
    }
    return result;
}

/// Launches the kernel that suits `count` rows or requests, of a pair: for one warp a chunk, and for several. The last
/// parameter of both is a `wide_exchange`. Grid-wide only where `parts` has memory for it; the second kernel's group is
/// then a `wide_group`.
template <class... Parameters, class... Arguments>
[[nodiscard]] cudaError_t launch_rows(cudaStream_t stream, launch_options const& options, void (*whole)(Parameters...),
                                      void (*split)(Parameters...), std::int64_t count, index_t vocabulary,
                                      partition const& parts, Arguments const&... arguments) {
    refusal_of_this_thread().set({});
    shape s;
    if (cudaError_t const e = choose_for(whole, count, vocabulary, options, parts.has_grid, s)) return e;
    // Whether a large cluster fits is asked of the kernel that is launched.
    if (s.split)
        if (cudaError_t const e = choose_for(split, count, vocabulary, options, parts.has_grid, s)) return e;
    wide_exchange grid;
    if (s.grid) {
        grid = {parts.grid, s.ranks};
        if (cudaError_t const e = parts.grid.clear(static_cast<std::int32_t>(count), stream)) return e;
    }
    return launch(s.split ? split : whole, count, s, row_threads, stream, arguments..., grid);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
