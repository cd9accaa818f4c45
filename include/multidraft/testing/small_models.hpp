// Language models over a few tokens, for proofs by enumeration: a row for every context, in doubles or in floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using text = std::vector<token_id>;

/// Children a node at each level: {2, 1} is two children of the root with one child each.
using shape = std::vector<int>;

/// A shape as on the command line: 2x1.
[[nodiscard]] inline std::string print(shape const& children) {
    std::string out;
    for (int const n : children) out += (out.empty() ? "" : "x") + std::to_string(n);
    return out;
}

/// A language model over a small vocabulary: a distribution for every context of up to `depth` tokens.
///
/// Contexts are numbered as the nodes of a V-ary heap: the empty one is 0, context c followed by token x is c V + x
/// + 1.
template <class Real>
class basic_small_model {
public:
    using context = std::size_t;

    /// Creates an empty row for each text of up to `depth` tokens.
    basic_small_model(index_t vocabulary, int depth) : vocabulary_(vocabulary) {
        std::size_t count = 0;
        std::size_t level = 1;
        for (int d = 0; d <= depth; ++d, level *= static_cast<std::size_t>(vocabulary)) count += level;
        rows_.resize(count);
    }
    /// The same model with its rows rounded to another type.
    template <class Other>
    explicit basic_small_model(basic_small_model<Other> const& other) : vocabulary_(other.vocabulary()) {
        for (std::size_t c = 0; c < other.contexts(); ++c) {
            std::vector<Real> row;
            for (Other const x : other[c]) row.push_back(static_cast<Real>(x));
            rows_.push_back(std::move(row));
        }
    }

    /// Entries of a row.
    [[nodiscard]] index_t vocabulary() const noexcept { return vocabulary_; }
    /// How many texts have a row.
    [[nodiscard]] std::size_t contexts() const noexcept { return rows_.size(); }
    /// The text with one more token.
    [[nodiscard]] context after(context c, token_id x) const noexcept {
        return c * static_cast<std::size_t>(vocabulary_) + static_cast<std::size_t>(x) + 1;
    }
    /// The row after a text. Throws `std::out_of_range` for one that is too long.
    [[nodiscard]] std::vector<Real>& operator[](context c) { return rows_.at(c); }
    /// The row after a text. Throws `std::out_of_range` for one that is too long.
    [[nodiscard]] std::vector<Real> const& operator[](context c) const { return rows_.at(c); }

private:
    index_t vocabulary_;
    std::vector<std::vector<Real>> rows_;
};
using small_model = basic_small_model<double>;

/// Gives all texts of one length the row of the first of them: the rows of a block drafter, by depth.
template <class Real>
void share_rows_of_depths(basic_small_model<Real>& model) {
    std::size_t first = 0;
    std::size_t texts = 1;
    while (first < model.contexts()) {
        for (std::size_t c = first + 1; c < first + texts; ++c) model[c] = model[first];
        first += texts;
        texts *= static_cast<std::size_t>(model.vocabulary());
    }
}

/// A target and a draft model.
template <class Real>
struct basic_model_pair {
    basic_small_model<Real> target;
    basic_small_model<Real> draft;
};
using model_pair = basic_model_pair<double>;

/// The pair with its rows rounded to floats, as a program that computes in floats gets them.
[[nodiscard]] inline basic_model_pair<float> in_floats(model_pair const& models) {
    return {basic_small_model<float>(models.target), basic_small_model<float>(models.draft)};
}

/// The rows of a tree: for each node the row of the model after the node's context.
template <class Real>
class basic_rows_of_nodes {
public:
    /// No rows yet; each will have `vocabulary` entries.
    explicit basic_rows_of_nodes(index_t vocabulary) noexcept : vocabulary_(vocabulary) {}

    /// Removes all rows.
    void clear() noexcept { rows_.clear(); }
    /// Adds the row of the next node; it belongs to the caller and must outlive this object.
    void push_back(std::vector<Real> const& row) { rows_.push_back(row.data()); }
    void push_back(std::vector<Real>&& row) = delete;
    [[nodiscard]] index_t rows() const noexcept { return static_cast<index_t>(rows_.size()); }
    [[nodiscard]] index_t size() const noexcept { return vocabulary_; }
    template <group G>
    [[nodiscard]] probabilities<Real> operator()(G const&, node_id node) const {
        return {rows_.at(static_cast<std::size_t>(node)), vocabulary_};
    }

private:
    std::vector<Real const*> rows_;
    index_t vocabulary_;
};
using rows_of_nodes = basic_rows_of_nodes<double>;

}  // namespace MULTIDRAFT_NAMESPACE::testing
