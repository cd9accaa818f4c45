// Launches on streams. A library without CUDA has the same functions, which return MD_UNAVAILABLE.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "errors.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"

#if defined(MULTIDRAFT_LIBRARY_CUDA)

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string>

#include "cuda_kernels.hpp"
#include "library_methods.hpp"
#include "methods.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/detail/refusals.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"
#include "structs.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

void check(cudaError_t result) {
    if (result != cudaSuccess)
        throw system_failure(std::string("CUDA: ") + cudaGetErrorName(result) + ": " + cudaGetErrorString(result));
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

/// Compile-time properties of methods, by index in the list.
struct facts_of_methods {
    using bytes = std::size_t (*)(node_id nodes, std::int32_t depth);

    template <class... Methods>
    struct table {
        static constexpr std::array<bytes, sizeof...(Methods)> scratch_bytes{
            &verify::scratch_bytes<typename Methods::verifier>...};
        static constexpr std::array<bool, sizeof...(Methods)> needs_scratch{
            verify::needs_scratch<typename Methods::verifier>...};
        static constexpr std::array<bool, sizeof...(Methods)> drawn_by_text{
            Methods::sampler::law::traits.addressed_by_text...};
    };
};
using facts = library_methods::as<facts_of_methods::table>;

template <class T>
struct verifications {
    using function = cudaError_t (*)(cudaStream_t, tree_batch const&, logit_batch<T> const&, logit_batch<T> const*,
                                     request_batch const&, verdict_batch const&, workspace const&);
    template <class... Methods>
    struct table {
        static constexpr std::array<function, sizeof...(Methods)> functions{&verify_on_stream<Methods, T>...};
    };
};

/// Scratch in bytes of a tree of `nodes` nodes.
std::size_t scratch_of(any_c_method const& method, node_id nodes, std::int32_t depth) {
    return facts::scratch_bytes[method.index()](nodes, depth);
}

md_rows logits_for_device(md_rows const* given, char const* name) {
    md_rows const r = read_rows(given, name);
    if (r.kind != MD_LOGITS) refuse_kind(r, name, "on a device rows are MD_LOGITS");
    if (r.adjustments != nullptr)
        refuse(std::string(name) + ".adjustments", "given", "masks and biases of rows are for host threads");
    with_element(r, name, [&](auto element) { detail::refuse_bad_extents(logits_of<decltype(element)>(r), name); });
    return r;
}

/// The rows of a batch, with or without the draft's.
struct batch_rows {
    md_rows target;
    md_rows draft;
    bool has_draft;

    batch_rows(md_rows const* p, md_rows const* q)
        : target(logits_for_device(p, "target")),
          draft(q == nullptr ? md_rows{} : logits_for_device(q, "draft")),
          has_draft(q != nullptr) {
        if (!has_draft) return;
        refuse_unlike(target, &draft);
        if (draft.vocabulary != target.vocabulary)
            refuse("draft.vocabulary", draft.vocabulary, "draft and target have one vocabulary");
    }

    /// Calls `use(target's rows, the draft's or null)`.
    template <class Use>
    void with(Use const& use) const {
        with_element(target, "target", [&](auto element) {
            using T = decltype(element);
            auto const p = logits_of<T>(target);
            auto const q = logits_of<T>(draft);
            use(p, has_draft ? &q : nullptr);
        });
    }
};

void check_trees(tree_batch const& trees) {
    if (trees.requests < 0) refuse("trees.requests", trees.requests, "a batch has 0 requests or more");
    if (trees.nodes < trees.requests) refuse("trees.nodes", trees.nodes, "a tree has 1 node or more");
    if (trees.requests == 0 && trees.nodes > 0)
        refuse("trees.nodes", trees.nodes, "a batch of no requests has no nodes");
    if (trees.requests == 0) return;
    refuse_null(trees.offsets, "trees.offsets");
    refuse_null(trees.parents, "trees.parents");
}

void check_drafts(any_c_method const& method, any_drafted_batch const& drafts, request_batch const& requests) {
    with_names(names_of_batch, [&] { detail::check_law(method, drafts); });
    check_trees(drafts.trees);
    if (drafts.trees.requests == 0) return;
    refuse_null(drafts.trees.tokens, "trees.tokens");
    if (method.counts_certain()) refuse_null(drafts.trees.certain, "trees.certain");
    refuse_null(requests.seeds, "requests.seeds");
    refuse_null(requests.positions, "requests.positions");
}

/// Trees of which tokens and law are not read.
tree_batch shapes_of(md_trees const* given) {
    md_trees const t = read(given, "trees", {offsetof(md_trees, largest)});
    tree_batch const result{t.requests, t.nodes, t.offsets, t.parents};
    check_trees(result);
    return result;
}

void check_words(void const* words, std::int64_t row_words) {
    refuse_null(words, "words");
    if (row_words < 1 || row_words > max_nodes / 64)
        refuse("row_words", row_words, "a mask has 1 to 2^18 words, enough for the largest tree");
}

template <class T>
dense_masks<T> dense_of(md_dense_masks const* given) {
    md_dense_masks const m = read(given, "out");
    refuse_null(m.data, "out.data");
    if (m.columns < 0) refuse("out.columns", m.columns, "a mask has 0 columns or more");
    if (m.row_stride < m.columns) refuse("out.row_stride", m.row_stride, "rows would overlap");
    return {static_cast<T*>(m.data), m.columns, m.row_stride, m.contexts};
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

std::int32_t md_has_cuda(void) { return 1; }

md_status md_cuda_draft_workspace_size(std::int32_t entries, std::size_t* bytes) {
    return guarded([&] {
        refuse_null(bytes, "bytes");
        if (entries < 0) refuse("entries", entries, "a level has 0 entries or more");
        *bytes = workspace_on_stream(entries, 0);
    });
}

md_status md_cuda_draft(md_method const* method, void* stream, md_level const* level, md_rows const* rows,
                        md_requests const* requests, md_children const* children, void* memory,
                        std::size_t memory_size) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        md_level const l = read(level, "level");
        md_rows const r = logits_for_device(rows, "rows");
        md_children const c = read(children, "children");
        request_batch const draws = requests_of(requests);
        if (l.entries < 0) refuse("level.entries", l.entries, "a level has 0 entries or more");
        if (l.entries == 0) return;
        refuse_null(l.requests, "level.requests");
        refuse_null(l.nodes, "level.nodes");
        if (facts::drawn_by_text[m.index()]) refuse_null(l.depths, "level.depths");
        refuse_null(draws.seeds, "requests.seeds");
        refuse_null(draws.positions, "requests.positions");
        refuse_null(c.tokens, "children.tokens");
        if (c.first != nullptr) refuse_null(l.wanted, "level.wanted");
        if (c.stride < (c.first == nullptr ? 1 : 0))
            refuse("children.stride", c.stride, "it is the number of places for the children of an entry");
        if (m.counts_certain()) refuse_null(c.certain, "children.certain");
        level_batch const nodes{l.entries, l.requests, l.nodes, l.wanted, l.depths};
        children_batch const out{c.tokens, c.first, c.stride, c.counts, c.certain, nullptr, c.node_index};
        with_element(r, "rows", [&](auto element) {
            check(draft_on_stream(m.index(), stream_of(stream), nodes, logits_of<decltype(element)>(r), draws, out,
                                  workspace(memory, memory_size)));
        });
    });
}

