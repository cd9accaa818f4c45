// Block drafters whose number of nodes is chosen at every step, from its rows and from what earlier steps accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/block_outlook.hpp"
#include "multidraft/decode/block_rows.hpp"
#include "multidraft/decode/block_shapes.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/shape_chances.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The tree that a controller chooses, before the first draw, among the best-first trees (`draft::shape_of_rows`) of 1,
/// 2, 4, .. nodes and chains of 1, 2, 3, .. levels: where rows cost something, a chain of single draws often gives more
/// tokens than the best-first tree of as many nodes. Each is judged by the rows and by what was accepted where nodes
/// had as many children. Below `nearly_greedy_temperature` the chances are those of its likeliest tokens at
/// temperature 1, as at 0: which token the target takes is less certain than such rows are. A drafter of a real chat
/// model was accepted about as often as it says then, one whose target repeats itself far more often; the corrections
/// learn it.
///
/// `Chooser` is a `budget_controller`, or has its `levels`, `budgets`, `correction`, `choose` and `expect`, none of
/// which may look at the step's draws. It belongs to the caller.
template <class Chooser = budget_controller>
class budgeted_shape {
public:
    static constexpr shape_depends_on depends_on = shape_depends_on::nothing;

    /// `children`: of a node at most, >= 1. Throws `invalid_input` for others.
    budgeted_shape(Chooser& choices, index_t children) : choices_(&choices), children_(children) {
        draft::shape_budget{.children = children}.validate();
    }

    /// As deep as the model's block is long.
    [[nodiscard]] std::int32_t depth() const noexcept { return std::numeric_limits<std::int32_t>::max(); }

    /// Chooses the tree of a step from the rows of its first `depth` levels; at 0 the root alone.
    template <class Model, class Sampler>
    void start(host_group const& g, Model& model, block_rows<Model>& rows, std::int32_t depth, token_id root,
               sampling_params const& w, Sampler const& sampler) {
        shape_ = topology();
        chosen_ = none;
        if (depth == 0) {
            others_.clear();
            return;
        }
        bool const certain = w.temperature < nearly_greedy_temperature;
        sampling_params by = w;
        if (certain) by.temperature = 0;
        outlook_.read(g, model, rows, depth, root, w, by, children_, {});
        rows_.assign(outlook_.depths().begin(), outlook_.depths().end());
        corrections_.resize(static_cast<std::size_t>(depth));
        for (std::int32_t d = 0; d < depth; ++d) {
            auto& of_row = corrections_[static_cast<std::size_t>(d)];
            for (std::size_t n = 0; n < of_row.size(); ++n)
                of_row[n] = choices_->correction(d, static_cast<std::int32_t>(n) + 1);
        }
        if (certain)
            choose(draft::top_n{});
        else
            choose(sampler);
    }
    /// The tree of the step.
    [[nodiscard]] topology const& shape() const noexcept { return shape_; }
    /// The corrections of that step at a depth by numbers of children.
    [[nodiscard]] std::span<double const> corrections(std::int32_t depth) const noexcept {
        return corrections_[static_cast<std::size_t>(depth)];
    }

protected:
    /// A tree that does not come from rows.
    struct other_tree {
        tree_offer offer;
        topology shape;  ///< until the choice
    };

    /// The offer of the tree that was chosen, if it is one of `others_`; else null.
    [[nodiscard]] tree_offer const* chosen_other() const noexcept {
        return chosen_ == none ? nullptr : &others_[static_cast<std::size_t>(chosen_)].offer;
    }

    std::vector<other_tree> others_;  ///< what else the next `start` may choose

private:
    template <class Sampler>
    void choose(Sampler const& sampler) {
        for (std::size_t d = 0; d < rows_.size(); ++d) rows_[d].corrections = corrections_[d];
        draft::chances_by_row const by(sampler, rows_, children_);
        offers_.assign(1, tree_offer{});
        std::size_t grown = 0;
        for (node_id const nodes : choices_->budgets()) {
            if (growths_.size() == grown) growths_.emplace_back();
            draft::shape_growth& one = growths_[grown];
            one.grow(by, {.nodes = nodes, .children = children_});
            if (one.size() - 1 <= offers_.back().nodes) break;
            offers_.push_back({one.size() - 1, one.inner(), one.tokens(), one.depth()});
            ++grown;
        }
        std::size_t const chains = offers_.size();
        double tokens = 0;
        double reach = 1;
        for (std::int32_t d = 1; d <= std::min(by.depth(), choices_->budgets().back()); ++d) {
            reach *= by(d - 1, 1, 0);
            tokens += reach;
            offers_.push_back({d, d, tokens, d});
        }
        std::size_t const others = offers_.size();
        for (other_tree const& one : others_) offers_.push_back(one.offer);
        std::size_t const best = choices_->choose(offers_);
        if (best >= others) {
            chosen_ = static_cast<index_t>(best - others);
            shape_ = std::move(others_[best - others].shape);
        } else if (best >= chains) {
            shape_ = chain(offers_[best].nodes);
        } else if (best > 0) {
            shape_ = growths_[best - 1].shape();
        }
        for (draft::depth_outlook& row : rows_) row.corrections = {};
        // What is accepted of another tree says nothing of the rows.
        if (chosen_other() != nullptr) return;
        std::vector<double> chances;
        static_cast<void>(draft::shape_chances(sampler, rows_, shape_, chances));
        choices_->expect(shape_, chances);
    }

