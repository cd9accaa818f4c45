// Checks of a batched call on a host that need no request: missing arrays, invalid extents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The name of an argument's member, such as "draft.row_stride", in memory of its own: calls allocate nothing. Longer
/// names are cut.
class member_name {
public:
    member_name(char const* argument, char const* member) noexcept {
        char* end = text_;
        for (char const* part : {argument, member})
            while (*part != 0 && end != text_ + sizeof text_ - 1) *end++ = *part++;
        *end = 0;
    }
    [[nodiscard]] char const* c_str() const noexcept { return text_; }

private:
    char text_[64];
};

template <class T>
void refuse_null(T const* pointer, char const* name) {
    if (pointer == nullptr) refuse(name, "null", "this array is read or written");
}

template <class Rows>
void refuse_bad_extents(Rows const& rows, char const* name) {
    validate_row_size(index_t{rows.vocabulary}, name, ".vocabulary");
    if constexpr (has_data<Rows>) refuse_null(rows.data, member_name(name, ".data").c_str());
    if constexpr (has_candidates<Rows>) {
        refuse_null(rows.tokens, member_name(name, ".tokens").c_str());
        if (rows.candidates < 1 || rows.candidates > rows.vocabulary)
            refuse(
                member_name(name, ".candidates").c_str(), rows.candidates,
                "a row has 1 candidate or more, and no more than its " + std::to_string(rows.vocabulary) + " tokens");
        refuse_bad_stride<typename Rows::layout_type>(rows.row_stride, rows.candidates,
                                                      member_name(name, ".row_stride").c_str());
    } else if constexpr (has_stride<Rows>)
        refuse_bad_stride<typename Rows::layout_type>(rows.row_stride, rows.vocabulary,
                                                      member_name(name, ".row_stride").c_str());
    if constexpr (has_map<Rows>) {
        refuse_null(rows.map.draft_of, member_name(name, ".map.draft_of").c_str());
        refuse_bad_extents(rows.rows, member_name(name, ".rows").c_str());
    }
    if constexpr (has_states<Rows>) refuse_null(rows.states, member_name(name, ".states").c_str());
    if constexpr (has_token_term<Rows>) {
        refuse_null(rows.tokens, member_name(name, ".tokens").c_str());
        refuse_null(rows.term.of_token, member_name(name, ".term.of_token").c_str());
        refuse_null(rows.term.of_entry, member_name(name, ".term.of_entry").c_str());
    }
    if constexpr (has_adjustments<Rows>) {
        token_masks const& allowed = rows.adjustments.allowed;
        if (!allowed.empty() && allowed.tokens() < rows.vocabulary)
            refuse(std::string(name) + ".allowed.tokens", allowed.tokens(),
                   "a mask has a bit for each of the " + std::to_string(rows.vocabulary) + " tokens");
        logit_biases const& bias = rows.adjustments.bias;
        if (bias.values.size() != bias.tokens.size())
            refuse(std::string(name) + ".bias.values.size", bias.values.size(),
                   "there is one value a token: " + std::to_string(bias.tokens.size()));
    }
}

/// Refuses a number of requests that is negative.
inline void refuse_bad_requests(tree_batch const& trees) {
    if (trees.requests < 0) refuse("trees.requests", trees.requests, "a batch has 0 requests or more");
}

/// Refuses impossible numbers of requests and nodes, and missing offsets.
inline void refuse_bad_counts(tree_batch const& trees) {
    refuse_bad_requests(trees);
    if (trees.requests == 0) {
        if (trees.nodes != 0) refuse("trees.nodes", trees.nodes, "a batch of no requests has no nodes");
        return;
    }
    if (trees.nodes < trees.requests)
        refuse("trees.nodes", trees.nodes,
               "each of the " + std::to_string(trees.requests) + " trees has a root (nodes: offsets[requests])");
    refuse_null(trees.offsets, "trees.offsets");
}

/// The same, and missing parents and tokens: without them nothing of the trees can be read.
inline void refuse_bad_trees(tree_batch const& trees, bool reads_tokens = true) {
    refuse_bad_counts(trees);
    if (trees.requests == 0) return;
    refuse_null(trees.parents, "trees.parents");
    if (reads_tokens) refuse_null(trees.tokens, "trees.tokens");
}

