// The limit of whole trees: the mean accepted length that no lossless verifier of a draft law can exceed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::analysis {

// The largest mean accepted length is a linear program. Let A(s) be the probability that the accepted path passes the
// prefix s. Losslessness bounds A(s y) by p(y | s) A(s); inside every tree that can be drafted the path is a unit flow
// from the root that may end anywhere; maximise the sum of A over all prefixes but the empty one. Its size grows with
// the number of different trees: for vocabularies of three or four tokens and trees of two or three levels.

/// The laws of children for which the program can be built: `law::iid`, `law::sequential` and `law::stratified`.
enum class tree_draw : std::uint8_t { iid, sequential, stratified };

/// maximise sum gain[c] x[c] subject to sum of entries(r, c) x[c] <= bound[r], x >= 0.
struct linear_program {
    /// A nonzero coefficient.
    struct entry {
        std::size_t row;
        std::size_t column;
        double value;
    };
    std::vector<double> gain;    ///< one a column
    std::vector<double> bound;   ///< one per row
    std::vector<entry> entries;  ///< no two of one row and column
};

namespace detail {

/// Tokens of the children of one node, in the order drawn, with their probability.
struct draw_of_children {
    std::vector<token_id> tokens;
    double chance;
};

/// The certain tokens of stratified drafts: take the tokens of q in falling order, while a token is expected `theta`
/// times or more among the remaining draws. At least one draw is random.
[[nodiscard]] inline std::vector<token_id> taken_with_certainty(std::span<double const> q, int n, double theta) {
    std::vector<token_id> order(q.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](token_id a, token_id b) {
        double const of_a = q[static_cast<std::size_t>(a)];
        double const of_b = q[static_cast<std::size_t>(b)];
        return of_a > of_b || (!(of_b > of_a) && a < b);
    });
    std::vector<token_id> taken;
    double left = 1;
    for (token_id const x : order) {
        auto const drawn = static_cast<int>(taken.size());
        double const here = q[static_cast<std::size_t>(x)];
        if (drawn + 1 >= n || !(here > 0) || (n - drawn) * here < theta * left) break;
        taken.push_back(x);
        left -= here;
    }
    return taken;
}

/// Every way to draw n children from q, with its probability.
[[nodiscard]] inline std::vector<draw_of_children> draws_of(std::span<double const> q, int n, tree_draw law,
                                                            double theta) {
    std::vector<draw_of_children> done;
    std::vector<double> row(q.begin(), q.end());
    draw_of_children start{{}, 1.0};
    if (law == tree_draw::stratified) {
        start.tokens = taken_with_certainty(q, n, theta);
        for (token_id const x : start.tokens) row[static_cast<std::size_t>(x)] = 0;
    }
    std::vector<draw_of_children> open{start};
    while (!open.empty()) {
        auto const now = open.back();
        open.pop_back();
        auto left = row;
        if (law == tree_draw::sequential)
            for (token_id const x : now.tokens) left[static_cast<std::size_t>(x)] = 0;
        double const mass = std::accumulate(left.begin(), left.end(), 0.0);
        if (now.tokens.size() == static_cast<std::size_t>(n) || !(mass > 0)) {
            done.push_back(now);
            continue;
        }
        for (std::size_t x = 0; x < left.size(); ++x) {
            if (!(left[x] > 0)) continue;
            auto next = now;
            next.tokens.push_back(static_cast<token_id>(x));
            next.chance *= left[x] / mass;
            open.push_back(std::move(next));
        }
    }
    return done;
}

/// A drafted tree as the set of its prefixes, increasing; prefix s followed by x is s V + x + 1, the empty one 0.
using prefix_set = std::vector<std::size_t>;

template <class Draft>
struct drafted_trees {
    Draft const& draft;
    std::span<int const> children;
    tree_draw law;
    double theta;
    std::size_t vocabulary;

