// The bases of drafters that add nodes to a tree in any order, and of those that read one draft model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The base of drafters that add nodes to `tree_` in any order and arrange them: the members of a `drafter` that
/// concern its nodes.
template <draft_law Law>
class candidate_tree_drafter {
public:
    using law = Law;

    [[nodiscard]] node_id size() const noexcept { return tree_.nodes().size(); }
    [[nodiscard]] drafted<law> tree() const noexcept {
        static_assert(!counts_certain<law>, "multidraft: a candidate tree does not say which children are certain");
        return {tree_.nodes().tree()};
    }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.nodes().tokens; }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.nodes().positions; }
    [[nodiscard]] mask_view mask() const noexcept { return tree_.mask(); }

protected:
    /// A node as an index.
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// The next input of the draft: these nodes, whose parents were read.
    [[nodiscard]] draft::draft_inputs inputs(draft::draft_reader& reader, std::span<node_id const> nodes,
                                             generation_metrics& m) {
        detail::stopwatch const time(m.time.mask);
        reader.begin();
        for (node_id const v : nodes) reader.add(tree_, v);
        return reader.inputs();
    }

    tree_builder tree_;
};

/// The base of drafters that grow a tree from the rows of one model: everything except `grow`.
///
/// The derived class adds nodes and has the model read some of them with `expand`; `finish` arranges them.
template <language_model Draft, draft_law Law>
class single_model_drafter : public candidate_tree_drafter<Law> {
    using base = candidate_tree_drafter<Law>;

public:
    using logit = logit_of<Draft>;
    using row = typename model_rows<Draft>::row;

    void check(std::int32_t vocabulary) const { model_.check(vocabulary); }
    /// Refuses trees of which the model would read more than 2^16 nodes, whose mask alone has 2^32 bits; `argument` and
    /// `value` are what determines their number.
    static void check_read(char const* argument, std::int64_t value, std::int64_t nodes) {
        if (nodes > 1 << 16) refuse(argument, value, "the draft would read more than 2^16 nodes of a tree");
    }
    /// Whether a model at that address is one of its own.
    [[nodiscard]] bool calls(void const* model) const noexcept { return model_.is(model); }
    void reset() { model_.reset(); }
    void read(std::span<token_id const> context) { model_.read(context); }
    /// Hands the target's features to the model.
    void observe(std::span<float const> features,
                 std::span<std::int32_t const> positions) requires observes_features<Draft> {
        model_.observe(features, positions);
    }
    /// Numbers of a token's features that the model reads.
    [[nodiscard]] std::int32_t feature_size() const requires observes_features<Draft> { return model_.feature_size(); }
    [[nodiscard]] prepared_rows<softmax_row<typename model_rows<Draft>::view>> rows() const noexcept {
        return {rows_, model_.vocabulary()};
    }
    void keep(std::int32_t context, std::span<node_id const> nodes) {
        model_.keep(context, reader_.entries_of(tree_, nodes));
    }

protected:
    using base::at;
    using base::tree_;

    /// The model belongs to the caller and must outlive the drafter.
    explicit single_model_drafter(Draft& draft) : model_(draft) {}

    /// Starts with the root alone, not yet read. `capacity`: how many nodes the model may read.
    void start(std::span<token_id const> text, node_id capacity) {
        tree_.start(text.back(), static_cast<std::int32_t>(text.size()) - 1);
        model_.start();
        reader_.start(capacity);
    }

    /// Adds a child of a node, not yet read by the model. Returns its number as added.
    node_id add(node_id parent, token_id token) { return tree_.add(parent, token); }

    /// Has the model read these nodes, whose parents it has read: a level, or the root alone.
    void expand(host_group const& g, std::span<token_id const> text, std::span<node_id const> nodes,
                sampling_params const& w, generation_metrics& m) {
        model_.read(g, text, this->inputs(reader_, nodes, m), w, m);
    }

    /// The processed row of a node that was read.
    [[nodiscard]] row const& distribution(node_id v) const noexcept { return model_.distribution(entry(v)); }
    /// The chunk sums of that row's weights; samplers may change them.
    [[nodiscard]] auto& sums(node_id v) noexcept { return model_.sums(entry(v)); }

    /// Arranges all nodes, or those for which `kept` is not 0 and whose parents are kept, and the rows with them;
    /// without a mask for drafters that have their own.
    void finish(generation_metrics& m, std::span<char const> kept = {}, bool with_mask = true) {
        detail::stopwatch const time(m.time.mask);
        for (std::size_t v = 0; v < kept.size(); ++v)
            if (kept[v] == 0) tree_.remove(static_cast<node_id>(v));
        tree_.arrange();
        if (with_mask) tree_.extend_mask();
        rows_.clear();
        for (index_t const e : tree_.nodes().entries) rows_.push_back(e == none ? row() : model_.distribution(e));
        m.drafted += this->size() - 1;
    }

    model_rows<Draft> model_;

private:
    [[nodiscard]] index_t entry(node_id v) const noexcept { return tree_.added().entries[at(v)]; }

    draft::draft_reader reader_;
    std::vector<row> rows_;
};

}  // namespace MULTIDRAFT_NAMESPACE
