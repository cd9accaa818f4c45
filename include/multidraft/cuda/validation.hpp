// What is wrong with a batch: the checks of a validating launch, for any group, and its report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/core/arithmetic.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/cuda/batch.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/distribution/row_view.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The arguments that a validating launch looks at, in the order of a request's checks.
enum class checked : std::int32_t {
    nothing = 0,
    offsets,
    positions,
    temperature,
    top_k,
    top_p,
    min_p,
    parents,
    tokens,
    certain,
    target,
    draft,
    arithmetic  ///< of the device code, as it was compiled
};

/// The first bad argument of a batch, then the arithmetic of the device code, or `checked::nothing`: of the lowest
/// request, by the order of `checked`, at the lowest index.
struct validation_report {
    checked what = checked::nothing;
    std::int32_t request = 0;
    std::int64_t index = 0;  ///< the node, for `parents`, `tokens` and rows; else the request
    index_t token = none;    ///< of a row: the entry at fault; `none` when its sum is, or when no entry has mass
    double value = 0;        ///< for `arithmetic` an `arithmetic_fault`
};

/// The argument as the launches name it.
[[nodiscard]] constexpr char const* name_of(checked what) noexcept {
    constexpr char const* names[] = {"",        "offsets", "positions", "temperature", "top_k", "top_p",     "min_p",
                                     "parents", "tokens",  "certain",   "target",      "draft", "arithmetic"};
    return names[static_cast<int>(what)];
}

/// Throws `invalid_input` for a report that names an argument.
inline void refuse_reported(validation_report const& report) {
    if (report.what == checked::nothing) return;
    if (report.what == checked::arithmetic)
        refuse(name_of(report.what), report.value,
               std::string(text_of(static_cast<arithmetic_fault>(static_cast<std::int32_t>(report.value)))) +
                   ": see docs/floating_point.md");
    std::string why;
    switch (report.what) {
        case checked::offsets:
            why = "trees follow one another and have 1 to 2^24 nodes";
            break;
        case checked::positions:
            why = "a position is not negative";
            break;
        case checked::temperature:
            why = "a temperature is a finite number, 0 or larger";
            break;
        case checked::top_k:
            why = "top-k keeps 1 token or more; 0 turns it off";
            break;
        case checked::top_p:
            why = "top-p lies in (0, 1]; 1 turns it off";
            break;
        case checked::min_p:
            why = "min-p lies in [0, 1]; 0 turns it off";
            break;
        case checked::parents:
            why = "a parent comes before its child, and parents never decrease";
            break;
        case checked::tokens:
            why = "a token is in the vocabulary, and where the law draws different tokens no other child has it";
            break;
        case checked::certain:
            why =
                "the first children of a node are certain: no more than there are, different tokens, none drawn again";
            break;
        default:
            why = "the row of this node is no distribution";
            if (report.token != none) why += " (token " + std::to_string(report.token) + ')';
    }
    refuse(name_of(report.what), report.index, report.value, why + ", request " + std::to_string(report.request));
}

