// What drafters of one model share whose nodes are read in an order of their own: the arranged tree and its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/candidate_tree.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/law.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The base of drafters that grow a `candidate_tree` from the rows of one model: everything but `grow`.
///
/// The derived class adds nodes to `tree_` and has the model read some of them with `expand`; `finish` arranges them.
template <language_model Draft, draft_law Law>
class arranged_drafter {
public:
    using law = Law;
    using logit = logit_of<Draft>;
    using row = typename model_rows<Draft>::row;

    void check(std::int32_t vocabulary) const { model_.check(vocabulary); }
    void reset() { model_.reset(); }
    void read(std::span<token_id const> context) { model_.read(context); }

    [[nodiscard]] node_id size() const noexcept { return tree_.arranged_size(); }
    [[nodiscard]] drafted<law> tree() const noexcept {
        static_assert(!counts_certain<law>, "multidraft: an arranged tree does not say which children are certain");
        return {tree_.tree()};
    }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.tokens(); }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.positions(); }
    [[nodiscard]] mask_view mask() const noexcept { return tree_.mask(); }
    [[nodiscard]] prepared_rows<typename model_rows<Draft>::view> rows() const noexcept {
        return {rows_, model_.vocabulary()};
    }

    void keep(std::int32_t context, std::span<node_id const> nodes) {
        kept_.clear();
        for (node_id const v : nodes) {
            node_id const entry = entry_[static_cast<std::size_t>(tree_.added(v))];
            if (entry == none) break;
            kept_.push_back(entry);
        }
        model_.keep(context, kept_);
    }

protected:
    /// The model is the caller's and outlives the drafter.
    explicit arranged_drafter(Draft& draft) : model_(draft) {}

    /// A node as an index.
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// The root alone, not yet read.
    void start(std::span<token_id const> text, node_id capacity) {
        tree_.start(text.back(), static_cast<std::int32_t>(text.size()) - 1);
        model_.start(capacity);
        entry_.assign(1, none);
    }

    /// Has the model read the text and makes the root's row.
    void expand_root(host_group const& g, std::span<token_id const> text, sampling_params const& w,
                     generation_metrics& m) {
        model_.read_root(g, text, w, m);
        entry_[0] = 0;
    }

    /// A child of a node, which the model has not read; its number as added.
    node_id add(node_id parent, token_id token) {
        entry_.push_back(none);
        return tree_.add(parent, token);
    }

    /// Has the model read these nodes, whose parents it has read.
    void expand(host_group const& g, std::span<node_id const> nodes, sampling_params const& w, generation_metrics& m) {
        batch_tokens_.clear();
        batch_parents_.clear();
        batch_positions_.clear();
        for (node_id const v : nodes) {
            batch_tokens_.push_back(tree_.token(v));
            batch_parents_.push_back(entry_[at(tree_.parent(v))]);
            batch_positions_.push_back(tree_.position(v));
        }
        node_id entry = model_.read_nodes(g, batch_tokens_, batch_parents_, batch_positions_, w, m);
        for (node_id const v : nodes) entry_[at(v)] = entry++;
    }

    /// The processed row of a node that was read.
    [[nodiscard]] row const& distribution(node_id v) const noexcept { return model_.distribution(entry_[at(v)]); }
    /// The chunk sums of that row's weights; whoever draws may change them.
    [[nodiscard]] auto& sums(node_id v) noexcept { return model_.sums(entry_[at(v)]); }

    /// Arranges all nodes, or those for which `kept` is not 0, and the rows with them; without a mask where the drafter
    /// has one of its own.
    void finish(generation_metrics& m, std::span<char const> kept = {}, bool with_mask = true) {
        detail::stopwatch const time(m.mask_seconds);
        tree_.arrange(kept, with_mask);
        rows_.assign(at(size()), row());
        for (node_id v = 0; v < size(); ++v) {
            node_id const entry = entry_[at(tree_.added(v))];
            if (entry != none) rows_[at(v)] = model_.distribution(entry);
        }
        m.drafted += size() - 1;
    }

    model_rows<Draft> model_;
    candidate_tree tree_;

private:
    std::vector<node_id> entry_;  ///< of the model's cache, per node as added; `none`: not read
    std::vector<row> rows_;
    std::vector<node_id> kept_;
    std::vector<token_id> batch_tokens_;
    std::vector<node_id> batch_parents_;
    std::vector<std::int32_t> batch_positions_;
};

}  // namespace MULTIDRAFT_NAMESPACE
