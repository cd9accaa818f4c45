// Drafts, verdicts, validation and distributions on host threads.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>

#include "errors.hpp"
#include "kernels.hpp"
#include "methods.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"
#include "pool.hpp"
#include "rows.hpp"
#include "structs.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

/// Calls `use(rows, rows of the draft or null)`. If one of them has masks or biases, both are `adjusted_batch`es; so is
/// the target beside a draft of candidates.
template <class Use>
void with_rows(md_rows const& target, char const* name, md_rows const* draft, Use const& use) {
    if (target.kind != MD_LOGITS && target.kind != MD_PROBABILITIES)
        refuse_kind(target, name, "it is MD_LOGITS or MD_PROBABILITIES");
    if (target.kind == MD_LOGITS) with_element(target, name, [](auto) {});  // refuses others
    refuse_unlike(target, draft);
    if (draft != nullptr && draft->candidates != nullptr) {
        candidate_batch<float> const q = candidates_of(*draft, "draft");
        return with_element(target, name, [&](auto element) {
            using T = decltype(element);
            with_names(names_of_candidates,
                       [&] { use(adjusted_batch<T>(logits_of<T>(target), adjustments_of(target, name)), &q); });
        });
    }
    auto const both = [&](auto const& convert) {
        auto const p = convert(target, name);
        using rows = std::remove_const_t<decltype(p)>;
        if (draft == nullptr) return use(p, static_cast<rows const*>(nullptr));
        rows const q = convert(*draft, "draft");
        use(p, &q);
    };
    if (target.kind == MD_PROBABILITIES) {
        if (target.dtype != MD_FLOAT32) refuse_dtype(target, name, "rows of probabilities are MD_FLOAT32");
        refuse_adjustments(&target, name);
        refuse_adjustments(draft, "draft");
        both([](md_rows const& r, char const*) { return probabilities_of(r); });
    } else {
        bool const are_adjusted = target.adjustments != nullptr || (draft != nullptr && draft->adjustments != nullptr);
        with_element(target, name, [&](auto element) {
            using T = decltype(element);
            if (are_adjusted)
                both([](md_rows const& r, char const* of) {
                    return adjusted_batch<T>(logits_of<T>(r), adjustments_of(r, of));
                });
            else
                both([](md_rows const& r, char const*) { return logits_of<T>(r); });
        });
    }
}

/// The workspace for verifying a batch in bytes. Invalid trees are refused later.
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

/// Which entry of a row is at fault, as in the reasons of `md_validate`.
std::string token_text(std::int64_t token) { return token < 0 ? "" : " (token " + std::to_string(token) + ')'; }

/// Throws what `read` refuses about row i, which it does not know the number of.
template <class Read>
void check_row(std::int64_t i, Read const& read) {
    try {
        read();
    } catch (invalid_input const& e) {
        refuse("rows", i, e.value(), e.reason() + token_text(e.index()));
    }
}

/// Throws for sampling parameters of row i that are out of their range.
void check_sampling_of_row(md_rows const& rows, std::int64_t i, sampling_params const& of_row) {
    try {
        validate(of_row);
    } catch (invalid_input const& e) {
        if (rows.sampling == nullptr) refuse_member("rows.default_sampling", e);
        refuse("rows.sampling." + e.argument(), i, e.value(), e.reason());
    }
}

/// Draws from logits; the caller has refused other rows.
template <class Rows>
void draft_from(pool_policy const& policy, any_c_method const& method, level_batch const& level, Rows const& rows,
                request_batch const& requests, children_batch const& out) {
    if constexpr (logit_row_batch<Rows>) draft_rows_of(policy, method, level, rows, requests, out);
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

std::int32_t md_has_dtype(std::int32_t dtype) {
    return dtype == MD_FLOAT32 || (has_float16 && dtype == MD_FLOAT16) || (has_bfloat16 && dtype == MD_BFLOAT16) ? 1
                                                                                                                 : 0;
}

md_status md_draft(md_method const* method, md_pool* pool, md_level const* level, md_rows const* rows,
                   md_requests const* requests, md_children const* children) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        md_level const l = read(level, "level");
        md_rows const r = read_draft_rows(rows, "rows");
        md_children const c = read(children, "children");
        request_batch const draws = requests_of(requests);
        if (r.kind != MD_LOGITS) refuse_kind(r, "rows", "children are drawn from MD_LOGITS");
        level_batch const nodes{l.entries, l.requests, l.nodes, l.wanted, l.depths};
        children_batch const out{c.tokens, c.first, c.stride, c.counts, c.certain, nullptr, c.node_index};
        auto const draw = [&](auto const& of) {
            with_names({{"draft.tokens", "rows.candidates"},
                        {"draft.candidates", "rows.candidate_count"},
                        {"draft", "rows"},
                        {"out", "children"},
                        {"positions", "requests.positions"}},
                       [&] { draft_from(pool_policy(pool), m, nodes, of, draws, out); });
        };
        if (r.candidates != nullptr) return draw(candidates_of(r, "rows"));
        with_rows(r, "rows", nullptr, [&](auto const& of, auto const*) { draw(of); });
    });
}