md_status md_cuda_verify_workspace_size(md_method const* method, std::int32_t requests, std::int32_t nodes,
                                        std::int32_t depth, std::size_t* bytes) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        refuse_null(bytes, "bytes");
        if (requests < 0) refuse("requests", requests, "a batch has 0 requests or more");
        if (nodes < 1 || nodes > max_nodes) refuse("nodes", nodes, "a tree has 1 to 2^24 nodes");
        if (depth < 0 || depth > nodes) refuse("depth", depth, "a tree has no more levels than nodes");
        *bytes = workspace_on_stream(requests, scratch_of(m, nodes, depth));
    });
}

md_status md_cuda_verify(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                         md_rows const* draft, md_requests const* requests, md_verdicts const* verdicts, void* memory,
                         std::size_t memory_size) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        any_drafted_batch const drafts = trees_of(trees);
        batch_rows const rows(target, draft);
        request_batch const draws = requests_of(requests);
        md_verdicts const v = read(verdicts, "verdicts");
        check_drafts(m, drafts, draws);
        if (m.reads_draft() && !rows.has_draft)
            refuse("draft", "unread", std::string(m.name()) + " reads the draft's rows");
        if (drafts.trees.requests == 0) return;
        refuse_null(v.path, "verdicts.path");
        refuse_null(v.accepted, "verdicts.accepted");
        refuse_null(v.next, "verdicts.next");
        if (v.path_stride < 0) refuse("verdicts.path_stride", v.path_stride, "a path has room for 0 nodes or more");
        verdict_batch const out{v.path, v.path_stride, v.accepted, v.next};
        if (facts::needs_scratch[m.index()]) {
            node_id const largest = drafts.trees.largest;
            if (largest < 1) refuse("trees.largest", largest, std::string(m.name()) + " divides its workspace by it");
            std::size_t const wanted =
                scratch_on_stream(drafts.trees.requests, scratch_of(m, largest, out.deepest(largest)));
            if (memory == nullptr || memory_size < wanted)
                refuse("workspace.size", memory_size,
                       std::to_string(wanted) + " bytes or more are needed (md_cuda_verify_workspace_size)");
        }
        if (reinterpret_cast<std::uintptr_t>(memory) % 16 != 0)
            refuse("workspace.data", reinterpret_cast<std::uintptr_t>(memory), "a workspace is aligned to 16 bytes");
        rows.with([&]<class T>(logit_batch<T> const& p, logit_batch<T> const* q) {
            using table = library_methods::as<verifications<T>::template table>;
            check(table::functions[m.index()](stream_of(stream), drafts.trees, p, q, draws, out,
                                              workspace(memory, memory_size)));
        });
    });
}

