// The checks of a batch, request by request, node by node and row by row, for any group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

struct batch_fault {
    batch_argument what = batch_argument::nothing;
    std::int64_t index = 0;
    index_t token = none;
    double value = 0;
};

/// Faults in the order of these numbers. No fault is the largest.
using fault_key = std::uint64_t;
inline constexpr fault_key no_fault = ~fault_key{0};

[[nodiscard]] MULTIDRAFT_HD inline fault_key key_of(std::int32_t request, batch_fault const& f) noexcept {
    if (f.what == batch_argument::nothing) return no_fault;
    return static_cast<fault_key>(request) << 33 | static_cast<fault_key>(f.what) << 27 |
           static_cast<fault_key>(f.index & 0x7ffffff);
}

[[nodiscard]] MULTIDRAFT_HD constexpr std::int32_t request_of(fault_key key) noexcept {
    return static_cast<std::int32_t>(key >> 33);
}

/// Whether the nodes of a request can be read.
[[nodiscard]] MULTIDRAFT_HD inline bool offsets_are_valid(tree_batch const& trees, std::int32_t b) noexcept {
    std::int64_t const begin = trees.offsets[b];
    std::int64_t const end = trees.offsets[b + 1];
    return begin >= 0 && begin < end && end <= trees.nodes && end - begin <= max_nodes && (b > 0 || begin == 0);
}

/// The fault of a request's offsets: its index is 0 for where the tree begins, 1 for where it ends.
[[nodiscard]] MULTIDRAFT_HD inline batch_fault check_offsets(tree_batch const& trees, std::int32_t b) noexcept {
    std::int64_t const begin = trees.offsets[b];
    bool const begins = begin >= 0 && begin < trees.nodes && (b > 0 || begin == 0);
    bool const ends = b + 1 < trees.requests || trees.offsets[b + 1] == trees.nodes;
    if (offsets_are_valid(trees, b) && ends) return {};
    int const at = begins ? 1 : 0;
    return {batch_argument::offsets, at, none, static_cast<double>(trees.offsets[b + at])};
}

/// Refuses offsets by which the nodes of a request cannot be read; they are in host memory. O(requests).
inline void refuse_bad_offsets(tree_batch const& trees) {
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        batch_fault const f = check_offsets(trees, b);
        std::int32_t const request = trees.first_request + b;
        refuse_reported({f.what, request, request + f.index, none, f.value});
    }
}

/// Sampling parameters; `first` is the temperature of their owner.
[[nodiscard]] MULTIDRAFT_HD inline batch_fault check_sampling(sampling_params const& w, batch_argument first) noexcept {
    auto const at = [first](int k) { return static_cast<batch_argument>(static_cast<int>(first) + k); };
    if (!(w.temperature >= 0.0F && w.temperature <= largest_number<float>))
        return {at(0), 0, none, static_cast<double>(w.temperature)};
    if (w.top_k < 0) return {at(1), 0, none, static_cast<double>(w.top_k)};
    if (!(w.top_p > 0.0F && w.top_p <= 1.0F)) return {at(2), 0, none, static_cast<double>(w.top_p)};
    if (!(w.min_p >= 0.0F && w.min_p <= 1.0F)) return {at(3), 0, none, static_cast<double>(w.min_p)};
    return {};
}

/// Checks the slot and the sampling parameters of a request. `slot` is the argument for its slot; the next one is the
/// temperature.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_sampling_of(Rows const& mapped, [[maybe_unused]] batch_argument slot,
                                                          [[maybe_unused]] std::int32_t b) noexcept {
    [[maybe_unused]] auto const& rows = unmapped(mapped);
    using plain = std::remove_cvref_t<decltype(rows)>;
    if constexpr (has_slots<plain>)
        if (rows.slot_of != nullptr && rows.slot_of[b] < 0)
            return {slot, 0, none, static_cast<double>(rows.slot_of[b])};
    if constexpr (has_sampling<plain>)
        return check_sampling(rows.sampling_of(b), static_cast<batch_argument>(static_cast<int>(slot) + 1));
    else
        return {};
}

