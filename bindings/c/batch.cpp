// Structs of C as batches, and the calls over them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "errors.hpp"
#include "kernels.hpp"
#include "methods.hpp"
#include "multidraft.h"
#include "multidraft/any_method_batch.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verdict_batch.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/float16.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/sampling_params.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"
#include "pool.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

// Arrays of sampling parameters are read where they lie.
static_assert(sizeof(md_sampling) == sizeof(sampling_params) && alignof(md_sampling) == alignof(sampling_params));
static_assert(offsetof(md_sampling, temperature) == offsetof(sampling_params, temperature));
static_assert(offsetof(md_sampling, top_k) == offsetof(sampling_params, top_k));
static_assert(offsetof(md_sampling, top_p) == offsetof(sampling_params, top_p));
static_assert(offsetof(md_sampling, min_p) == offsetof(sampling_params, min_p));

sampling_params sampling_of(md_sampling const& s) { return {s.temperature, s.top_k, s.top_p, s.min_p}; }

template <class T>
logit_batch<T> logits_of(md_rows const& r) {
    return {static_cast<T const*>(r.data),
            r.row_stride,
            r.vocabulary,
            r.row_of,
            reinterpret_cast<sampling_params const*>(r.sampling),
            sampling_of(r.default_sampling)};
}

probability_batch<float> probabilities_of(md_rows const& r) {
    return {static_cast<float const*>(r.data), r.row_stride, r.vocabulary, r.row_of};
}

[[noreturn]] void refuse_kind(md_rows const& r, char const* name, char const* why) {
    refuse(std::string(name) + ".kind", r.kind, why);
}

[[noreturn]] void refuse_dtype(md_rows const& r, char const* name, char const* why) {
    refuse(std::string(name) + ".dtype", r.dtype, why);
}

/// Calls `use` with the element type of logits.
template <class Use>
void with_logits(md_rows const& r, char const* name, Use const& use) {
    switch (r.dtype) {
        case MD_FLOAT32:
            return use(float{});
        case MD_FLOAT16:
            return use(float16{});
        case MD_BFLOAT16:
            return use(bfloat16{});
        default:
            refuse_dtype(r, name, "it is MD_FLOAT32, MD_FLOAT16 or MD_BFLOAT16");
    }
}

/// Calls `use(rows, rows of the draft or null)`.
template <class Use>
void with_rows(md_rows const& target, md_rows const* draft, Use const& use) {
    if (draft != nullptr && draft->kind != target.kind)
        refuse_kind(*draft, "draft", "the rows of draft and target are of one kind");
    if (draft != nullptr && draft->dtype != target.dtype)
        refuse_dtype(*draft, "draft", "the rows of draft and target are of one type");
    auto const both = [&](auto const& convert) {
        auto const p = convert(target);
        using rows = std::remove_const_t<decltype(p)>;
        if (draft == nullptr) return use(p, static_cast<rows const*>(nullptr));
        rows const q = convert(*draft);
        use(p, &q);
    };
    if (target.kind == MD_PROBABILITIES) {
        if (target.dtype != MD_FLOAT32) refuse_dtype(target, "target", "rows of probabilities are MD_FLOAT32");
        both(&probabilities_of);
    } else if (target.kind == MD_LOGITS) {
        with_logits(target, "target", [&](auto element) { both(&logits_of<decltype(element)>); });
    } else {
        refuse_kind(target, "target", "it is MD_LOGITS or MD_PROBABILITIES");
    }
}

request_batch requests_of(md_requests const* given) {
    md_requests const r = read(given, "requests");
    return {r.seeds, r.positions, r.ids};
}

any_drafted_batch trees_of(md_trees const* given) {
    md_trees const t = read(given, "trees");
    refuse_null(t.law, "trees.law");
    return {{t.requests, t.nodes, t.offsets, t.parents, t.tokens, t.certain}, t.law};
}

/// Bytes that verifying the trees of a batch takes; those of trees that are none are refused later.
std::size_t workspace_bytes(pool_policy const& policy, any_c_method const& method, tree_batch const& trees) {
    std::size_t bytes = 0;
    if (trees.requests < 1 || trees.offsets == nullptr || trees.parents == nullptr || trees.tokens == nullptr)
        return bytes;
    if (verify_workspace_size(policy, method, 1, 1, 0) == 0) return bytes;
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        if (!detail::offsets_are_valid(trees, b)) return bytes;
        tree_view const tree = trees(b);
        if (!tree.is_tree()) return bytes;
        bytes = std::max(
            bytes, verify_workspace_size(policy, method, trees.requests, tree.size(), tree.depth(tree.size() - 1)));
    }
    return bytes;
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