namespace {}  // namespace

md_status md_cuda_validate_workspace_size(std::size_t* bytes) {
    return guarded([&] {
        refuse_null(bytes, "bytes");
        *bytes = sizeof(validation_report);
    });
}

md_status md_cuda_validate(md_method const* method, void* stream, md_trees const* trees, md_rows const* target,
                           md_rows const* draft, md_requests const* requests, void* memory, std::size_t memory_size) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        any_drafted_batch const drafts = trees_of(trees);
        batch_rows const rows(target, draft);
        request_batch const draws = requests_of(requests);
        check_drafts(m, drafts, draws);
        std::size_t const wanted = sizeof(validation_report);
        if (memory == nullptr || memory_size < wanted)
            refuse("workspace.size", memory_size,
                   std::to_string(wanted) + " bytes are needed (md_cuda_validate_workspace_size)");
        auto* const on_device = static_cast<validation_report*>(memory);
        rows.with([&](auto const& p, auto const* q) {
            check(validate_on_stream(m.index(), stream_of(stream), drafts.trees, p, q, draws, on_device));
        });
        validation_report report;
        check(cudaMemcpyAsync(&report, on_device, sizeof(report), cudaMemcpyDeviceToHost, stream_of(stream)));
        check(cudaStreamSynchronize(stream_of(stream)));
        with_names(names_of_batch, [&] { refuse_reported(report); });
    });
}

md_status md_cuda_write_masks(void* stream, md_trees const* trees, std::uint64_t* words, std::int64_t row_words) {
    return guarded([&] {
        tree_batch const of = shapes_of(trees);
        check_words(words, row_words);
        check(write_masks_on_stream(stream_of(stream), of, words, row_words));
    });
}

md_status md_cuda_write_mask_bytes(void* stream, md_trees const* trees, std::uint64_t const* words,
                                   std::int64_t row_words, md_dense_masks const* out) {
    return guarded([&] {
        tree_batch const of = shapes_of(trees);
        check_words(words, row_words);
        check(write_bytes_on_stream(stream_of(stream), of, words, row_words, dense_of<std::uint8_t>(out)));
    });
}