/// The checks of a request apart from its nodes; index 0.
template <class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_request(tree_batch const& trees, request_batch const& requests,
                                                      Target const& target, Draft const& draft,
                                                      std::int32_t b) noexcept {
    using what = batch_argument;
    if (batch_fault const f = check_offsets(trees, b); f.what != what::nothing) return f;
    if (requests.slot(b) < 0) return {what::slot_of, 0, none, static_cast<double>(requests.slot(b))};
    if (requests.is_repeated(b)) return {what::seeds, 0, none, static_cast<double>(requests.seed(b))};
    if (requests.position(b) < 0) return {what::positions, 0, none, static_cast<double>(requests.position(b))};
    batch_fault const result = check_sampling_of(target, what::target_slot_of, b);
    return result.what == what::nothing ? check_sampling_of(draft, what::draft_slot_of, b) : result;
}

/// One node of a request whose offsets are valid.
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_node(drafted_batch<Law> const& drafts, tree_rules const& rules,
                                                   index_t vocabulary, std::int32_t b, node_id v) noexcept {
    using what = batch_argument;
    tree_batch const& trees = drafts.trees;
    std::int64_t const first = trees.offsets[b];
    node_id const parent = trees.parents[first + v];
    bool const good =
        v == 0 ? parent == none : parent >= 0 && parent < v && (v == 1 || parent >= trees.parents[first + v - 1]);
    if (!good) return {what::parents, v, none, static_cast<double>(parent)};
    token_id const token = trees.tokens[first + v];
    tree_view const tree = trees(b);
    if (v > 0 && (token < 0 || token >= vocabulary)) {
        // The last children of a node may be absent.
        std::int64_t const next = first + v + 1;
        bool const last =
            next == trees.offsets[b + 1] || trees.parents[next] != parent || is_absent(trees.tokens[next]);
        bool const known = token == none || is_absent_for_a_reason(token);
        // Below an absent node any absent value will do.
        bool const matters = token >= vocabulary || verify::is_present(tree, parent);
        if (matters && (!known || !last)) return {what::tokens, v, none, static_cast<double>(token)};
        if (matters && token == none && !rules.children_may_be_left_out)
            return {what::absent, v, none, static_cast<double>(token)};
    }
    if (tokens_differ<Law> && verify::is_drawn_again(tree, v))
        return {what::tokens, v, none, static_cast<double>(token)};
    if constexpr (counts_certain<Law>) {
        node_range children = tree.children(v);
        while (children.count > 0 && is_absent(tree.tokens[children.end() - 1])) --children.count;
        index_t const certain = trees.certain[first + v];
        span<token_id const> const tokens =
            tree.tokens.subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
        index_t const draws = children.count - certain;
        bool const drawn_as_taken = rules.draws == allowed_draws::any || children.empty() || draws == 1 ||
                                    (rules.draws == allowed_draws::at_most_one && draws == 0);
        if (!(drawn_as_taken && verify::is_certain_count(tokens, certain)) && verify::is_present(tree, v))
            return {what::certain, v, none, static_cast<double>(certain)};
    }
    return {};
}

/// The shape of a tree whose offsets and parents are valid.
[[nodiscard]] MULTIDRAFT_HD inline batch_fault check_shape(tree_batch const& trees, tree_rules const& rules,
                                                           std::int32_t b) noexcept {
    tree_view const tree = trees(b);
    if (!tree.is_tree()) return {};
    node_id v = first_not_allowed(tree, rules.trees);
    // In level order siblings follow one another.
    index_t const most = rules.most_children;
    for (node_id child = most + 1; most > 0 && v == none && child < tree.size(); ++child)
        if (tree.parents[child] == tree.parents[child - most]) v = child;
    if (v == none) return {};
    return {batch_argument::shape, v, none, static_cast<double>(tree.parents[v])};
}

/// A row of logits: no NaN, no plus infinity, not all minus infinity.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_logits(G const& g, View const& x, batch_argument what, node_id node) {
    using real = typename View::real;
    index_t const n = x.size();
    auto const badness = [x](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        real const here = x(i);
        real const number = here > minus_infinity<real> ? real(1) : real(0);
        return here <= largest_number<real> ? number : real(2);
    };
    real const worst = g.max(n, badness);
    if (worst == real(1)) return {};
    if (worst == real(0)) return {what, node, none, static_cast<double>(minus_infinity<real>)};
    index_t const i = g.argmax(n, badness);
    return {what, node, i, static_cast<double>(x(i))};
}

