// Trees of a block drafter, or of what the text itself has had before: whichever is worth more at each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/control/expected_continuations.hpp"
#include "multidraft/control/match_rates.hpp"
#include "multidraft/decode/block_rows.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// `budgeted_shape`, with more trees to choose from: what followed earlier occurrences of the last tokens in the text
/// (`expected_continuations`). Such a tree replaces that of the rows where it promises more, as in answers that repeat
/// the question; a step has one or the other.
///
/// Its children are all certain, which `law::stratified` allows of any tokens, and no draw of the step decides
/// anything: every verifier of that law is lossless. The rows of the drafter are asked for before, so that a step of
/// continuations costs its call too.
///
/// The chooser and the rates belong to the caller, who keeps them from text to text.
template <class Chooser = budget_controller>
class budgeted_lookup_shape : public budgeted_shape<Chooser> {
    using base = budgeted_shape<Chooser>;

public:
    /// `children`: of a node of the drafter's trees at most, >= 1. Throws `invalid_input` for others, and for options
    /// of the look-up out of their range.
    budgeted_lookup_shape(Chooser& choices, index_t children, match_rates& rates, lookup_options const& options = {})
        : base(choices, children), choices_(&choices), rates_(&rates), options_(options) {
        options_.validate();
    }

    void reset() noexcept { continuations_.forget(); }
    void read(std::span<token_id const> text) noexcept { text_ = text; }

    /// Chooses the tree of a step, of at most `depth` levels; at 0 the root alone.
    template <class Model, class Sampler>
    void start(host_group const& g, Model& model, block_rows<Model>& rows, std::int32_t depth, token_id root,
               sampling_params const& w, Sampler const& sampler) {
        continuations_.find(text_, options_, depth, *rates_);
        offers_.clear();
        continuations_.offer(choices_->budgets(), offers_);
        this->others_.clear();
        for (tree_offer const& one : offers_) {
            build(one.nodes);
            this->others_.push_back({one, topology::from_parents(tree_.nodes().parents)});
        }
        base::start(g, model, rows, depth, root, w, sampler);
        if (tree_offer const* const chosen = this->chosen_other(); chosen != nullptr) build(chosen->nodes);
    }

    /// The tokens of a node's children where the text gives them.
    [[nodiscard]] std::span<token_id const> given(node_id node) const {
        if (this->chosen_other() == nullptr) return {};
        node_range const children = this->shape().children(node);
        return std::span(tree_.nodes().tokens)
            .subspan(static_cast<std::size_t>(children.first), static_cast<std::size_t>(children.count));
    }

private:
    void build(node_id nodes) {
        tree_.start(0, 0);
        continuations_.add_to(tree_, nodes);
        tree_.arrange();
    }

    Chooser* choices_;
    match_rates* rates_;
    lookup_options options_;
    expected_continuations continuations_;
    std::span<token_id const> text_;
    std::vector<tree_offer> offers_;
    tree_builder tree_;
};

}  // namespace MULTIDRAFT_NAMESPACE