md_status md_cuda_write_mask_bias(void* stream, md_trees const* trees, std::uint64_t const* words,
                                  std::int64_t row_words, std::int32_t dtype, md_dense_masks const* out) {
    return guarded([&] {
        tree_batch const of = shapes_of(trees);
        check_words(words, row_words);
        if (dtype == MD_FLOAT32)
            check(write_bias_on_stream(stream_of(stream), of, words, row_words, dense_of<float>(out)));
        else if (dtype == MD_FLOAT16)
            check(write_bias_on_stream(stream_of(stream), of, words, row_words, dense_of<float16>(out)));
        else if (dtype == MD_BFLOAT16)
            check(write_bias_on_stream(stream_of(stream), of, words, row_words, dense_of<bfloat16>(out)));
        else
            refuse("dtype", dtype, "it is MD_FLOAT32, MD_FLOAT16 or MD_BFLOAT16");
    });
}

md_status md_cuda_write_positions(void* stream, md_trees const* trees, std::int32_t const* positions,
                                  std::int32_t* out) {
    return guarded([&] {
        tree_batch const of = shapes_of(trees);
        refuse_null(positions, "positions");
        refuse_null(out, "out");
        check(write_positions_on_stream(stream_of(stream), of, positions, out));
    });
}

md_status md_cuda_level_order_workspace_size(std::int64_t nodes, std::size_t* bytes) {
    return guarded([&] {
        refuse_null(bytes, "bytes");
        if (nodes < 0) refuse("nodes", nodes, "a batch has 0 nodes or more");
        check(level_order_workspace_on_stream(nodes, *bytes));
    });
}

md_status md_cuda_level_order(void* stream, md_trees const* trees, std::int32_t* level_parents, std::int32_t* order,
                              std::int64_t* rows, std::int32_t* faults, void* memory, std::size_t memory_size) {
    return guarded([&] {
        tree_batch const of = shapes_of(trees);
        if (of.requests == 0) return;
        refuse_null(level_parents, "level_parents");
        std::size_t wanted = 0;
        check(level_order_workspace_on_stream(of.nodes, wanted));
        if (memory == nullptr || memory_size < wanted)
            refuse("workspace.size", memory_size,
                   std::to_string(wanted) + " bytes or more are needed (md_cuda_level_order_workspace_size)");
        if (reinterpret_cast<std::uintptr_t>(memory) % 256 != 0)
            refuse("workspace.data", reinterpret_cast<std::uintptr_t>(memory),
                   "this workspace is aligned to 256 bytes");
        built_trees out;
        out.parents = level_parents;
        out.order = order;
        out.rows = rows;
        out.faults = faults;
        check(level_order_on_stream(stream_of(stream), of, out, memory, memory_size));
    });
}

