// Verification of a batch of draft trees on a CUDA device, in one launch: a block, a cluster or many blocks per tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/cuda/kernel_rows.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace cuda::detail {

/// The scratch of one request.
struct scratch_slices {
    std::byte* data = nullptr;
    std::size_t each = 0;

    [[nodiscard]] MULTIDRAFT_HD span<std::byte> operator()(std::int32_t b) const noexcept {
        return {data + static_cast<std::size_t>(b) * each, each};
    }
};

template <class Group, verify::verifier Verifier, class Target, class Draft>
__global__ void __launch_bounds__(row_threads, 1)
    verify_kernel(Verifier verifier, drafted_batch<typename Verifier::law> drafts, target_rows<Target> target,
                  draft_rows<Draft> draft, request_batch requests, verdict_batch out, scratch_slices scratch,
                  int prefetched, wide_exchange grid) {
    __shared__ typename Group::storage shared;
    Group const g(lanes_in<Group>(shared, grid), shared);
    auto const b = static_cast<std::int32_t>(static_cast<int>(blockIdx.x) / g.lanes().ranks());
    multidraft::detail::verify_request(g, verifier, b, drafts, target_rows(outlined(target.rows)),
                                       draft_rows(outlined(draft.rows)), requests, out, scratch(b), prefetched);
}

}  // namespace cuda::detail

/// Bytes of device memory that `verify_batch` needs as workspace on a stream, for up to `requests` trees of up to
/// `nodes` nodes (root included), `depth` levels below the root: the batch's `path_stride`, or `nodes` where that is 0.
///
/// It holds the scratch of verifiers of whole trees, and what blocks of a grid exchange when few requests have long
/// rows. Nondecreasing in its arguments. Align it to 256 bytes, as `cudaMalloc` does.
template <verify::verifier Verifier>
[[nodiscard]] constexpr std::size_t verify_workspace_size(cuda::stream_policy const&, std::int32_t requests,
                                                          node_id nodes, std::int32_t depth) {
    return cuda::detail::workspace_size(requests, verify::scratch_bytes<Verifier>(nodes, depth));
}

/// Verifies the trees of a batch on a CUDA device, with the arguments of every backend (`batch/verify.hpp`):
/// `verify_batch(cuda::on(stream), verifier, drafts, target_rows(p), draft_rows(q), requests, out, workspace)`.
///
/// - `target`, `draft`: rows of float, `float16` or `bfloat16`. A `prepared_batch`, with the row states that
///   `draft_batch` wrote for the draft or `prepare_batch` for either, saves the passes of normalisers and truncation at
///   each node on the path, which follow one another.
/// - `scratch`: `verify_workspace_size<Verifier>(..)` bytes. A verifier that decides node by node works with less or
///   none, but then never grid-wide (see `cuda::detail::choose_shape`). Verifiers of whole trees also need
///   `trees.largest`.
///
/// The decisions are the host's, bit for bit, whatever the batch and the launch shape. Neither allocates nor
/// synchronises; may be captured in a graph. Device memory is not checked (see `validate_batch`), but an invalid tree
/// or a row that is not a distribution gives the token `none`.
///
/// If all rows begin at multiples of 16 bytes and have no bias, they are read 16 bytes at a time, which includes the
/// padding of their last 16 bytes. A call compiles two kernels for such rows and one for others; the latter is not
/// compiled where the types of the rows declare the alignment (`logit_batch<T, aligned<16>>`). Returns the launch's
/// error; success without a launch for an empty batch; `cudaErrorInvalidValue` where the same call on a host throws for
/// what is not in an array (`cuda::last_refusal` names the argument), and, if the verifier needs scratch, for too small
/// a workspace or without `trees.largest`.
template <verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] cudaError_t verify_batch(cuda::stream_policy const& policy, Verifier const& verifier,
                                       drafted_batch<Law> const& drafts, target_rows<Target> const& target,
                                       draft_rows<Draft> const& draft, request_batch const& requests,
                                       verdict_batch const& out, workspace const& scratch = {}) {
    detail::require_fit<Verifier, Law, Draft>();
    tree_batch const& trees = drafts.trees;
    // Named with the verifier's law, so that another law gives a single message.
    auto const fitting = drawn_by<typename Verifier::law>(trees);
    namespace device = cuda::detail;
    device::scratch_slices slices;
    auto const refuse_bad_call = [&] {
        detail::refuse_bad_arguments(fitting, target.rows, draft.rows, requests);
        if (trees.requests == 0) return;
        detail::refuse_bad_verdicts(out);
        if constexpr (verify::needs_scratch<Verifier>) {
            detail::refuse_bad_largest(trees);
            slices = {static_cast<std::byte*>(scratch.data),
                      verify::scratch_bytes<Verifier>(trees.largest, out.deepest(trees.largest))};
            device::refuse_bad_scratch(scratch.data, scratch.size, trees.requests, slices.each);
        }
    };
    if (cudaError_t const e = detail::checked(policy, refuse_bad_call, [] { return cudaSuccess; })) return e;
    if (trees.requests == 0) return cudaSuccess;
    int const prefetched = device::prefetched_rows(trees.requests, policy.options);
    device::partition parts = device::divide_workspace(scratch.data, scratch.size, trees.requests, slices.each);
    auto const with = [&](auto whole_kernel, auto split_kernel, auto const& p, auto const& q) {
        return device::launch_rows(policy.stream, policy.options, whole_kernel, split_kernel, trees.requests,
                                   target.rows.vocabulary, parts, verifier, fitting, p, q, requests, out, slices,
                                   prefetched);
    };
    auto const with_aligned = [&] {
        target_rows const p(device::as_aligned(target.rows));
        draft_rows const q(device::as_aligned(draft.rows));
        using rows_of_target = decltype(p.rows);
        using rows_of_draft = decltype(q.rows);
        return with(device::verify_kernel<device::whole_group<rows_of_target>, Verifier, rows_of_target, rows_of_draft>,
                    device::verify_kernel<device::wide_group<rows_of_target>, Verifier, rows_of_target, rows_of_draft>,
                    p, q);
    };
    if constexpr (device::always_aligned<Target> && device::always_aligned<Draft>) {
        return with_aligned();
    } else {
        if constexpr (device::may_be_aligned<Target> && device::may_be_aligned<Draft>)
            if (device::rows_are_aligned(target.rows) && device::rows_are_aligned(draft.rows)) return with_aligned();
        // Rows that are read entry by entry have one kernel, and never a grid-wide launch.
        parts.has_grid = false;
        target_rows const p(device::as_entries(target.rows));
        draft_rows const q(device::as_entries(draft.rows));
        auto* const kernel = device::verify_kernel<device::entry_group, Verifier, decltype(p.rows), decltype(q.rows)>;
        return with(kernel, kernel, p, q);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
