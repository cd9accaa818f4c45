// Whether a model does what the loops expect of it: masks, positions, cache entries, and what `keep` leaves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// What `check_model` found.
struct model_report {
    /// What the model does and must not, in words; empty: nothing was found.
    std::string fault;
    /// The largest total variation between two rows that should be one.
    double distance = 0;
    /// Whether all such rows have the same bits. If not, equal seeds may give other texts on other paths, with the same
    /// law up to `distance`.
    bool same_bits = true;
};

namespace detail {

template <class T>
using logit_row = std::vector<T>;

/// The probabilities of a row of logits in double; empty for a row that is not a distribution.
template <class T>
[[nodiscard]] std::vector<double> probabilities_of(logit_row<T> const& row) {
    std::vector<double> p;
    double most = minus_infinity<double>;
    for (T const x : row) {
        p.push_back(static_cast<double>(to_real(x)));
        if (!(p.back() <= largest_number<double>)) return {};
        most = std::max(most, p.back());
    }
    if (!(most > minus_infinity<double>)) return {};
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - most);
    for (double& x : p) x /= sum;
    return p;
}

/// Compares the rows of a model, up to the first fault.
template <class T>
class model_check {
public:
    model_check(std::size_t vocabulary, double tolerance) : vocabulary_(vocabulary), tolerance_(tolerance) {}

    /// Reports that something is not so. False, for `return`.
    bool fail(std::string what) {
        if (report_.fault.empty()) report_.fault = std::move(what);
        return false;
    }
    /// Whether a cache has as many entries as it must.
    bool has_length(std::int64_t length, std::int64_t wanted, std::string const& after) {
        if (length == wanted) return true;
        return fail("the cache has " + std::to_string(length) + " entries " + after + ", and not " +
                    std::to_string(wanted));
    }
    /// Whether a row is a distribution.
    bool is_distribution(logit_row<T> const& row, std::string const& whose) {
        return !probabilities_of(row).empty() ||
               fail("the row " + whose + " is no distribution: a logit is NaN or infinite, or all are minus infinity");
    }
    /// Whether a row is that of the same tokens read in another way.
    bool is_same(logit_row<T> const& row, logit_row<T> const& same, std::string const& whose) {
        if (!is_distribution(row, whose) || !is_distribution(same, whose + ", read as a text,")) return false;
        report_.same_bits = report_.same_bits && std::memcmp(row.data(), same.data(), row.size() * sizeof(T)) == 0;
        double const found = distance(row, same);
        report_.distance = std::max(report_.distance, found);
        if (found <= tolerance_) return true;
        return fail("the row " + whose + " differs from that of the same tokens read as a text by " +
                    std::to_string(found) + " in total variation");
    }
    /// Whether rows after different texts are so far apart that a row in the place of another is found.
    bool can_tell_apart(std::vector<logit_row<T>> const& rows) {
        double most = 0;
        for (auto const& row : rows) most = std::max(most, distance(row, rows.front()));
        return most > 4 * tolerance_ || fail("rows after different tokens differ by " + std::to_string(most) +
                                             " at most, so that a wrong one is not seen: take another text, or a "
                                             "smaller tolerance");
    }

    /// Row k of the rows of a call.
    [[nodiscard]] logit_row<T> row(std::vector<T> const& logits, std::size_t k) const {
        auto const first = logits.begin() + static_cast<std::ptrdiff_t>(k * vocabulary_);
        return {first, first + static_cast<std::ptrdiff_t>(vocabulary_)};
    }
    /// The likeliest tokens of a row, `count` of them or all there are.
    [[nodiscard]] static std::vector<token_id> likeliest(logit_row<T> const& row, std::size_t count) {
        std::vector<token_id> order(row.size());
        std::iota(order.begin(), order.end(), 0);
        auto const logit = [&](token_id x) {
            auto const here = static_cast<double>(to_real(row[static_cast<std::size_t>(x)]));
            return here == here ? here : minus_infinity<double>;  // of a row that is refused later
        };
        std::sort(order.begin(), order.end(),
                  [&](token_id a, token_id b) { return logit(a) > logit(b) || (!(logit(b) > logit(a)) && a < b); });
        order.resize(std::min(count, order.size()));
        return order;
    }
    [[nodiscard]] std::size_t vocabulary() const noexcept { return vocabulary_; }
    [[nodiscard]] model_report const& report() const noexcept { return report_; }

private:
    [[nodiscard]] static double distance(logit_row<T> const& a, logit_row<T> const& b) {
        std::vector<double> const p = probabilities_of(a);
        std::vector<double> const q = probabilities_of(b);
        double sum = 0;
        if (p.size() != q.size()) return 1;
        for (std::size_t i = 0; i < p.size(); ++i) sum += std::abs(p[i] - q[i]);
        return sum / 2;
    }

