// Conversion of C structs to those of the library, over the same arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.hpp"
#include "library_types.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

// Arrays of sampling parameters are read in place.
static_assert(sizeof(md_sampling) == sizeof(sampling_params) && alignof(md_sampling) == alignof(sampling_params));
static_assert(offsetof(md_sampling, temperature) == offsetof(sampling_params, temperature));
static_assert(offsetof(md_sampling, top_k) == offsetof(sampling_params, top_k));
static_assert(offsetof(md_sampling, top_p) == offsetof(sampling_params, top_p));
static_assert(offsetof(md_sampling, min_p) == offsetof(sampling_params, min_p));

/// The arguments of a batched call as the structs name them.
inline constexpr argument_name names_of_batch[] = {{"drafts.law", "trees.law"},  {"offsets", "trees.offsets"},
                                                   {"parents", "trees.parents"}, {"tokens", "trees.tokens"},
                                                   {"certain", "trees.certain"}, {"seeds", "requests.seeds"},
                                                   {"out", "verdicts"},          {"positions", "requests.positions"}};

[[nodiscard]] inline sampling_params sampling_of(md_sampling const& s) {
    return {s.temperature, s.top_k, s.top_p, s.min_p};
}

/// Rows of logits, read in place.
template <class T>
[[nodiscard]] logit_batch<T> logits_of(md_rows const& r) {
    return {static_cast<T const*>(r.data),
            r.row_stride,
            r.vocabulary,
            r.row_of,
            reinterpret_cast<sampling_params const*>(r.sampling),
            sampling_of(r.default_sampling)};
}

/// Rows that may have candidates. The structs of older callers end before these, or before the adjustments.
[[nodiscard]] inline md_rows read_draft_rows(md_rows const* given, char const* name) {
    return read(given, name, {offsetof(md_rows, adjustments), offsetof(md_rows, candidates)});
}

/// Whole rows.
[[nodiscard]] inline md_rows read_rows(md_rows const* given, char const* name) {
    md_rows const r = read_draft_rows(given, name);
    if (r.candidates != nullptr)
        refuse(std::string(name) + ".candidates", "given", "only the draft's rows have them, on host threads");
    return r;
}

[[noreturn]] inline void refuse_kind(md_rows const& r, char const* name, char const* reason) {
    refuse(std::string(name) + ".kind", r.kind, reason);
}

[[noreturn]] inline void refuse_dtype(md_rows const& r, char const* name, char const* reason) {
    refuse(std::string(name) + ".dtype", r.dtype, reason);
}

/// Refuses rows of the draft with another kind or type than the target's. Candidates are of one type.
inline void refuse_unlike(md_rows const& target, md_rows const* draft) {
    if (draft != nullptr && draft->kind != target.kind)
        refuse_kind(*draft, "draft", "the rows of draft and target are of one kind");
    if (draft != nullptr && draft->candidates == nullptr && draft->dtype != target.dtype)
        refuse_dtype(*draft, "draft", "the rows of draft and target are of one type");
}

/// Calls `use` with a value of the element type of logits. Throws for types that the library was built without.
template <class Use>
void with_element(md_rows const& r, char const* name, Use const& use) {
    if (r.dtype == MD_FLOAT32) return use(float{});
    if constexpr (has_float16)
        if (r.dtype == MD_FLOAT16) return use(float16{});
    if constexpr (has_bfloat16)
        if (r.dtype == MD_BFLOAT16) return use(bfloat16{});
    if (r.dtype == MD_FLOAT16 || r.dtype == MD_BFLOAT16)
        throw unavailable(std::string(name) + ".dtype = " + std::to_string(r.dtype) +
                          ": the library was built without this type (MULTIDRAFT_LIBRARY_TYPES)");
    refuse_dtype(r, name, "it is MD_FLOAT32, MD_FLOAT16 or MD_BFLOAT16");
}

[[nodiscard]] inline request_batch requests_of(md_requests const* given) {
    md_requests const r = read(given, "requests");
    return {r.seeds, r.positions, r.ids};
}

/// The struct of older callers ends before `largest`.
[[nodiscard]] inline any_drafted_batch trees_of(md_trees const* given) {
    md_trees const t = read(given, "trees", {offsetof(md_trees, largest)});
    refuse_null(t.law, "trees.law");
    if (t.largest < 0 || t.largest > max_nodes) refuse("trees.largest", t.largest, "a tree has at most 2^24 nodes");
    return {{t.requests, t.nodes, t.offsets, t.parents, t.tokens, t.certain, static_cast<node_id>(t.largest)}, t.law};
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