    /// The law of the subtrees of one prefix, equal ones merged.
    [[nodiscard]] std::map<prefix_set, double> below(std::vector<token_id>& tokens, std::size_t prefix) const {
        std::size_t const level = tokens.size();
        if (level == children.size()) return {{prefix_set{prefix}, 1.0}};
        auto const q = checked(draft(std::span<token_id const>(tokens)), "draft");
        if (q.size() != vocabulary) refuse("draft.size", q.size(), "all rows have one vocabulary");
        std::map<token_id, std::map<prefix_set, double>> subtrees;
        for (std::size_t x = 0; x < q.size(); ++x) {
            if (!(q[x] > 0)) continue;
            tokens.push_back(static_cast<token_id>(x));
            subtrees[static_cast<token_id>(x)] = below(tokens, prefix * q.size() + x + 1);
            tokens.pop_back();
        }
        std::map<prefix_set, double> result;
        for (auto const& drawn : draws_of(q, children[level], law, theta)) {
            std::map<prefix_set, double> sets{{prefix_set{prefix}, drawn.chance}};
            for (token_id const x : drawn.tokens) {
                std::map<prefix_set, double> longer;
                for (auto const& [set, chance] : sets) {
                    for (auto const& [more, factor] : subtrees.at(x)) {
                        prefix_set both;
                        std::set_union(set.begin(), set.end(), more.begin(), more.end(), std::back_inserter(both));
                        longer[both] += chance * factor;
                    }
                }
                sets = std::move(longer);
            }
            for (auto const& [set, chance] : sets) result[set] += chance;
        }
        return result;
    }
};

/// The rows p(. | s) by the number of s, for all prefixes of fewer than `depth` tokens.
template <class Target>
void rows_of_target(Target const& target, std::vector<token_id>& tokens, std::size_t prefix, std::size_t depth,
                    std::map<std::size_t, std::vector<double>>& rows) {
    if (tokens.size() == depth) return;
    auto const p = checked(target(std::span<token_id const>(tokens)), "target");
    if (!rows.empty() && p.size() != rows.begin()->second.size())
        refuse("target.size", p.size(), "all rows have one vocabulary");
    rows[prefix] = p;
    for (std::size_t x = 0; x < p.size(); ++x) {
        tokens.push_back(static_cast<token_id>(x));
        rows_of_target(target, tokens, prefix * p.size() + x + 1, depth, rows);
        tokens.pop_back();
    }
}

/// Builds the linear program. Every tree has a column for each node except the root, and a row for the flow into each
/// inner node's children. Each prefix s y that is drafted has a row A(s y) <= p(y | s) A(s); the root has A = 1.
class tree_limit_builder {
public:
    /// The target's rows, by prefix: see `rows_of_target`.
    explicit tree_limit_builder(std::map<std::size_t, std::vector<double>> const& rows)
        : rows_(rows), vocabulary_(rows.at(0).size()) {}

    /// Adds the columns of a tree of that probability, and the rows of its flow.
    void add(prefix_set const& tree, double chance) {
        std::map<std::size_t, std::size_t> column;
        std::map<std::size_t, std::size_t> flow_row;  // of an inner node
        for (std::size_t const s : tree) {
            if (s == 0) continue;
            std::size_t const up = above(s);
            column[s] = program_.gain.size();
            program_.gain.push_back(chance);
            auto const [at, is_new] = flow_row.try_emplace(up, program_.bound.size());
            if (is_new) {
                program_.bound.push_back(up == 0 ? 1.0 : 0.0);
                if (up != 0) program_.entries.push_back({at->second, column.at(up), -1.0});
            }
            program_.entries.push_back({at->second, column[s], 1.0});
            program_.entries.push_back({lossless_row(s), column[s], chance});
        }
    }

