// Verdicts in the format of vLLM and TensorRT-LLM: the tokens of each request, padded with -1, and their number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/verdict_batch.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The arrays for the tokens of a batch's verdicts: those of request b begin at `tokens + b * stride`. They are the
/// tokens of the accepted nodes, the token that follows them, then -1. `Id`: `std::int32_t` (vLLM's `output_token_ids`)
/// or `std::int64_t` (TensorRT-LLM's `acceptToken`).
template <class Id = token_id>
struct accepted_tokens {
    Id* tokens = nullptr;
    std::int64_t stride = 0;         ///< entries per request: the depth of the deepest tree, plus 1
    std::int32_t* counts = nullptr;  ///< number of tokens of each request, without -1; may be null
};

namespace detail {

/// Writes entry `k % stride` of request `k / stride`.
template <class Id>
struct write_accepted_token {
    tree_batch trees;
    verdict_batch verdicts;
    accepted_tokens<Id> out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        auto const b = static_cast<std::int32_t>(k / out.stride);
        std::int64_t const place = k % out.stride;
        bool const is_decided = verdicts.next[b] != none;
        std::int64_t const accepted = is_decided ? verdicts.accepted[b] : -1;
        token_id token = none;
        if (place < accepted)
            token = trees.tokens[trees.offsets[b] + verdicts.path_of(trees, b)[place]];
        else if (place == accepted)
            token = verdicts.next[b];
        out.tokens[k] = static_cast<Id>(token);
        if (place == 0 && out.counts != nullptr)
            out.counts[b] = static_cast<std::int32_t>(accepted < out.stride ? accepted + 1 : out.stride);
    }
};

/// Refuses invalid verdicts and, on a host, a stride too short for them.
template <class P>
void refuse_bad_outputs(P const&, tree_batch const& trees, verdict_batch const& verdicts, std::int64_t stride) {
    refuse_null(trees.offsets, "trees.offsets");
    refuse_null(trees.tokens, "trees.tokens");
    refuse_bad_verdicts(verdicts);
    if (stride < 1) refuse("out.stride", stride, "a request has 1 entry or more");
    if constexpr (host_policy<P>)
        for (std::int32_t b = 0; b < trees.requests; ++b)
            if (verdicts.next[b] != none && verdicts.accepted[b] >= stride)
                refuse("out.stride", stride,
                       "request " + std::to_string(b) + " has " + std::to_string(verdicts.accepted[b]) +
                           " accepted nodes and the token that follows");
}

}  // namespace detail

/// Writes the tokens of a batch's verdicts, one entry per thread: `write_accepted_tokens(policy, trees, verdicts, out)`
/// with the policy given to `verify_batch` (see `execution_policy`). A request that could not be decided gets no token:
/// -1 in all entries, and the count 0.
///
/// On a host throws `invalid_input`, before anything is written, for missing arrays and a stride too short for the
/// accepted tokens. In a launch nothing is checked, and tokens beyond the stride are left out and not counted.
/// O(requests stride).
template <execution_policy P, class Id>
auto write_accepted_tokens(P const& policy, tree_batch const& trees, verdict_batch const& verdicts,
                           accepted_tokens<Id> const& out) {
    return detail::checked(
        policy,
        [&] {
            if (trees.requests == 0) return;
            detail::refuse_null(out.tokens, "out.tokens");
            detail::refuse_bad_outputs(policy, trees, verdicts, out.stride);
        },
        [&] {
            return for_each(policy, trees.requests * out.stride,
                            detail::write_accepted_token<Id>{trees, verdicts, out});
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
