// Trees that adapt within a step: the number of children of a node depends on its reach, the estimated probability that
// verification gets to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/acceptance_by_row.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/indexed_rows.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/shape_dependence.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The bounds of a tree that grows by reach.
struct reach_options {
    std::int32_t nodes = 16;    ///< of the tree at most, the root not counted, >= 1, whatever is drawn
    std::int32_t depth = 5;     ///< levels, >= 1: one draft call each
    std::int32_t children = 4;  ///< of a node at most, in [1, 64]
    /// The least threshold: what each node adds to the accepted tokens, by estimate, in [0, 1]. Without `mean_nodes` it
    /// is the threshold, 0.25 / nodes at least where the shape depends on a node's own context.
    double least = 0;
    double acceptance = 0.6;  ///< how often a single draw is accepted, before anything is learnt, in (0, 1]
    /// 0: off; else the threshold is adapted from step to step so that trees have this many nodes on average.
    double mean_nodes = 0;
    bool learns = true;  ///< acceptance rates are learnt from past steps (`acceptance_by_row`)

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 1 || nodes > 1 << 16) refuse("nodes", nodes, "a tree has 1 to 2^16 nodes besides its root");
        if (depth < 1 || depth > 1 << 16) refuse("depth", depth, "a tree has 1 to 2^16 levels");
        if (children < 1 || children > 64) refuse("children", children, "a node has 1 to 64 children");
        if (!(least >= 0 && least <= 1)) refuse("least", least, "a chance lies in [0, 1]");
        if (!(acceptance > 0 && acceptance <= 1)) refuse("acceptance", acceptance, "an acceptance rate is in (0, 1]");
        if (!(mean_nodes >= 0 && mean_nodes <= nodes))
            refuse("mean_nodes", mean_nodes, "a mean is at most the number of nodes, and 0 where there is no such aim");
    }
};

/// The number of children of a node from its own context alone: those that add the most accepted tokens, less the
/// threshold for each (`draft::best_children`). For `verify::nested_ranked_block` (docs/ranked.md, section 7), and all
/// verifiers that allow more.
///
/// Trees are bounded whatever is drawn: what a node leaves of its allowance is divided among its children in proportion
/// to their chances, which do not depend on the tokens drawn.
struct by_threshold {
    static constexpr multidraft::shape_depends_on shape_depends_on = multidraft::shape_depends_on::own_context;
};

/// The number of children of the nodes of a level from the reaches of all of them: by the smallest threshold for which
/// the level has no more than its part of the remaining nodes. Its part is all of them if the options ask for a mean
/// number, else an equal one for each level. Depends on everything drawn before the level: for `verify::ranked_block`
/// and verifiers that decide node by node.
struct by_level_budget {
    static constexpr multidraft::shape_depends_on shape_depends_on = multidraft::shape_depends_on::earlier_draws;
};

/// Grows trees by reach, the estimated probability that a node is accepted: the root's is 1, a child's is its parent's
/// times its chance there (`draft::chances_of`). `Rule` is `by_threshold` or `by_level_budget`, and declares what the
/// shape depends on.
///
/// The children of a node are drawn at once by `Sampler`, `draft::stratified` or `draft::iid`. Threshold and rates are
/// adapted between steps, which every verifier allows.
template <language_model Draft, sampler Sampler, class Rule>
class reach_drafter {
public:
    using law = typename Sampler::law;
    using logit = logit_of<Draft>;
    static constexpr bool shape_depends_on_draws = true;
    static constexpr multidraft::shape_depends_on shape_depends_on = Rule::shape_depends_on;

    /// The model belongs to the caller. Throws `invalid_input` for options out of their range.
    explicit reach_drafter(Draft& draft, reach_options options = {}, Sampler sampler = {})
        : model_(draft), sampler_(sampler), options_((options.validate(), options)), acceptance_(options.acceptance) {
        options_.depth = std::min(options_.depth, options_.nodes);
        threshold_ = options_.least;
        if (options_.mean_nodes > 0)
            threshold_ = std::max(0.5 / options_.mean_nodes, least_threshold());
        else if (by_own_context)
            threshold_ = std::max(0.25 / options_.nodes, least_threshold());
        tree_.reserve(options_.nodes + 1);
    }

    void check(std::int32_t vocabulary) const { model_.check(vocabulary); }
    void reset() { model_.reset(); }
    void read(std::span<token_id const> context) { model_.read(context); }
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(options_.depth, model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        depth = std::min(depth, options_.depth);
        tree_.start(text.back(), static_cast<std::int32_t>(text.size()) - 1);
        model_.start(options_.nodes + 1);
        vocabulary_ = model_.vocabulary();
        nodes_.assign(1, {});
        nodes_[0].allowance = options_.nodes;
        level_.assign(1, 0);
        for (std::int32_t d = 0; d < depth && !level_.empty(); ++d) {
            read_level(g, text, w, m, d == 0);
            detail::stopwatch const time(m.sample_seconds);
            look(g);
            settle_counts(depth - d);
            node_id const begin = nodes();
            for (std::size_t k = 0; k < level_.size(); ++k) draw(level_[k], k, source);
            level_.clear();
            for (node_id v = begin; v < nodes(); ++v)
                if (d + 1 < depth && goes_on(v)) level_.push_back(v);
        }
        detail::stopwatch const time(m.mask_seconds);
        mask_ = tree_.mask();
        m.drafted += size() - 1;
    }