namespace detail {

struct fault {
    checked what = checked::nothing;
    std::int64_t index = 0;
    index_t token = none;
    double value = 0;
};

/// Faults order as these numbers do. No fault is the largest.
[[nodiscard]] MULTIDRAFT_HD inline unsigned long long key_of(std::int32_t request, fault const& f) noexcept {
    if (f.what == checked::nothing) return ~0ULL;
    return static_cast<unsigned long long>(request) << 33 | static_cast<unsigned long long>(f.what) << 28 |
           static_cast<unsigned long long>(f.index & 0xfffffff);
}

/// Whether the nodes of a request can be looked at.
[[nodiscard]] MULTIDRAFT_HD inline bool offsets_are_valid(tree_batch const& trees, std::int64_t nodes,
                                                          std::int32_t b) noexcept {
    std::int64_t const begin = trees.offsets[b];
    std::int64_t const end = trees.offsets[b + 1];
    return begin >= 0 && begin < end && end <= nodes && end - begin <= max_nodes && (b > 0 || begin == 0);
}

/// What a request has of its own; index 0.
[[nodiscard]] MULTIDRAFT_HD inline fault check_request(tree_batch const& trees, request_batch const& requests,
                                                       std::int64_t nodes, std::int32_t b) noexcept {
    if (!offsets_are_valid(trees, nodes, b)) return {checked::offsets, 0, none, static_cast<double>(trees.offsets[b])};
    if (b + 1 == trees.requests && trees.offsets[b + 1] != nodes)
        return {checked::offsets, 0, none, static_cast<double>(trees.offsets[b + 1])};
    if (requests.positions[b] < 0) return {checked::positions, 0, none, static_cast<double>(requests.positions[b])};
    sampling_params const w = requests.sampling_of(b);
    if (!(w.temperature >= 0.0F && w.temperature <= largest_number<float>))
        return {checked::temperature, 0, none, static_cast<double>(w.temperature)};
    if (w.top_k < 0) return {checked::top_k, 0, none, static_cast<double>(w.top_k)};
    if (!(w.top_p > 0.0F && w.top_p <= 1.0F)) return {checked::top_p, 0, none, static_cast<double>(w.top_p)};
    if (!(w.min_p >= 0.0F && w.min_p <= 1.0F)) return {checked::min_p, 0, none, static_cast<double>(w.min_p)};
    return {};
}

/// One node of a request whose offsets are valid.
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD fault check_node(drafted_batch<Law> const& drafts, index_t vocabulary, std::int32_t b,
                                             node_id v) noexcept {
    tree_batch const& trees = drafts.trees;
    std::int64_t const first = trees.offsets[b];
    node_id const parent = trees.parents[first + v];
    bool const good =
        v == 0 ? parent == none : parent >= 0 && parent < v && (v == 1 || parent >= trees.parents[first + v - 1]);
    if (!good) return {checked::parents, v, none, static_cast<double>(parent)};
    token_id const token = trees.tokens[first + v];
    if (v > 0 && (token < 0 || token >= vocabulary)) {
        // The last children of a node may be missing.
        std::int64_t const next = first + v + 1;
        bool const last = next == trees.offsets[b + 1] || trees.parents[next] != parent || trees.tokens[next] == none;
        if (token != none || !last) return {checked::tokens, v, none, static_cast<double>(token)};
    }
    tree_view const tree = trees(b);
    if (tokens_differ<Law> && verify::is_drawn_again(tree, v))
        return {checked::tokens, v, none, static_cast<double>(token)};
    if constexpr (counts_certain<Law>) {
        node_range children = tree.children(v);
        while (children.count > 0 && tree.tokens[static_cast<std::size_t>(children.end() - 1)] == none)
            --children.count;
        index_t const certain = trees.certain[first + v];
        span<token_id const> const tokens =
            tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
        if (!verify::is_certain_count(tokens, certain) && verify::is_present(tree, v))
            return {checked::certain, v, none, static_cast<double>(certain)};
    }
    return {};
}

/// A row of logits: no NaN, no plus infinity, not minus infinity alone.
template <group G, class T, class Layout>
[[nodiscard]] MULTIDRAFT_HD fault check_row(G const& g, row_view<T, Layout> const& x, logits<T> const&, checked what,
                                            node_id node) {
    index_t const n = x.size();
    auto const badness = [x](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        float const here = x(i);
        float const number = here > minus_infinity<float> ? 1.0F : 0.0F;
        return here <= largest_number<float> ? number : 2.0F;
    };
    float const worst = g.max(n, badness);
    if (worst == 1.0F) return {};
    if (worst == 0.0F) return {what, node, none, static_cast<double>(minus_infinity<float>)};
    index_t const i = g.argmax(n, badness);
    return {what, node, i, static_cast<double>(x(i))};
}

/// A row of probabilities: finite, not negative, and their sum near 1.
template <group G, class T, class Layout>
[[nodiscard]] MULTIDRAFT_HD fault check_row(G const& g, row_view<T, Layout> const& x, probability_batch<T> const&,
                                            checked what, node_id node) {
    index_t const n = x.size();
    auto const badness = [x](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        float const here = x(i);
        return here >= 0.0F && here <= largest_number<float> ? 0.0F : 1.0F;
    };
    if (g.max(n, badness) > 0.0F) {
        index_t const i = g.argmax(n, badness);
        return {what, node, i, static_cast<double>(x(i))};
    }
    float const sum = g.sum(n, x);
    double const tolerance = std::is_same_v<T, float> ? 1e-4 : 2e-2;  // see `sum_tolerance`
    double const error = static_cast<double>(sum) - 1.0;
    if (error <= tolerance && error >= -tolerance) return {};
    return {what, node, none, static_cast<double>(sum)};
}

template <group G, class Rows>
[[nodiscard]] MULTIDRAFT_HD fault check_row_of(G const& g, Rows const& rows, std::int64_t row, index_t vocabulary,
                                               checked what, node_id node) {
    using element = typename Rows::element;
    row_view<element> const x(rows.data + row * rows.row_stride, vocabulary);
    if constexpr (has_states<Rows>)
        return check_row(g, x, logits<element>{rows.data, rows.row_stride}, what, node);
    else
        return check_row(g, x, rows, what, node);
}

/// Finds again what the smallest key of a batch stands for; `~0` for no fault.
template <group G, draft_law Law, class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD validation_report report_of(G const& g, drafted_batch<Law> const& drafts,
                                                        request_batch const& requests, Target const& target,
                                                        Draft const& draft, std::int64_t nodes, index_t vocabulary,
                                                        unsigned long long key) {
    validation_report report;
    if (key == ~0ULL) return report;
    report.request = static_cast<std::int32_t>(key >> 33);
    auto const what = static_cast<checked>((key >> 28) & 31U);
    auto const v = static_cast<node_id>(key & 0xfffffffU);
    fault f;
    if (what == checked::target || what == checked::draft) {
        std::int64_t const row = drafts.trees.offsets[report.request] + v;
        if (what == checked::target)
            f = check_row_of(g, target, row, vocabulary, what, v);
        else if constexpr (!std::is_same_v<Draft, no_draft_rows>)
            f = check_row_of(g, draft, row, vocabulary, what, v);
    } else if (what >= checked::parents) {
        f = check_node(drafts, vocabulary, report.request, v);
    } else {
        f = check_request(drafts.trees, requests, nodes, report.request);
    }
    report.what = f.what;
    report.index = what >= checked::parents ? f.index : report.request;
    report.token = f.token;
    report.value = f.value;
    return report;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