/// A row of probabilities: finite, nonnegative, and their sum near 1.
template <group G, distribution Row>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_probabilities(G const& g, Row const& row, double tolerance,
                                                            batch_argument what, node_id node) {
    using real = probability_of<Row>;
    index_t const n = row.size();
    auto const badness = [row](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        real const here = row(i);
        return here >= real(0) && here <= largest_number<real> ? real(0) : real(1);
    };
    if (g.max(n, badness) > real(0)) {
        index_t const i = g.argmax(n, badness);
        return {what, node, i, static_cast<double>(row(i))};
    }
    auto const sum = static_cast<double>(g.sum(n, [row](index_t i) MULTIDRAFT_INLINE_LAMBDA { return row(i); }));
    double const error = sum - 1.0;
    if (error <= tolerance && error >= -tolerance) return {};
    return {what, node, none, sum};
}

/// Whether a verifier may read the row of a node: not below a child that could not be drawn, and of the draft only
/// where there are children. `what` is `target` or `draft`.
[[nodiscard]] MULTIDRAFT_HD inline bool may_be_read(tree_view tree, batch_argument what, node_id v) noexcept {
    return verify::is_present(tree, v) && (what != batch_argument::draft || !tree.children(v).empty());
}

/// The mask and the bias of row i, where rows have them: that their indices exist, and the bias's tokens. Faults are
/// reported for `node`.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_adjustments([[maybe_unused]] Rows const& rows,
                                                          [[maybe_unused]] batch_argument what,
                                                          [[maybe_unused]] std::int64_t i,
                                                          [[maybe_unused]] std::int64_t node) noexcept {
    if constexpr (has_adjustments<Rows>) {
        bool const is_draft = what == batch_argument::draft;
        batch_argument const fault = is_draft ? batch_argument::draft_bias : batch_argument::target_bias;
        if (!rows.adjustments.has_mask(i))
            return {is_draft ? batch_argument::draft_allowed_of : batch_argument::target_allowed_of, node, none,
                    static_cast<double>(rows.adjustments.mask_number(i))};
        logit_biases const& bias = rows.adjustments.bias;
        std::int64_t const r = rows.adjustments.bias_number(i);
        if (r < 0) return {};
        if (!bias.offsets.empty()) {
            auto const at = static_cast<std::size_t>(r);
            if (at + 1 >= bias.offsets.size()) return {fault, node, none, static_cast<double>(r)};
            std::int64_t const first = bias.offsets[at];
            std::int64_t const last = bias.offsets[at + 1];
            if (first < 0 || first > last || last > static_cast<std::int64_t>(bias.tokens.size()))
                return {fault, node, none, static_cast<double>(last)};
        } else if (r > 0) {
            return {fault, node, none, static_cast<double>(r)};
        }
        span<token_id const> const tokens = bias(r).tokens;
        if (std::size_t const k = first_out_of_order(tokens, rows.vocabulary); k < tokens.size())
            return {fault, node, tokens[k], static_cast<double>(tokens[k])};
    }
    return {};
}

/// The tokens of row i, where it has a few.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_candidates([[maybe_unused]] Rows const& rows,
                                                         [[maybe_unused]] batch_argument what,
                                                         [[maybe_unused]] std::int64_t i,
                                                         [[maybe_unused]] node_id v) noexcept {
    if constexpr (has_candidates<Rows>) {
        span<token_id const> const tokens = rows.tokens_of(i);
        if (std::size_t const k = first_out_of_order(tokens, rows.vocabulary); k < tokens.size())
            return {
                what == batch_argument::draft ? batch_argument::draft_candidates : batch_argument::target_candidates, v,
                tokens[k], static_cast<double>(tokens[k])};
    }
    return {};
}

/// Throws `invalid_input`, on a host, for rows of a few entries that may be read and whose tokens do not rise. `what`
/// is `target` or `draft`. O(nodes x candidates).
template <class Rows>
void refuse_candidates([[maybe_unused]] tree_batch const& trees, [[maybe_unused]] Rows const& rows,
                       [[maybe_unused]] batch_argument what) {
    if constexpr (has_candidates<Rows>)
        for (std::int32_t b = 0; b < trees.requests; ++b)
            for (node_id v = 0; v < trees.size(b); ++v)
                if (may_be_read(trees(b), what, v))
                    refuse_bad_candidates(name_of(what), rows, trees.offsets[b] + v, [&] {
                        return ", node " + std::to_string(v) + " of request " + std::to_string(trees.first_request + b);
                    });
}