    /// Every tree that contains s adds its flow through s to all continuations of s, drafted in that tree or not.
    /// Called with the trees that were added, in their order.
    [[nodiscard]] linear_program finish(std::map<prefix_set, double> const& trees) {
        for (auto const& [prefix, row] : row_of_) {
            std::size_t const up = above(prefix);
            if (up == 0) continue;
            double const p = rows_.at(up)[(prefix - 1) % vocabulary_];
            std::size_t begin = 0;
            for (auto const& [tree, chance] : trees) {
                if (!(chance > 0)) continue;
                auto const place = std::lower_bound(tree.begin(), tree.end(), up);
                if (place != tree.end() && *place == up)
                    program_.entries.push_back(
                        {row, begin + static_cast<std::size_t>(place - tree.begin()) - 1, -p * chance});
                begin += tree.size() - 1;
            }
        }
        return std::move(program_);
    }

private:
    /// The prefix without its last token.
    [[nodiscard]] std::size_t above(std::size_t prefix) const { return (prefix - 1) / vocabulary_; }

    [[nodiscard]] std::size_t lossless_row(std::size_t prefix) {
        auto const [at, is_new] = row_of_.try_emplace(prefix, program_.bound.size());
        if (is_new) program_.bound.push_back(above(prefix) == 0 ? rows_.at(0)[prefix - 1] : 0.0);
        return at->second;
    }

    std::map<std::size_t, std::vector<double>> const& rows_;
    std::size_t vocabulary_;
    linear_program program_;
    std::map<std::size_t, std::size_t> row_of_;  ///< by prefix
};

}  // namespace detail

/// The program whose optimum is the limit of trees with `children[l]` children per node at level l.
///
/// `target(prefix)` and `draft(prefix)` give the rows after a `std::span<token_id const>`, for prefixes of fewer than
/// `children.size()` tokens, as something that converts to `std::span<double const>`. `theta` is the threshold of the
/// certainty rule (`tree_draw::stratified`). One column for each node except the root of each different tree.
///
/// `invalid_input` for rows that are not distributions over one vocabulary, no levels, a level without children.
template <class Target, class Draft>
[[nodiscard]] linear_program tree_limit_program(Target const& target, Draft const& draft, std::span<int const> children,
                                                tree_draw law, double theta = 0.7) {
    if (children.empty()) refuse("children.size", 0, "a tree has one level or more");
    for (std::size_t l = 0; l < children.size(); ++l)
        if (children[l] < 1)
            refuse("children", static_cast<std::int64_t>(l), children[l], "a level has one child per node or more");
    if (!(theta > 0 && theta <= 1)) refuse("theta", theta, "the threshold of the certainty rule is in (0, 1]");
    std::vector<token_id> tokens;
    std::map<std::size_t, std::vector<double>> rows;
    detail::rows_of_target(target, tokens, 0, children.size(), rows);
    std::size_t const vocabulary = rows.at(0).size();
    std::span<double const> const first = draft(std::span<token_id const>(tokens));
    if (first.size() != vocabulary) refuse("draft.size", first.size(), "target and draft have one vocabulary");
    auto const trees = detail::drafted_trees<Draft>{draft, children, law, theta, vocabulary}.below(tokens, 0);

    detail::tree_limit_builder builder(rows);
    for (auto const& [tree, chance] : trees)
        if (chance > 0) builder.add(tree, chance);
    return builder.finish(trees);
}

/// The limit of whole trees: no lossless verifier of this draft law has a larger mean accepted length.
///
/// `solver(program)` returns the optimum of a `linear_program`; the library has no solver. See `tree_limit_program` for
/// the other arguments. For one level it is alpha*.
template <class Target, class Draft, class Solver>
[[nodiscard]] double tree_limit(Target const& target, Draft const& draft, std::span<int const> children, tree_draw law,
                                Solver&& solver, double theta = 0.7) {
    return solver(tree_limit_program(target, draft, children, law, theta));
}

}  // namespace MULTIDRAFT_NAMESPACE::analysis
