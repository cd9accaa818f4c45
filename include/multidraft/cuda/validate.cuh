// Validating a batch on a CUDA device before it is verified: the first bad argument, by request, index and value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/tree_rules.hpp"
#include "multidraft/batch/validate_for.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/mask.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace cuda::detail {

using multidraft::detail::fault_key;
using multidraft::detail::no_fault;

struct clear_key {
    fault_key* key;
    __device__ void operator()(std::int64_t) const { *key = no_fault; }
};

/// A warp of threads per request.
template <class Law, class Target, class Draft>
struct check_requests {
    drafted_batch<Law> drafts;
    tree_rules rules;
    Target target;
    Draft draft;
    request_batch requests;
    fault_key* key;

    __device__ void operator()(std::int64_t k) const {
        tree_batch const& trees = drafts.trees;
        auto const b = static_cast<std::int32_t>(k / warp_size);
        auto const lane = static_cast<node_id>(k % warp_size);
        fault_key first = no_fault;
        auto const offer = [&](multidraft::detail::batch_fault const& f) {
            fault_key const here = multidraft::detail::key_of(b, f);
            first = here < first ? here : first;
        };
        if (lane == 0) offer(multidraft::detail::check_request(trees, requests, target, draft, b));
        if (lane == 0 && multidraft::detail::offsets_are_valid(trees, b))
            offer(multidraft::detail::check_shape(trees, rules, b));
        if (multidraft::detail::offsets_are_valid(trees, b))
            for (node_id v = lane; v < trees.size(b); v += warp_size)
                offer(multidraft::detail::check_node(drafts, rules, target.vocabulary, b, v));
        if (first != no_fault) atomicMin(key, first);
    }
};

inline constexpr int check_split = 4;

/// One row per block at a time; rows of requests with invalid offsets are skipped.
template <class Law, class Rows>
__global__ void __launch_bounds__(row_threads)
    check_rows_kernel(drafted_batch<Law> drafts, tree_rules rules, Rows rows, batch_argument what, fault_key* key) {
    tree_batch const& trees = drafts.trees;
    using group_type = block_group<row_threads, check_split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    for (std::int64_t node = blockIdx.x; node < trees.nodes; node += gridDim.x) {
        std::int32_t const b = trees.request_of(node);
        std::int64_t const v = node - trees.offsets[b];
        if (!multidraft::detail::offsets_are_valid(trees, b) || v < 0 || node >= trees.offsets[b + 1]) continue;
        auto const f =
            multidraft::detail::check_row_and_draws(g, drafts, rows, what, rules, b, static_cast<node_id>(v));
        if (g.leader() && f.what != batch_argument::nothing) atomicMin(key, multidraft::detail::key_of(b, f));
    }
}

/// Recovers the fault of the smallest key.
template <class Law, class Target, class Draft>
__global__ void __launch_bounds__(row_threads)
    report_kernel(drafted_batch<Law> drafts, tree_rules rules, Target target, Draft draft, request_batch requests,
                  fault_key const* key, validation_report* out) {
    using group_type = block_group<row_threads, check_split>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    fault_key const first = *key;
    validation_report report = multidraft::detail::report_of(g, drafts, rules, target, draft, requests, first);
    if (first == no_fault) {
        if (arithmetic_fault const fault = check_arithmetic(); fault != arithmetic_fault::nothing) {
            report.what = batch_argument::arithmetic;
            report.value = static_cast<double>(fault);
        }
    }
    if (g.leader()) *out = report;
}

}  // namespace cuda::detail

/// Bytes of device memory that `validate_batch` needs as workspace on a stream, aligned to 8 bytes.
[[nodiscard]] constexpr std::size_t validate_workspace_size(cuda::stream_policy const&) noexcept {
    return sizeof(detail::fault_key);
}

/// Checks the arguments of `verify_batch` on a CUDA device, with the arguments of every backend (`batch/validate.hpp`),
/// and writes the first fault to `*report`, in device memory. If there is none, the device's arithmetic is checked
/// (`check_arithmetic`), since no macro shows options such as nvcc's -use_fast_math.
///
/// One pass over all rows: for bringing an engine up, not for every step. No allocation, no synchronisation: after
/// synchronising, pass the report to `refuse_reported`. Returns the launch's error, or `cudaErrorInvalidValue` for too
/// small a workspace or what `verify_batch` rejects (`cuda::last_refusal`). Of an empty batch only the arithmetic is
/// checked.
template <draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] cudaError_t validate_batch(cuda::stream_policy const& policy, tree_rules const& rules,
                                         drafted_batch<Law> const& drafts, target_rows<Target> const& target,
                                         draft_rows<Draft> const& draft, request_batch const& requests,
                                         validation_report* report, workspace const& scratch = {}) {
    namespace device = cuda::detail;
    tree_batch const& trees = drafts.trees;
    cudaStream_t const stream = policy.stream;
    auto const refuse_bad_call = [&] {
        detail::refuse_null(report, "report");
        if (scratch.data == nullptr || scratch.size < validate_workspace_size(policy))
            refuse("workspace.size", scratch.data == nullptr ? 0 : scratch.size,
                   "8 bytes are needed (validate_workspace_size)");
        detail::refuse_bad_arguments(drafts, target.rows, draft.rows, requests);
    };
    if (cudaError_t const e = detail::checked(policy, refuse_bad_call, [] { return cudaSuccess; })) return e;
    auto* const key = static_cast<detail::fault_key*>(scratch.data);
    std::int64_t const blocks = trees.nodes < 65536 ? trees.nodes : 65536;
    if (cudaError_t const e = device::for_each(1, stream, device::clear_key{key})) return e;
    if (cudaError_t const e = device::for_each(
            std::int64_t{trees.requests} * cuda::warp_size, stream,
            device::check_requests<Law, Target, Draft>{drafts, rules, target.rows, draft.rows, requests, key}))
        return e;
    if (cudaError_t const e = device::launch_blocks(device::check_rows_kernel<Law, Target>, blocks, device::row_threads,
                                                    stream, drafts, rules, target.rows, batch_argument::target, key))
        return e;
    if constexpr (row_batch<Draft>)
        if (cudaError_t const e =
                device::launch_blocks(device::check_rows_kernel<Law, Draft>, blocks, device::row_threads, stream,
                                      drafts, rules, draft.rows, batch_argument::draft, key))
            return e;
    detail::fault_key const* const found = key;
    return device::launch_blocks(device::report_kernel<Law, Target, Draft>, 1, device::row_threads, stream, drafts,
                                 rules, target.rows, draft.rows, requests, found, report);
}

}  // namespace MULTIDRAFT_NAMESPACE