/// The indices of a node's row and bias, where it may be read.
template <class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_row_index(tree_batch const& trees, Rows const& rows, batch_argument what,
                                                        std::int32_t b, node_id v) noexcept {
    if constexpr (has_map<Rows>) {
        return check_row_index(trees, rows.rows, what, b, v);
    } else if constexpr (has_row_of<Rows>) {
        if (!may_be_read(trees(b), what, v)) return {};
        std::int64_t const i = trees.offsets[b] + v;
        if (rows.row_of != nullptr && rows.row_of[i] < 0)
            return {what == batch_argument::draft ? batch_argument::draft_row_of : batch_argument::target_row_of, v,
                    none, static_cast<double>(rows.row_of[i])};
        return check_adjustments(rows, what, i, v);
    }
    return {};
}

/// The first fault of a request, entries of rows not included.
template <draft_law Law, class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD fault_key fault_of_request(drafted_batch<Law> const& drafts, tree_rules const& rules,
                                                       Target const& target, Draft const& draft,
                                                       request_batch const& requests, std::int32_t b) {
    tree_batch const& trees = drafts.trees;
    fault_key first = key_of(b, check_request(trees, requests, target, draft, b));
    if (!offsets_are_valid(trees, b)) return first;
    auto const offer = [&](batch_fault const& f) {
        fault_key const here = key_of(b, f);
        first = here < first ? here : first;
    };
    offer(check_shape(trees, rules, b));
    for (node_id v = 0; v < trees.size(b); ++v) {
        offer(check_node(drafts, rules, target.vocabulary, b, v));
        offer(check_row_index(trees, target, batch_argument::target, b, v));
        offer(check_row_index(trees, draft, batch_argument::draft, b, v));
    }
    return first;
}

/// The row of node v of request b, where it may be read.
template <group G, class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_row(G const& g, tree_batch const& trees, Rows const& rows,
                                                  batch_argument what, std::int32_t b, node_id v) {
    batch_fault const of_index = check_row_index(trees, rows, what, b, v);
    if (of_index.what != batch_argument::nothing || !may_be_read(trees(b), what, v)) return of_index;
    [[maybe_unused]] std::int64_t const i = trees.offsets[b] + v;
    if (batch_fault const f = check_candidates(rows, what, i, v); f.what != batch_argument::nothing) return f;
    // Rows of logits are checked unprocessed: processing them reports less, and throws on a host.
    if constexpr (has_map<Rows>)
        return check_row(g, trees, rows.rows, what, b, v);
    else if constexpr (has_sampling<Rows> || has_states<Rows>)
        return check_logits(g, rows.view(i), what, v);
    else if constexpr (has_element<Rows>)
        return check_probabilities(g, rows(g, i, b), sum_tolerance<typename Rows::element>, what, v);
    else
        return check_probabilities(g, rows(g, i, b), sum_tolerance<void>, what, v);
}

/// Whether no token is left to draw for a node with these children. A token too light to be drawn counts as none
/// (`least_drawable`); a row without mass has none.
template <draft_law Law, group G, distribution Q>
[[nodiscard]] MULTIDRAFT_HD bool nothing_left(G const& g, Q const& q, verify::candidate_list children) {
    using real = probability_of<Q>;
    span<token_id const> const taken = tokens_differ<Law> ? children.tokens : children.certain_tokens();
    // Counted, not summed: tokens that were taken are few, and have no mass of their own to be subtracted.
    real const all = g.sum(q.size(), function_of{weight_of{q}, [](auto const& w, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                     return w(i) >= least_drawable<real> ? real(1) : real(0);
                                                 }});
    real taken_with_mass = 0;
    for (token_id const x : taken) taken_with_mass += q.weight(x) >= least_drawable<real> ? real(1) : real(0);
    return !(all > taken_with_mass);
}