    std::size_t vocabulary_;
    double tolerance_;
    model_report report_;
};

/// A tree below the last token of a text, and what the model says after each of its nodes when their paths are read as
/// texts.
template <class T>
struct known_tree {
    topology shape;
    std::vector<token_id> tokens;
    std::vector<std::int32_t> positions;
    std::vector<logit_row<T>> rows;
    std::vector<node_id> last_path;  ///< from the root to the last leaf
    token_id next = none;            ///< the likeliest token after it
    logit_row<T> next_row;           ///< and the row after that

    /// `row_after(text)`: the row after a text that is read alone.
    template <class RowAfter>
    known_tree(std::span<token_id const> text, RowAfter const& row_after) : shape(branching({3, 2, 1})) {
        std::vector<std::vector<token_id>> paths{{text.begin(), text.end()}};
        rows.push_back(row_after(text));
        for (node_id v = 1; v < shape.size(); ++v) {
            auto const above = static_cast<std::size_t>(shape.parent(v));
            auto const k = static_cast<std::size_t>(v - shape.first_child(shape.parent(v)));
            auto const best = model_check<T>::likeliest(rows[above], k + 1);
            paths.push_back(paths[above]);
            paths.back().push_back(best[std::min(k, best.size() - 1)]);
            rows.push_back(row_after(paths.back()));
        }
        for (node_id v = 0; v < shape.size(); ++v) {
            tokens.push_back(paths[static_cast<std::size_t>(v)].back());
            positions.push_back(static_cast<std::int32_t>(text.size()) - 1 + shape.depth(v));
        }
        for (node_id v = shape.size() - 1; v >= 0; v = shape.parent(v)) last_path.insert(last_path.begin(), v);
        next = model_check<T>::likeliest(rows.back(), 1).front();
        paths.back().push_back(next);
        next_row = row_after(paths.back());
    }
};

[[nodiscard]] inline std::string name_of_node(node_id v) { return "of node " + std::to_string(v) + " of a tree"; }

inline void check_text_of_model(std::span<token_id const> text, std::int64_t vocabulary, std::int64_t limit,
                                double tolerance) {
    constexpr std::size_t least = 4;
    if (text.size() < least) refuse("tokens.size", text.size(), "a model is checked with 4 tokens or more");
    if (static_cast<std::int64_t>(text.size()) + static_cast<std::int64_t>(least) > limit)
        refuse("tokens.size", text.size(),
               "the model has " + std::to_string(limit) + " positions, and 4 are for a tree");
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] < 0 || text[i] >= vocabulary)
            refuse("tokens", static_cast<std::int64_t>(i), text[i],
                   "a token is in the vocabulary, " + std::to_string(vocabulary));
    if (!(tolerance >= 0 && tolerance <= 1)) refuse("tolerance", tolerance, "a total variation lies in [0, 1]");
}

/// The check of a model of one sequence.
template <language_model M>
class check_of_model {
    using logit = logit_of<M>;

public:
    check_of_model(M& model, std::span<token_id const> text, double tolerance)
        : model_(model),
          text_(text),
          check_(static_cast<std::size_t>(model.vocabulary()), tolerance),
          length_(static_cast<std::int32_t>(text.size())) {}

    [[nodiscard]] model_report operator()() {
        static_cast<void>(reads_texts() && reads_trees());
        model_.keep(0, {});
        return check_.report();
    }

private:
    /// Reads some tokens to the end of the cache, and returns the last rows.
    std::vector<logit> read(std::span<token_id const> tokens, std::span<std::int32_t const> positions, std::size_t rows,
                            std::int32_t context, mask_view mask = {}) {
        std::vector<logit> logits(rows * check_.vocabulary());
        model_.forward(token_batch{tokens, positions, context, mask}, logits);
        return logits;
    }
    std::vector<logit> read(std::span<token_id const> tokens, std::size_t rows) {
        auto const first = static_cast<std::int32_t>(model_.length());
        std::vector<std::int32_t> positions(tokens.size());
        std::iota(positions.begin(), positions.end(), first);
        return read(tokens, positions, rows, first);
    }
    /// The row after a text that is read alone.
    logit_row<logit> row_after(std::span<token_id const> text) {
        model_.keep(0, {});
        return read(text, 1);
    }