    [[nodiscard]] node_id size() const { return tree_.size(); }
    [[nodiscard]] drafted<law> tree() const { return tree_.drafts_of_any_shape(); }
    [[nodiscard]] std::span<token_id const> tokens() const { return tree_.tokens(); }
    [[nodiscard]] std::span<std::int32_t const> positions() const { return tree_.positions(); }
    [[nodiscard]] mask_view mask() const noexcept { return mask_; }
    [[nodiscard]] auto rows() const {
        return indexed_rows(prepared_rows<typename model_rows<Draft>::view>{model_.distributions(), vocabulary_},
                            tree_.row_of_node());
    }

    void keep(std::int32_t context, std::span<node_id const> nodes) {
        model_.keep(context, tree_.draft_entries(span<node_id const>(nodes)));
    }

    /// Updates acceptance rates and threshold from an outcome.
    void learn(step_outcome const& outcome) {
        if (options_.learns) learn_acceptance(outcome);
        if (!(options_.mean_nodes > 0)) return;
        double const off = (outcome.tree.size() - 1) / options_.mean_nodes - 1;
        double const step = std::max(last_step_of_threshold, 1 / (2 + steps_ / 4));
        threshold_ = std::clamp(threshold_ * std::exp(step * std::min(off, 1.0)), least_threshold(), 1.0);
        steps_ += 1;
    }

    /// The current threshold: a node is drawn if it adds more than that to the estimated number of accepted tokens.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    /// What is known of a node when it is drawn, and of its children when they are.
    struct node_state {
        double reach = 1;
        std::int32_t allowance = 0;  ///< nodes that there may be below it
        std::size_t kind = 0;        ///< of its token, if it was drawn
        std::size_t row = 0;         ///< class of its row
        draft::child_chances chances{};
    };

