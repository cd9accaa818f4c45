// What the threads of one group do with one tree of a batch: the body of the CUDA launches, for any group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Where verification writes: for request b the nodes accepted, root excluded, at `path + b * path_stride`, how many
/// they are, and the token that follows them.
struct verdict_batch {
    node_id* path = nullptr;
    std::int64_t path_stride = 0;  ///< at least the depth of the deepest tree
    std::int32_t* accepted = nullptr;
    token_id* next = nullptr;
};

/// Verifies the tree of request b, in `scratch` if the verifier needs some (`verify::scratch_bytes`). Trees of another
/// law than the verifier's do not compile. A tree deeper than the path or larger than the scratch has room for, parents
/// that are no tree (those of a request that is there for its place only, say), and whatever the verifier refuses, give
/// 0 accepted nodes and the token `none`. `prefetched`: see `detail::prefetched_rows`.
template <class Layout, verify::verifier Verifier, group G, draft_law Law, class Target, class Draft>
MULTIDRAFT_HD void verify_request(G const& g, Verifier const& verifier, std::int32_t b,
                                  drafted_batch<Law> const& drafts, request_batch const& requests, Target const& target,
                                  Draft const& draft, index_t vocabulary, verdict_batch const& out,
                                  span<std::byte> scratch = {}, int prefetched = 0) {
    verify::require_law<Verifier, Law>();
    tree_batch const& trees = drafts.trees;
    tree_view const tree = trees(b);
    node_id const nodes = tree.size();
    verdict answer;
    bool const is_tree = tree.is_tree();
    std::int32_t const depth = is_tree ? tree.depth(nodes - 1) : 0;
    if (is_tree && depth <= out.path_stride && verify::scratch_bytes<Verifier>(nodes, depth) <= scratch.size() &&
        reinterpret_cast<std::uintptr_t>(scratch.data()) % verify::scratch_alignment == 0) {
        addressed_source source{requests.uniforms(b)};
        auto const candidates = make_drafted<typename Verifier::law>(tree, trees.certain_of(b));
        span<node_id> const path(out.path + b * out.path_stride, static_cast<std::size_t>(out.path_stride));
        detail::request_rows<Layout, Target> const p{target, trees, requests, vocabulary, b, prefetched};
        auto const with = [&](auto const& q) {
            return verify::verify_tree(verifier, g, candidates, p, q, source, requests.positions[b], path, scratch);
        };
        if constexpr (std::is_same_v<Draft, no_draft_rows>)
            answer = with(verify::no_draft_rows{});
        else
            answer = with(detail::request_rows<Layout, Draft>{draft, trees, requests, vocabulary, b});
    }
    if (g.leader()) {
        out.accepted[b] = answer.next == none ? 0 : answer.accepted;
        out.next[b] = answer.next;
    }
}

/// The nodes of one or more requests that get children now, such as a level of every tree, and where those go.
///
/// Entry e is node `nodes[e]` of request `request[e]`; its logits are row e. Its children's tokens are written to
/// `tokens[first[e]] ..`, `wanted[e]` of them.
struct draft_batch {
    std::int32_t entries = 0;
    std::int32_t const* request = nullptr;
    node_id const* nodes = nullptr;
    std::int64_t const* first = nullptr;
    std::int32_t const* wanted = nullptr;
    token_id* tokens = nullptr;                 ///< those that could not be drawn are `none`
    std::int32_t* drawn = nullptr;              ///< how many were drawn for each entry; may be null
    row_state* states = nullptr;                ///< for each entry, for `prepared`; may be null
    std::int64_t const* state_index = nullptr;  ///< where in `states` the one of an entry goes; may be null: at e
    /// How many of an entry's children are certain, for `tree_batch::certain`: where `states` go. May be null for laws
    /// without certain children.
    index_t* certain = nullptr;
};

/// Draws the children of entry e: the row's normaliser and the draws.
template <class Layout, sampler Sampler, group G, class T>
MULTIDRAFT_HD void draft_entry(G const& g, Sampler const& sampler, std::int32_t e, draft_batch const& batch,
                               request_batch const& requests, logits<T> const& rows, index_t vocabulary) {
    std::int32_t const b = batch.request[e];
    row_view<T, Layout> const x(rows.data + e * rows.row_stride, vocabulary);
    auto q = process_logits(g, x, requests.sampling_of(b));
    span<token_id> const out(batch.tokens + batch.first[e], static_cast<std::size_t>(batch.wanted[e]));
    addressed_source source{requests.uniforms(b)};
    drawn_children const drawn =
        sampler(g, q.row, q.sums, source, draw_site{requests.positions[b], batch.nodes[e]}, out);
    if (g.leader()) {
        std::int64_t const at = batch.state_index == nullptr ? e : batch.state_index[e];
        for (auto k = static_cast<std::size_t>(drawn.count); k < out.size(); ++k) out[k] = none;
        if (batch.drawn != nullptr) batch.drawn[e] = drawn.count;
        if (batch.certain != nullptr) batch.certain[at] = drawn.certain;
        if (batch.states != nullptr) {
            row_state state;
            state.largest = q.row.largest();
            state.scale = q.row.scale();
            state.mass = q.row.mass();
            state.cut_value = q.row.kept().value;
            state.cut_last = q.row.kept().last;
            batch.states[at] = state;
        }
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