    bool reads_texts() {
        model_.keep(0, {});
        if (!check_.has_length(model_.length(), 0, "after keep(0, {})")) return false;
        auto const all = read(text_, text_.size());
        if (!check_.has_length(model_.length(), length_, "after a text was read")) return false;
        std::vector<logit_row<logit>> rows;
        for (std::size_t k = 0; k < text_.size(); ++k) {
            rows.push_back(check_.row(all, k));
            if (!check_.is_distribution(rows.back(), "after " + std::to_string(k + 1) + " tokens")) return false;
        }
        if (!check_.can_tell_apart(rows)) return false;
        model_.keep(0, {});
        for (std::size_t k = 0; k < text_.size(); ++k)
            if (!check_.is_same(read(text_.subspan(k, 1), 1), rows[k],
                                "after " + std::to_string(k + 1) + " tokens that are read one by one"))
                return false;
        // Fewer rows than tokens are those of the last ones.
        model_.keep(0, {});
        read(text_.first(text_.size() - 2), 0);
        if (!check_.has_length(model_.length(), length_ - 2, "after tokens were read without rows")) return false;
        return check_.is_same(read(text_.last(2), 1), rows.back(), "of the last of two tokens, asked for alone");
    }

    bool reads_trees() {
        known_tree<logit> const tree(text_, [&](std::span<token_id const> text) { return row_after(text); });
        ancestor_mask const mask(tree.shape.parents());
        std::int32_t const context = length_ - 1;
        auto const nodes = static_cast<std::size_t>(tree.shape.size());
        // All nodes in one call, as a target reads them.
        model_.keep(0, {});
        read(text_.first(text_.size() - 1), 0);
        auto const all = read(tree.tokens, tree.positions, nodes, context, mask.view());
        if (!check_.has_length(model_.length(), context + tree.shape.size(), "after a tree was read")) return false;
        for (std::size_t v = 0; v < nodes; ++v)
            if (!check_.is_same(check_.row(all, v), tree.rows[v], name_of_node(static_cast<node_id>(v)))) return false;
        // Level by level, as a draft reads them, behind what the last tree left.
        model_.keep(context, {});
        if (!check_.has_length(model_.length(), context, "after keep(" + std::to_string(context) + ", {})"))
            return false;
        if (!check_.is_same(read(text_.last(1), 1), tree.rows[0], "after a tree was discarded")) return false;
        for (std::int32_t d = 1; d <= tree.shape.max_depth(); ++d) {
            node_range const level = tree.shape.level(d);
            auto const first = static_cast<std::size_t>(level.first);
            auto const count = static_cast<std::size_t>(level.count);
            auto const rows =
                read(std::span(tree.tokens).subspan(first, count), std::span(tree.positions).subspan(first, count),
                     count, context, mask.view().from_row(level.first));
            for (std::size_t k = 0; k < count; ++k)
                if (!check_.is_same(check_.row(rows, k), tree.rows[first + k],
                                    name_of_node(level.first + static_cast<node_id>(k)) + " read level by level"))
                    return false;
        }
        // The path to the last leaf is kept, and the text goes on.
        model_.keep(context, tree.last_path);
        auto const kept = context + static_cast<std::int32_t>(tree.last_path.size());
        if (!check_.has_length(model_.length(), kept, "after a path was kept")) return false;
        return check_.is_same(read(std::span(&tree.next, 1), 1), tree.next_row, "of the token after a kept path");
    }

    M& model_;
    std::span<token_id const> text_;
    model_check<logit> check_;
    std::int32_t length_;
};

}  // namespace detail

/// Checks what the loops rely on and cannot see: that the row of a node of a tree is the row of the same tokens read as
/// a text. With it every method has the model's own distribution, and without it none has: a mask that is not applied,
/// positions by the place in the call, or the wrong entries after `keep` give fluent text of another law.
///
/// `tokens`: some as the model sees them, 4 or more, a sentence being enough. They are read at once, one by one
/// and in pieces; a tree of 3x2x1 below them in one call and level by level; a path of it is kept, and the text goes
/// on. The model's cache is emptied. For models of many sequences: testing/check_batched_model.hpp.
///
/// `tolerance`: the largest total variation of rows that count as equal. Kernels for one row and for many differ in
/// rounding: 1e-3 is far above what single precision gives, 0.05 above bfloat16, and below what a wrong mask does.
///
/// Some thirty calls. Throws `invalid_input` for a text that is too short or does not fit, and tokens outside the
/// vocabulary; what the model throws goes through.
template <language_model M>
[[nodiscard]] model_report check_model(M& model, std::span<token_id const> tokens, double tolerance = 0.01) {
    detail::check_text_of_model(tokens, model.vocabulary(), model.context_limit(), tolerance);
    return detail::check_of_model<M>(model, tokens, tolerance)();
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
