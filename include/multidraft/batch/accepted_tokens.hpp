// Verdicts in engines' formats: the tokens of each request (vLLM, TensorRT-LLM), or indices of nodes (SGLang).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"

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
                       "request " + std::to_string(trees.first_request + b) + " has " +
                           std::to_string(verdicts.accepted[b]) + " accepted nodes and the token that follows");
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
            detail::refuse_bad_requests(trees);
            if (trees.requests == 0) return;
            detail::refuse_null(out.tokens, "out.tokens");
            detail::refuse_bad_outputs(policy, trees, verdicts, out.stride);
        },
        [&] {
            return for_each(policy, trees.requests * out.stride,
                            detail::write_accepted_token<Id>{trees, verdicts, out});
        });
}

/// The arrays for the verdicts of a batch in SGLang's format: `accept_index`, `predicts` and `accept_token_num`.
///
/// Every node has an index in the engine's arrays. Without `order` node v of request b has the index i = `offsets[b] +
/// v`. With `order` (see `build_trees`) i = `offsets[b] + order[offsets[b] + v]`, the node's index before the tree was
/// brought into level order. With `index` (SGLang's `retrive_index`) the index is `index[i]`.
///
/// - `accept_index[b * stride ..]`: the index of the root, those of the accepted nodes, then -1.
/// - `predicts[i]`, for each of these indices i: the token that follows the node in the text. Other entries are not
///   written.
/// - `accept_token_num[b]`: the number of accepted nodes, without the root.
template <class Id = std::int32_t>
struct accepted_index {
    Id* predicts = nullptr;
    Id* accept_index = nullptr;
    std::int64_t stride = 0;  ///< entries per request: the depth of the deepest tree, plus 1
    Id* accept_token_num = nullptr;
    node_id const* order = nullptr;       ///< may be null
    std::int64_t const* index = nullptr;  ///< may be null

    /// The index of node v of request b.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t operator()(tree_batch const& trees, std::int32_t b,
                                                        node_id v) const noexcept {
        std::int64_t const first = trees.offsets[b];
        std::int64_t const place = first + (order == nullptr ? v : order[first + v]);
        return index == nullptr ? place : index[place];
    }
};

namespace detail {

/// Writes entry `k % stride` of request `k / stride`; entry 0 is the root's.
template <class Id>
struct write_accepted_index {
    tree_batch trees;
    verdict_batch verdicts;
    accepted_index<Id> out;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        auto const b = static_cast<std::int32_t>(k / out.stride);
        std::int64_t const place = k % out.stride;
        token_id const next = verdicts.next[b];
        std::int64_t const accepted = next == none ? 0 : verdicts.accepted[b];
        if (place == 0) out.accept_token_num[b] = static_cast<Id>(accepted < out.stride ? accepted : out.stride - 1);
        if (place > accepted) {
            out.accept_index[k] = Id{-1};
            return;
        }
        auto const path = verdicts.path_of(trees, b);
        std::int64_t const i = out(trees, b, place == 0 ? 0 : path[place - 1]);
        out.accept_index[k] = static_cast<Id>(i);
        out.predicts[i] = static_cast<Id>(place < accepted ? trees.tokens[trees.offsets[b] + path[place]] : next);
    }
};

}  // namespace detail

/// Writes the verdicts of a batch by index, one entry per thread, with the policy given to `verify_batch`. A request
/// that could not be decided gets only its root, with the token -1.
///
/// On a host throws `invalid_input` like `write_accepted_tokens`. In a launch accepted nodes beyond the stride are left
/// out, and the last entry has the token that follows its node. O(requests stride).
template <execution_policy P, class Id>
auto write_accepted_index(P const& policy, tree_batch const& trees, verdict_batch const& verdicts,
                          accepted_index<Id> const& out) {
    return detail::checked(
        policy,
        [&] {
            detail::refuse_bad_requests(trees);
            if (trees.requests == 0) return;
            detail::refuse_null(out.predicts, "out.predicts");
            detail::refuse_null(out.accept_index, "out.accept_index");
            detail::refuse_null(out.accept_token_num, "out.accept_token_num");
            detail::refuse_bad_outputs(policy, trees, verdicts, out.stride);
        },
        [&] {
            return for_each(policy, trees.requests * out.stride,
                            detail::write_accepted_index<Id>{trees, verdicts, out});
        });
}

}  // namespace MULTIDRAFT_NAMESPACE