md_status md_cuda_compact(void* stream, md_cuda_cache const* cache, std::int32_t requests, md_verdicts const* verdicts,
                          std::int64_t const* bases) {
    return guarded([&] {
        // The struct of older callers ends before the list.
        md_cuda_cache const c = read(cache, "cache", {offsetof(md_cuda_cache, list)});
        md_verdicts const v = read(verdicts, "verdicts");
        if (requests < 0) refuse("requests", requests, "a batch has 0 requests or more");
        if (requests == 0) return;
        if (c.list == nullptr) {
            refuse_null(c.data, "cache.data");
        } else {
            if (c.listed < 1) refuse("cache.listed", c.listed, "a list has 1 address or more");
            if (c.list_alignment < 1)
                refuse("cache.list_alignment", c.list_alignment, "it is a number of bytes that divides the addresses");
        }
        refuse_null(v.path, "verdicts.path");
        refuse_null(v.accepted, "verdicts.accepted");
        refuse_null(bases, "bases");
        if (v.path_stride < 1) refuse("verdicts.path_stride", v.path_stride, "paths lie a stride apart");
        if (c.entry_bytes < 1) refuse("cache.entry_bytes", c.entry_bytes, "an entry has a byte or more");
        if (c.entry_stride < c.entry_bytes) refuse("cache.entry_stride", c.entry_stride, "entries would overlap");
        if (c.axis_count > contiguous_cache::dimensions)
            refuse("cache.axis_count", c.axis_count, "a cache has up to 4 axes");
        kept_batch const kept{requests, v.path, v.path_stride, v.accepted, bases, 1};
        auto const with_axes = [&](auto of) {
            of.list = c.list;
            if (c.list != nullptr) {
                of.listed = c.listed;
                of.list_alignment = c.list_alignment;
            }
            std::size_t k = 0;
            for (md_axis const& axis : array(c.axes, c.axis_count, "cache.axes")) {
                if (axis.count < 1)
                    refuse("cache.axes", static_cast<std::int64_t>(k), axis.count, "an axis has 1 plane or more");
                if (axis.count > 1 && axis.stride == 0)
                    refuse("cache.axes", static_cast<std::int64_t>(k), axis.stride, "planes would overlap");
                of.axes[k++] = {axis.count, axis.stride};
            }
            check(compact_on_stream(stream_of(stream), of, kept));
        };
        if (c.pages == nullptr) {
            contiguous_cache of;
            of.data = c.data;
            of.request_stride = c.request_stride;
            of.entry_stride = c.entry_stride;
            of.entry_bytes = c.entry_bytes;
            with_axes(of);
        } else {
            if (c.page_entries < 1) refuse("cache.page_entries", c.page_entries, "a page has an entry or more");
            paged_cache of;
            of.data = c.data;
            of.pages.table = c.pages;
            of.pages.table_stride = c.pages_stride;
            of.pages.entries = c.page_entries;
            of.pages.page_stride = c.page_stride;
            of.entry_stride = c.entry_stride;
            of.entry_bytes = c.entry_bytes;
            with_axes(of);
        }
    });
}

#else

namespace {

md_status say_unavailable() {
    using namespace multidraft::c_interface;
    return guarded([] { throw unavailable("this library was built without CUDA (MULTIDRAFT_LIBRARY_CUDA)"); });
}

}  // namespace

std::int32_t md_has_cuda(void) { return 0; }
md_status md_cuda_draft_workspace_size(std::int32_t, std::size_t*) { return say_unavailable(); }
md_status md_cuda_draft(md_method const*, void*, md_level const*, md_rows const*, md_requests const*,
                        md_children const*, void*, std::size_t) {
    return say_unavailable();
}
md_status md_cuda_verify_workspace_size(md_method const*, std::int32_t, std::int32_t, std::int32_t, std::size_t*) {
    return say_unavailable();
}
md_status md_cuda_verify(md_method const*, void*, md_trees const*, md_rows const*, md_rows const*, md_requests const*,
                         md_verdicts const*, void*, std::size_t) {
    return say_unavailable();
}
md_status md_cuda_validate_workspace_size(std::size_t*) { return say_unavailable(); }
md_status md_cuda_validate(md_method const*, void*, md_trees const*, md_rows const*, md_rows const*, md_requests const*,
                           void*, std::size_t) {
    return say_unavailable();
}
md_status md_cuda_write_masks(void*, md_trees const*, std::uint64_t*, std::int64_t) { return say_unavailable(); }
md_status md_cuda_write_mask_bytes(void*, md_trees const*, std::uint64_t const*, std::int64_t, md_dense_masks const*) {
    return say_unavailable();
}
md_status md_cuda_write_mask_bias(void*, md_trees const*, std::uint64_t const*, std::int64_t, std::int32_t,
                                  md_dense_masks const*) {
    return say_unavailable();
}
md_status md_cuda_write_positions(void*, md_trees const*, std::int32_t const*, std::int32_t*) {
    return say_unavailable();
}
md_status md_cuda_level_order_workspace_size(std::int64_t, std::size_t*) { return say_unavailable(); }
md_status md_cuda_level_order(void*, md_trees const*, std::int32_t*, std::int32_t*, std::int64_t*, std::int32_t*, void*,
                              std::size_t) {
    return say_unavailable();
}
md_status md_cuda_compact(void*, md_cuda_cache const*, std::int32_t, md_verdicts const*, std::int64_t const*) {
    return say_unavailable();
}

#endif
