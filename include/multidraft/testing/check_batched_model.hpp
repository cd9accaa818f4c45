// Whether a model of many sequences does what continuous batching expects of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/testing/check_model.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

namespace detail {

/// The check of a model of many sequences.
template <batched_language_model M>
class check_of_batched_model {
    using logit = logit_of<M>;

public:
    check_of_batched_model(M& model, std::span<token_id const> text, double tolerance)
        : model_(model),
          texts_{text, text.subspan(1)},
          sequences_{model.sequences() - 1, 0},
          check_(static_cast<std::size_t>(model.vocabulary()), tolerance) {
        if (model.sequences() < 2) {
            texts_.pop_back();
            sequences_.pop_back();
        }
    }

    [[nodiscard]] model_report operator()() {
        static_cast<void>(reads_texts() && reads_trees());
        for (std::int32_t const s : sequences_) model_.keep(s, 0, {});
        return check_.report();
    }

private:
    using reader = multidraft::detail::step_reader;

    /// The rows of the scored inputs of a call.
    std::vector<logit> forward(reader const& step, std::span<std::int32_t const> sequence_of) {
        step_inputs const in = step.inputs();
        std::vector<logit> logits(in.scored.size() * check_.vocabulary());
        model_.forward(in, sequence_of, logits);
        return logits;
    }
    /// The row after a text of which a sequence holds the first tokens; it then holds all of them.
    logit_row<logit> read(std::int32_t sequence, std::span<token_id const> text, std::int32_t held) {
        reader step;
        step.clear();
        step.add_request(1, held);
        step.read_text(0, text);
        auto const root = static_cast<std::int32_t>(text.size()) - 1;
        step.read_node(0, 0, none, text.back(), root);
        step.end_request();
        auto const row = forward(step, std::span(&sequence, 1));
        std::vector<std::int32_t> entries(text.size() - static_cast<std::size_t>(held));
        std::iota(entries.begin(), entries.end(), 0);
        model_.keep(sequence, held, entries);
        return row;
    }
    logit_row<logit> row_after(std::int32_t sequence, std::span<token_id const> text) {
        model_.keep(sequence, 0, {});
        return read(sequence, text, 0);
    }

    bool reads_texts() {
        auto const text = texts_.front();
        std::vector<logit_row<logit>> rows;
        for (std::size_t k = 1; k <= text.size(); ++k) {
            rows.push_back(row_after(sequences_.front(), text.first(k)));
            if (!check_.is_distribution(rows.back(), "after " + std::to_string(k) + " tokens")) return false;
        }
        if (!check_.can_tell_apart(rows)) return false;
        for (std::int32_t const s : sequences_) {
            model_.keep(s, 0, {});
            for (std::size_t k = 1; k <= text.size(); ++k)
                if (!check_.is_same(read(s, text.first(k), static_cast<std::int32_t>(k) - 1), rows[k - 1],
                                    "after " + std::to_string(k) + " tokens that are read one by one, in sequence " +
                                        std::to_string(s)))
                    return false;
        }
        return true;
    }

    bool reads_trees() {
        std::vector<known_tree<logit>> trees;
        for (std::size_t b = 0; b < texts_.size(); ++b)
            trees.emplace_back(texts_[b],
                               [&](std::span<token_id const> text) { return row_after(sequences_[b], text); });
        std::int32_t const deepest = trees.front().shape.max_depth();
        return trees_are_read(trees, deepest + 1, "") && trees_are_read(trees, 1, " read level by level") &&
               paths_are_kept(trees);
    }

    /// Reads the trees of all requests in calls of so many levels.
    bool trees_are_read(std::vector<known_tree<logit>> const& trees, std::int32_t levels, std::string const& how) {
        reader step;
        step.clear();
        for (std::size_t b = 0; b < trees.size(); ++b) {
            model_.keep(sequences_[b], 0, {});
            step.add_request(trees[b].shape.size(), 0);
        }
        std::int32_t const deepest = trees.front().shape.max_depth();
        for (std::int32_t from = 0; from <= deepest; from += levels) {
            std::int32_t const last = std::min(from + levels - 1, deepest);
            step.begin();
            std::int64_t first_node = 0;
            for (std::size_t b = 0; b < trees.size(); ++b) {
                add_levels(step, b, trees[b], first_node, from, last);
                first_node += trees[b].shape.size();
            }
            auto const rows = forward(step, sequences_);
            std::size_t k = 0;
            for (std::size_t b = 0; b < trees.size(); ++b)
                for (node_id v = trees[b].shape.level(from).first; v < trees[b].shape.level(last).end(); ++v)
                    if (!check_.is_same(check_.row(rows, k++), trees[b].rows[static_cast<std::size_t>(v)],
                                        name_of_node(v) + how + ", request " + std::to_string(b) + " of " +
                                            std::to_string(trees.size())))
                        return false;
        }
        return true;
    }
    void add_levels(reader& step, std::size_t b, known_tree<logit> const& tree, std::int64_t first_node,
                    std::int32_t from, std::int32_t last) const {
        auto const request = static_cast<std::int32_t>(b);
        if (from == 0) step.read_text(request, texts_[b]);
        for (node_id v = tree.shape.level(from).first; v < tree.shape.level(last).end(); ++v)
            step.read_node(request, first_node + v, v == 0 ? std::int64_t{none} : first_node + tree.shape.parent(v),
                           tree.tokens[static_cast<std::size_t>(v)], tree.positions[static_cast<std::size_t>(v)]);
        step.end_request();
    }

    /// Each request keeps the path to its last leaf, and its text goes on.
    bool paths_are_kept(std::vector<known_tree<logit>> const& trees) {
        reader step;
        step.clear();
        for (std::size_t b = 0; b < trees.size(); ++b) {
            auto const context = static_cast<std::int32_t>(texts_[b].size()) - 1;
            auto const& path = trees[b].last_path;
            model_.keep(sequences_[b], context, path);
            step.add_request(1, context + static_cast<std::int32_t>(path.size()));
        }
        step.begin();
        for (std::size_t b = 0; b < trees.size(); ++b) {
            step.read_node(static_cast<std::int32_t>(b), static_cast<std::int64_t>(b), none, trees[b].next,
                           trees[b].positions.back() + 1);
            step.end_request();
        }
        auto const rows = forward(step, sequences_);
        for (std::size_t b = 0; b < trees.size(); ++b)
            if (!check_.is_same(check_.row(rows, b), trees[b].next_row,
                                "of the token after a kept path, request " + std::to_string(b) + " of " +
                                    std::to_string(trees.size())))
                return false;
        return true;
    }

    M& model_;
    std::vector<std::span<token_id const>> texts_;
    std::vector<std::int32_t> sequences_;
    model_check<logit> check_;
};

}  // namespace detail

/// The same of a model of many sequences. Two requests share the calls, in the first and the last sequence, each with a
/// tree: in one call and level by level. Each keeps a path, and both texts go on in one call. All caches of the two are
/// emptied.
template <batched_language_model M>
[[nodiscard]] model_report check_model(M& model, std::span<token_id const> tokens, double tolerance = 0.01) {
    detail::check_text_of_model(tokens, model.vocabulary(), model.context_limit(), tolerance);
    return detail::check_of_batched_model<M>(model, tokens, tolerance)();
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