/// Checks that need no request of a batch.
template <draft_law Law, class Target, class Draft>
void refuse_bad_arguments(drafted_batch<Law> const& drafts, Target const& target, Draft const& draft,
                          request_batch const& requests) {
    tree_batch const& trees = drafts.trees;
    refuse_bad_trees(trees);
    if (trees.requests == 0) return;
    if constexpr (counts_certain<Law>) refuse_null(trees.certain, "trees.certain");
    refuse_null(requests.seeds, "requests.seeds");
    refuse_null(requests.positions, "requests.positions");
    refuse_bad_extents(target, "target");
    if constexpr (has_states<Target>) refuse_null(target.sums, "target.sums");
    if constexpr (!std::is_same_v<Draft, verify::no_draft_rows>) {
        refuse_bad_extents(draft, "draft");
        if (draft.vocabulary != target.vocabulary)
            refuse("draft.vocabulary", draft.vocabulary, "draft and target have one vocabulary");
    }
}

/// Refuses an invalid output for verdicts.
inline void refuse_bad_verdicts(verdict_batch const& out) {
    refuse_null(out.path, "out.path");
    refuse_null(out.accepted, "out.accepted");
    refuse_null(out.next, "out.next");
    if (out.path_stride < 0) refuse("out.path_stride", out.path_stride, "a path has room for 0 nodes or more");
}

/// Refuses a batch for a verifier of whole trees that does not say how large its trees are, where they cannot be read.
inline void refuse_bad_largest(tree_batch const& trees) {
    if (trees.largest < 1)
        refuse("trees.largest", trees.largest, "for verifiers of whole trees it is said how large a tree may be");
}

/// Refuses a workspace that is too small or misaligned for a verifier of whole trees.
inline void refuse_bad_workspace(workspace const& scratch, std::size_t wanted) {
    std::size_t const size = scratch.data == nullptr ? 0 : scratch.size;
    if (size < wanted)
        refuse("workspace.size", size,
               std::to_string(wanted) + " bytes are needed for these trees (verify_workspace_size)");
    auto const address = reinterpret_cast<std::uintptr_t>(scratch.data);
    if (address % verify::scratch_alignment != 0)
        refuse("workspace.data", address, "a workspace is aligned to 16 bytes");
}

/// Checks that need no entry of a level.
template <sampler Sampler, logit_row_batch Rows>
void refuse_bad_level(level_batch const& level, Rows const& rows, request_batch const& requests,
                      children_batch const& out) {
    if (level.entries < 0) refuse("level.entries", level.entries, "a level has 0 entries or more");
    if (level.entries == 0) return;
    refuse_null(level.requests, "level.requests");
    refuse_null(level.nodes, "level.nodes");
    refuse_null(out.tokens, "out.tokens");
    if constexpr (changed_when_read<Rows>)
        if (out.states != nullptr)
            refuse("out.states", "an array",
                   has_adjustments<Rows>  ? "rows with masks and biases are not prepared: leave it null"
                   : has_candidates<Rows> ? "rows of a few candidates are not prepared: leave it null"
                                          : "rows with a term of a token are not prepared: leave it null");
    refuse_null(requests.seeds, "requests.seeds");
    refuse_null(requests.positions, "requests.positions");
    if (out.first != nullptr) refuse_null(level.wanted, "level.wanted");
    if constexpr (Sampler::law::traits.addressed_by_text) refuse_null(level.depths, "level.depths");
    if (out.stride < 0) refuse("out.stride", out.stride, "there are 0 places for an entry or more");
    if (out.first == nullptr && out.stride == 0)
        refuse("out.stride", out.stride, "without `first` it is the number of places for the children of an entry");
    if constexpr (counts_certain<typename Sampler::law>) refuse_null(out.certain, "out.certain");
    if (!std::is_same_v<real_of<typename Rows::element>, float> && out.states != nullptr)
        refuse("out.states", "not null", "row states are those of rows in single precision");
    refuse_bad_extents(rows, "draft");
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