    Chooser* choices_;
    index_t children_;
    block_outlook outlook_;
    std::vector<draft::depth_outlook> rows_;
    std::vector<std::array<double, static_cast<std::size_t>(acceptance_history::most_children)>> corrections_;
    std::vector<draft::shape_growth> growths_;
    std::vector<tree_offer> offers_;
    topology shape_;
    index_t chosen_ = none;  ///< of `others_`
};

namespace detail {

/// The shape that another one is made of, whose given children are that one's.
template <class Best>
class made_of_shape {
protected:
    explicit made_of_shape(Best made_of) : best_(std::move(made_of)) {}

    Best best_;
};
template <gives_children Best>
class made_of_shape<Best> {
public:
    void reset() { best_.reset(); }
    void read(std::span<token_id const> text) { best_.read(text); }
    [[nodiscard]] std::span<token_id const> given(node_id node) const { return best_.given(node); }

protected:
    explicit made_of_shape(Best made_of) : best_(std::move(made_of)) {}

    Best best_;
};

}  // namespace detail

/// The chain that `budgeted_shape` would choose; where that would be another tree `reach_shape`, whose price of a child
/// is that of a row there. Both are fixed before the first draw, so that the number of children depends on the node's
/// own context. No level has more nodes than the largest budget.
///
/// `Best` is a `budgeted_shape`, or a `budgeted_lookup_shape`, whose given trees stay as they are.
template <class Chooser = budget_controller, class Best = budgeted_shape<Chooser>>
class budgeted_reach_shape : public reach_shape, public detail::made_of_shape<Best> {
    using made_of = detail::made_of_shape<Best>;

public:
    /// `children` of a node at most, >= 1, and as many `levels` at most; what else `Best` is made of. Throws
    /// `invalid_input` for others.
    template <class... Of>
    budgeted_reach_shape(Chooser& choices, index_t children, std::int32_t levels, Of&&... of)
        : reach_shape(1, children, levels),
          made_of(Best(choices, children, std::forward<Of>(of)...)),
          choices_(&choices),
          children_(children) {}

    /// Chooses the price of a step from its rows.
    template <class Model, class Sampler>
    void start(host_group const& g, Model& model, block_rows<Model>& rows, std::int32_t depth, token_id root,
               sampling_params const& w, Sampler const& sampler) {
        this->best_.start(g, model, rows, depth, root, w, sampler);
        is_chain_ = this->best_.shape().width() == 1;
        reach_shape::start();
        parents_.assign(1, none);
        chances_.assign(1, 1.0);
    }
    /// How many children a node gets whose row was made.
    template <class Model, class Sampler>
    [[nodiscard]] index_t children(host_group const& g, Model const& model, block_rows<Model> const& rows, index_t row,
                                   node_id node, token_id token, sampling_params const& w, Sampler const& sampler) {
        if constexpr (gives_children<Best>)
            if (!this->best_.given(0).empty()) return 0;
        std::int32_t const d = rows[row].depth;
        if (d >= this->best_.shape().max_depth() && is_chain_) return 0;
        this->use(is_chain_ ? almost_nothing : choices_->least(), is_chain_ ? 1 : children_,
                  this->best_.corrections(d));
        return reach_shape::children(g, model, rows, row, node, token, w, sampler);
    }
    /// The children that were drawn then.
    void drawn(node_id node, node_range drawn) {
        reach_shape::drawn(node, drawn);
        for (index_t k = 0; k < drawn.count; ++k) {
            parents_.push_back(node);
            chances_.push_back(this->usual_chance(k));
        }
        choices_->expect(topology::from_parents(parents_), chances_);
    }

private:
    static constexpr double almost_nothing = 1e-9;  ///< as a price, of children that are chosen already

    Chooser* choices_;
    index_t children_;
    bool is_chain_ = true;
    std::vector<node_id> parents_;
    std::vector<double> chances_;
};

/// A `block_drafter` of one of these shapes, whose controller says before the call of the drafter for how many
/// levels it is asked, if for any, and learns from its outcome. Model and controller belong to the caller.
template <block_model Model, sampler Sampler, class Shape = budgeted_shape<>, class Chooser = budget_controller>
class budgeted_block_drafter : public block_drafter<Model, Sampler, Shape> {
    using base = block_drafter<Model, Sampler, Shape>;
    static_assert(!Sampler::law::traits.addressed_by_text,
                  "multidraft: this sampler's noise belongs to places in the text, so that two steps draw from the "
                  "same: a controller that has seen the one must not choose the shape of the other");

public:
    /// `choices` is that of the shape.
    budgeted_block_drafter(Model& model, Chooser& choices, Shape shape, Sampler sampler = {})
        : base(model, std::move(shape), sampler), choices_(&choices) {}

    void reset() {
        base::reset();
        choices_->start();
    }
    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        base::grow(g, text, choices_->levels({text, depth, 1}), w, source, m);
    }
    void learn(step_outcome const& outcome) { choices_->learn(outcome); }  ///< hands the outcome to the controller

private:
    Chooser* choices_;
};

}  // namespace MULTIDRAFT_NAMESPACE