md_status md_draft(md_method const* method, md_pool* pool, md_level const* level, md_rows const* rows,
                   md_requests const* requests, md_children const* children) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        md_level const l = read(level, "level");
        md_rows const r = read(rows, "rows");
        md_children const c = read(children, "children");
        request_batch const draws = requests_of(requests);
        if (r.kind != MD_LOGITS) refuse_kind(r, "rows", "children are drawn from MD_LOGITS");
        level_batch const nodes{l.entries, l.requests, l.nodes, l.wanted, l.depths};
        children_batch const out{c.tokens, c.first, c.stride, c.counts, c.certain, nullptr, c.node_index};
        with_logits(r, "rows", [&](auto element) {
            draft_rows_of(pool_policy(pool), m, nodes, logits_of<decltype(element)>(r), draws, out);
        });
    });
}

md_status md_verify_workspace_size(md_method const* method, md_pool* pool, std::int32_t requests, std::int32_t nodes,
                                   std::int32_t depth, std::size_t* bytes) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        refuse_null(bytes, "bytes");
        if (requests < 0) refuse("requests", requests, "a batch has 0 requests or more");
        static_cast<void>(m.scratch_bytes(nodes, depth));  // refuses what no tree has
        *bytes = verify_workspace_size(pool_policy(pool), m, requests, nodes, depth);
    });
}

md_status md_verify(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                    md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts, void* memory,
                    std::size_t memory_size) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        pool_policy const policy(pool);
        any_drafted_batch const drafts = trees_of(trees);
        md_rows const p = read(target, "target");
        md_rows const q = draft == nullptr ? md_rows{} : read(draft, "draft");
        request_batch const draws = requests_of(requests);
        md_verdicts const v = read(verdicts, "verdicts");
        verdict_batch const out{v.path, v.path_stride, v.accepted, v.next};
        verify::scratch_memory own;
        workspace scratch(memory, memory_size);
        if (memory == nullptr) scratch = own.of(workspace_bytes(policy, m, drafts.trees));
        with_rows(p, draft == nullptr ? nullptr : &q, [&](auto const& target_of, auto const* draft_of) {
            verify_rows(policy, m, drafts, target_of, draft_of, draws, out, scratch);
        });
    });
}

md_status md_validate(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                      md_rows const* draft, md_requests const* requests) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        any_drafted_batch const drafts = trees_of(trees);
        md_rows const p = read(target, "target");
        md_rows const q = draft == nullptr ? md_rows{} : read(draft, "draft");
        request_batch const draws = requests_of(requests);
        validation_report report;
        with_rows(p, draft == nullptr ? nullptr : &q, [&](auto const& target_of, auto const* draft_of) {
            validate_rows(pool_policy(pool), m, drafts, target_of, draft_of, draws, &report);
        });
        refuse_reported(report);
    });
}

md_status md_distributions(md_rows const* rows, std::int64_t count, float* out) {
    return guarded([&] {
        md_rows const r = read(rows, "rows");
        if (count < 0) refuse("count", count, "there are 0 rows or more");
        if (count == 0) return;
        validate_row_size(r.vocabulary, "rows", ".vocabulary");
        refuse_null(r.data, "rows.data");
        refuse_null(out, "out");
        constexpr host_group g;
        with_rows(r, nullptr, [&](auto const& of, auto const*) {
            for (std::int64_t i = 0; i < count; ++i) {
                float* const to = out + i * r.vocabulary;
                if (of.row(i) < 0) refuse("rows.row_of", i, of.row(i), "a row is not negative");
                auto const b = static_cast<std::int32_t>(std::min<std::int64_t>(i, max_row_size));
                if constexpr (detail::has_sampling<std::decay_t<decltype(of)>>) validate(of.sampling_of(b));
                auto const row = of(g, i, b);
                for (index_t x = 0; x < r.vocabulary; ++x) to[x] = row(x);
            }
        });
    });
}