/// The children of a node against the draft's row that they were drawn from: each has mass there, and where children
/// are absent because the support ended, it did. For laws whose children are drawn from the row of their node.
template <group G, draft_law Law, class Draft>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_draws(G const& g, drafted_batch<Law> const& drafts, Draft const& draft,
                                                    tree_rules const& rules, std::int32_t b, node_id v) {
    if constexpr (Law::traits.ends_with_support) {
        tree_batch const& trees = drafts.trees;
        tree_view const tree = trees(b);
        node_range const slots = tree.children(v);
        if (slots.empty() || !rules.reads_draft || !verify::is_present(tree, v)) return {};
        node_range const children = verify::present_children<G>(tree, v);
        bool const ended = children.count < slots.count && tree.tokens[children.end()] == support_ended;
        auto const list = verify::candidates_of(make_drafted<Law>(tree, trees.certain_of(b)), children, v);
        if ((list.draws() <= 0 && !ended) || list.certain < 0) return {};
        auto const q = draft(g, trees.offsets[b] + v, b);
        for (index_t k = list.certain; k < list.count(); ++k)
            if (!(q(list[k]) > 0))
                return {batch_argument::not_drawn, children.first + k, none, static_cast<double>(list[k])};
        if constexpr (std::is_same_v<law_of_list<Law>, law::top_paired>)
            if (list.certain == 1 && list.count() == 2 && !(q.weight(list[0]) >= q.weight(list[1])))
                return {batch_argument::order, children.first, none, static_cast<double>(list[0])};
        if (ended && !rules.children_may_be_left_out && !nothing_left<Law>(g, q, list))
            return {batch_argument::left_out, children.end(), none, static_cast<double>(support_ended)};
    }
    return {};
}

/// The row of node v of request b as the owner's, and for the draft's its children against it.
template <group G, draft_law Law, class Rows>
[[nodiscard]] MULTIDRAFT_HD batch_fault check_row_and_draws(G const& g, drafted_batch<Law> const& drafts,
                                                            Rows const& rows, batch_argument what,
                                                            tree_rules const& rules, std::int32_t b, node_id v) {
    batch_fault const of_row = check_row(g, drafts.trees, rows, what, b, v);
    if (of_row.what != batch_argument::nothing || what != batch_argument::draft) return of_row;
    return check_draws(g, drafts, rows, rules, b, v);
}

/// Recovers the fault of the smallest key of a batch.
template <group G, draft_law Law, class Target, class Draft>
[[nodiscard]] MULTIDRAFT_HD validation_report report_of(G const& g, drafted_batch<Law> const& drafts,
                                                        tree_rules const& rules, Target const& target,
                                                        Draft const& draft, request_batch const& requests,
                                                        fault_key key) {
    using what = batch_argument;
    if (key == no_fault) return {};
    std::int32_t const b = request_of(key);
    auto const found = static_cast<what>((key >> 27) & 63U);
    auto const v = static_cast<node_id>(key & 0x7ffffffU);
    batch_fault f;
    if (found == what::target || found == what::target_row_of || found == what::target_bias ||
        found == what::target_allowed_of || found == what::target_candidates)
        f = check_row(g, drafts.trees, target, what::target, b, v);
    else if (found == what::draft || found == what::draft_row_of || found == what::draft_bias ||
             found == what::draft_allowed_of || found == what::draft_candidates) {
        if constexpr (!std::is_same_v<Draft, verify::no_draft_rows>)
            f = check_row(g, drafts.trees, draft, what::draft, b, v);
    } else if (found == what::not_drawn || found == what::left_out || found == what::order) {
        if constexpr (!std::is_same_v<Draft, verify::no_draft_rows>)
            f = check_draws(g, drafts, draft, rules, b, drafts.trees(b).parent(v));
    } else if (found == what::shape) {
        f = check_shape(drafts.trees, rules, b);
    } else if (found >= what::parents) {
        f = check_node(drafts, rules, target.vocabulary, b, v);
    } else {
        f = check_request(drafts.trees, requests, target, draft, b);
    }
    std::int32_t const request = drafts.trees.first_request + b;
    std::int64_t const index = found >= what::parents ? f.index : request + (found == what::offsets ? f.index : 0);
    return {f.what, request, index, f.token, f.value};
}

/// The same report, or the fault of this code's arithmetic where there is no other.
[[nodiscard]] MULTIDRAFT_HD inline validation_report report_with_arithmetic(validation_report report) noexcept {
    if (report.what != batch_argument::nothing) return report;
    if (arithmetic_fault const fault = check_arithmetic(); fault != arithmetic_fault::nothing) {
        report.what = batch_argument::arithmetic;
        report.value = static_cast<double>(fault);
    }
    return report;
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