md_status md_verify_workspace_size(md_method const* method, md_pool* pool, std::int32_t requests, std::int32_t nodes,
                                   std::int32_t depth, std::size_t* bytes) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        refuse_null(bytes, "bytes");
        if (requests < 0) refuse("requests", requests, "a batch has 0 requests or more");
        static_cast<void>(m.scratch_bytes(nodes, depth));  // refuses sizes that no tree has
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
        md_rows const p = read_rows(target, "target");
        md_rows const q = draft == nullptr ? md_rows{} : read_draft_rows(draft, "draft");
        request_batch const draws = requests_of(requests);
        md_verdicts const v = read(verdicts, "verdicts");
        verdict_batch const out{v.path, v.path_stride, v.accepted, v.next};
        verify::scratch_memory own;
        workspace scratch(memory, memory_size);
        if (memory == nullptr) scratch = own.of(workspace_bytes(policy, m, drafts.trees));
        with_rows(p, "target", draft == nullptr ? nullptr : &q, [&](auto const& target_of, auto const* draft_of) {
            with_names(names_of_batch,
                       [&] { verify_rows(policy, m, drafts, target_of, draft_of, draws, out, scratch); });
        });
    });
}

md_status md_validate(md_method const* method, md_pool* pool, md_trees const* trees, md_rows const* target,
                      md_rows const* draft, md_requests const* requests) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        any_drafted_batch const drafts = trees_of(trees);
        md_rows const p = read_rows(target, "target");
        md_rows const q = draft == nullptr ? md_rows{} : read_draft_rows(draft, "draft");
        request_batch const draws = requests_of(requests);
        validation_report report;
        with_rows(p, "target", draft == nullptr ? nullptr : &q, [&](auto const& target_of, auto const* draft_of) {
            with_names(names_of_batch,
                       [&] { validate_rows(pool_policy(pool), m, drafts, target_of, draft_of, draws, &report); });
        });
        with_names(names_of_batch, [&] { refuse_reported(report); });
    });
}

md_status md_distributions(md_rows const* rows, std::int64_t count, float* out) {
    return guarded([&] {
        md_rows const r = read_rows(rows, "rows");
        if (count < 0) refuse("count", count, "there are 0 rows or more");
        if (count == 0) return;
        refuse_null(out, "out");
        constexpr host_group g;
        with_rows(r, "rows", nullptr, [&](auto const& of, auto const*) {
            detail::refuse_bad_extents(of, "rows");
            auto const request_of = [](std::int64_t i) {
                return static_cast<std::int32_t>(std::min<std::int64_t>(i, max_row_size));
            };
            // All rows are processed before the first is written.
            for (std::int64_t i = 0; i < count; ++i) {
                if (of.row(i) < 0) refuse("rows.row_of", i, of.row(i), "a row is not negative");
                if (detail::batch_fault const f = detail::check_adjustments(of, batch_argument::target, i, i);
                    f.what != batch_argument::nothing)
                    refuse(f.what == batch_argument::target_bias ? "rows.bias" : "rows.allowed_of", i, f.value,
                           detail::rule_of(f.what, f.token));
                if constexpr (detail::has_sampling<std::decay_t<decltype(of)>>) {
                    check_sampling_of_row(r, i, of.sampling_of(request_of(i)));
                    check_row(i, [&] { static_cast<void>(of(g, i, request_of(i))); });
                } else {
                    auto const f = detail::check_probabilities(g, of(g, i, request_of(i)), sum_tolerance<float>,
                                                               batch_argument::target, 0);
                    if (f.what == batch_argument::nothing) continue;
                    if (f.token != none)
                        refuse("rows", i, f.value, "a probability is a number of 0 or more" + token_text(f.token));
                    refuse("rows", i, f.value, "the probabilities of a row sum to 1");
                }
            }
            for (std::int64_t i = 0; i < count; ++i) {
                auto const row = of(g, i, request_of(i));
                for (index_t x = 0; x < r.vocabulary; ++x) out[i * r.vocabulary + x] = row(x);
            }
        });
    });
}