    static constexpr double last_step_of_threshold = 0.03;  ///< that of its logarithm, for twice the nodes
    static constexpr double smallest_threshold = 1e-6;

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }
    static constexpr bool by_own_context = Rule::shape_depends_on == multidraft::shape_depends_on::own_context;

    [[nodiscard]] node_id nodes() const noexcept { return tree_.as_added().size(); }
    [[nodiscard]] double least_threshold() const noexcept { return std::max(options_.least, smallest_threshold); }

    /// Whether a node may have children, a function of its own context.
    [[nodiscard]] bool goes_on(node_id v) const noexcept {
        return nodes_[at(v)].reach > threshold_ && nodes_[at(v)].allowance > 0;
    }

    void read_level(host_group const& g, std::span<token_id const> text, sampling_params const& w,
                    generation_metrics& m, bool root) {
        auto const in = tree_.read(span<node_id const>(level_));
        if (root) {
            model_.read_root(g, text, w, m);
            return;
        }
        parents_.clear();
        for (node_id const v : in.nodes) parents_.push_back(tree_.row_of_node()[at(tree_.as_added().parents[at(v)])]);
        model_.read_nodes(g, in.tokens, parents_, in.positions, w, m);
    }

    /// The largest probabilities of each row of the level, and its class.
    void look(host_group const& g) {
        std::size_t const tops = most_tops();
        likeliest_.assign(level_.size() * tops, 0.0);
        for (std::size_t k = 0; k < level_.size(); ++k) {
            auto const& q = model_.distribution(tree_.row_of_node()[at(level_[k])]);
            best_.assign(tops, none);
            g.top_k(q.size(), weight_of{q}, span<token_id>(best_));
            for (std::size_t i = 0; i < tops; ++i)
                if (best_[i] != none) likeliest_[k * tops + i] = static_cast<double>(q(best_[i]));
            nodes_[at(level_[k])].row = acceptance_by_row::class_of(likeliest_[k * tops]);
        }
    }

    [[nodiscard]] std::size_t most_tops() const {
        return static_cast<std::size_t>(
            std::min<index_t>(std::max(options_.children - 1, 1), static_cast<index_t>(vocabulary_)));
    }
    [[nodiscard]] std::span<double const> likeliest(std::size_t k) const {
        return std::span<double const>(likeliest_).subspan(k * most_tops(), most_tops());
    }

    /// The best number of children of the k-th node of the level by that threshold.
    [[nodiscard]] index_t count_of(std::size_t k, double threshold) const {
        node_state const& v = nodes_[at(level_[k])];
        return draft::best_children(sampler_, likeliest(k), acceptance_.rates(v.row),
                                    v.reach / std::max(threshold, smallest_threshold),
                                    std::min(options_.children, v.allowance));
    }

    void settle_counts([[maybe_unused]] std::int32_t levels_left) {
        counts_.resize(level_.size());
        if constexpr (by_own_context) {
            for (std::size_t k = 0; k < level_.size(); ++k) counts_[k] = count_of(k, threshold_);
        } else {
            share_out(levels_left);
        }
    }

    /// The smallest threshold for which the level has no more than its part of the remaining nodes; ties are in the
    /// order of the nodes.
    void share_out(std::int32_t levels_left) {
        std::int32_t const left = options_.nodes - (nodes() - 1);
        std::int64_t const part = options_.mean_nodes > 0 ? left : (left + levels_left - 1) / levels_left;
        auto const count_all = [&](double threshold) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < level_.size(); ++k) sum += counts_[k] = count_of(k, threshold);
            return sum;
        };
        if (count_all(threshold_) <= part) return;
        double low = threshold_;
        double high = 2;  // no reach is this large
        for (int i = 0; i < 40; ++i) {
            double const middle = (low + high) / 2;
            (count_all(middle) > part ? low : high) = middle;
        }
        std::int64_t sum = count_all(high);
        for (std::size_t k = 0; k < level_.size(); ++k) {
            index_t const more = count_of(k, low);
            if (more < counts_[k] || sum - counts_[k] + more > part) continue;
            sum += more - counts_[k];
            counts_[k] = more;
        }
    }

    template <draw_source Source>
    void draw(node_id v, std::size_t k, Source& source) {
        index_t const entry = tree_.row_of_node()[at(v)];
        auto const& q = model_.distribution(entry);
        node_range const children = tree_.draw(v, counts_[k], sampler_, q, model_.sums(entry), source);
        if (children.empty()) return;
        draft::child_chances const chances =
            draft::chances_of(sampler_, likeliest(k), counts_[k], acceptance_.rates(nodes_[at(v)].row));
        // The certain children as the sampler counted them: rounding may make a difference.
        index_t const certain = tree_.certain()[at(v)];
        nodes_[at(v)].chances = chances;
        node_state const parent = nodes_[at(v)];
        std::int32_t const allowance = parent.allowance - children.count;
        std::int32_t rest = allowance;  // so that rounding cannot exceed it
        double const any = chances.any();
        for (index_t i = 0; i < children.count; ++i) {
            node_state child;
            double chance = chances.of_draw();
            if (i < certain && at(i) < likeliest(k).size()) chance = chances.factor * likeliest(k)[at(i)];
            child.allowance = by_own_context ? std::min(rest, part_of(allowance, chance, any)) : parent.allowance;
            rest -= child.allowance;
            if (i >= certain) {
                child.kind =
                    acceptance_by_row::kind_of(static_cast<double>(q(tree_.as_added().tokens[at(children.first + i)])));
                chance = std::min(1.0, chance * acceptance_.of_token(child.kind));
            }
            child.reach = parent.reach * chance;
            nodes_.push_back(child);
        }
    }

    /// The part of an allowance that a child has by its chance.
    [[nodiscard]] static std::int32_t part_of(std::int32_t allowance, double chance, double any) noexcept {
        return any > 0 ? static_cast<std::int32_t>(allowance * std::min(1.0, chance / any)) : 0;
    }

    void learn_acceptance(step_outcome const& outcome) {
        acceptance_.fade();
        node_id node = 0;
        for (std::size_t k = 0; k <= outcome.path.size(); ++k) {
            bool const accepted = k < outcome.path.size();
            node_range const children = outcome.tree.children(node);
            node_state const& v = nodes_[at(node)];
            if (!children.empty()) {
                kinds_.clear();
                for (index_t i = v.chances.shares.certain; i < children.count; ++i)
                    kinds_.push_back(nodes_[at(children.first + i)].kind);
                acceptance_.count(v.row, v.chances, kinds_, accepted ? outcome.path[k] - children.first : none);
            }
            if (accepted) node = outcome.path[k];
        }
    }

    model_rows<Draft> model_;
    [[no_unique_address]] Sampler sampler_;
    reach_options options_;
    acceptance_by_row acceptance_;
    draft::tree_growth<law, Rule::shape_depends_on> tree_;
    mask_view mask_{};
    std::int32_t vocabulary_ = 0;
    double threshold_ = 0;
    double steps_ = 0;  ///< that the threshold was adapted
    std::vector<node_state> nodes_;
    std::vector<node_id> level_;  ///< the nodes that get children now
    std::vector<node_id> parents_;
    std::vector<token_id> best_;
    std::vector<double> likeliest_;  ///< of the level's rows
    std::vector<index_t> counts_;
    std::vector<std::size_t> kinds_;
};

}  // namespace MULTIDRAFT_NAMESPACE
