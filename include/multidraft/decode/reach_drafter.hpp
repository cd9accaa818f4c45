// Trees that adapt within a step: the number of children of a node depends on its reach, the estimated probability that
// verification gets to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/indexed_rows.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/child_shares.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/shape_dependence.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The bounds of a tree that grows by reach.
struct reach_options {
    std::int32_t nodes = 16;    ///< of the tree at most, the root not counted, >= 1, whatever is drawn
    std::int32_t depth = 5;     ///< levels, >= 1: one draft call each
    std::int32_t children = 4;  ///< of a node at most, in [1, 64]
    double least = 0;           ///< the least reach of a child, in [0, 1]
    /// The fraction of a node's reach that its children share: how often one is accepted, in (0, 1].
    double acceptance = 0.8;
    /// 0: off; else the threshold is adapted from step to step so that trees have this many nodes on average.
    double mean_nodes = 0;
    bool learns = true;  ///< `acceptance` is learnt from past steps, by the draft's largest probability at a node

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

/// The number of children of a node from its own context alone: the largest such that each child has a reach of at
/// least `threshold`. For `verify::nested_ranked_block` (docs/ranked.md, section 7), and all verifiers that allow more.
///
/// The reaches of a level sum to at most 1 and each is at least the threshold, so a level has at most 1 / threshold
/// nodes, whatever is drawn.
struct by_threshold {
    static constexpr multidraft::shape_depends_on shape_depends_on = multidraft::shape_depends_on::own_context;

    /// The smallest threshold for which none of `depth` levels exceeds its share of the nodes.
    [[nodiscard]] static double least_threshold(std::int32_t nodes, std::int32_t depth) noexcept {
        return (1 + 1e-9) / (nodes / depth + 1);  // beyond the rounding of shares
    }
};

/// The number of children of the nodes of a level from the reaches of all of them: the children with the largest reach
/// over all branches, as many as the level's share of the remaining nodes. Depends on everything drawn before the
/// level: for `verify::ranked_block` and verifiers that decide node by node.
struct by_level_budget {
    static constexpr multidraft::shape_depends_on shape_depends_on = multidraft::shape_depends_on::earlier_draws;
};

/// Grows trees by reach: the root's is 1, a child's is its parent's times the acceptance there times its share
/// (`draft::child_shares`). `Rule` is `by_threshold` or `by_level_budget`, and declares what the shape depends on.
///
/// The children of a node are drawn at once by `Sampler`, `draft::stratified` or `draft::iid`. Threshold and acceptance
/// are adapted between steps, which every verifier allows.
template <language_model Draft, sampler Sampler, class Rule>
class reach_drafter {
public:
    using law = typename Sampler::law;
    using logit = logit_of<Draft>;
    static constexpr bool shape_depends_on_draws = true;
    static constexpr multidraft::shape_depends_on shape_depends_on = Rule::shape_depends_on;

    /// The model belongs to the caller. Throws `invalid_input` for options out of their range.
    explicit reach_drafter(Draft& draft, reach_options options = {}, Sampler sampler = {})
        : model_(draft), sampler_(sampler), options_(options) {
        options_.validate();
        options_.depth = std::min(options_.depth, options_.nodes);
        threshold_ = least_threshold();
        accepted_.fill(prior_weight * options_.acceptance);
        tried_.fill(prior_weight);
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
        depth = std::min(depth, options_.depth);  // the threshold bounds the levels, and with the depth the tree
        tree_.start(text.back(), static_cast<std::int32_t>(text.size()) - 1);
        model_.start(options_.nodes + 1);
        vocabulary_ = model_.vocabulary();
        reach_.assign(1, 1.0);
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
        if (options_.learns) {
            for (auto* counts : {&tried_, &accepted_})
                for (double& x : *counts) x *= kept_of_a_step;
            node_id node = 0;
            for (std::size_t k = 0; k <= outcome.path.size(); ++k) {
                if (!outcome.tree.children(node).empty()) {
                    tried_[class_[at(node)]] += 1;
                    accepted_[class_[at(node)]] += k < outcome.path.size() ? 1 : 0;
                }
                if (k < outcome.path.size()) node = outcome.path[k];
            }
        }
        if (options_.mean_nodes > 0) {
            double const off = (outcome.tree.size() - 1) / options_.mean_nodes - 1;
            threshold_ =
                std::clamp(threshold_ * std::exp(step_of_threshold * std::min(off, 1.0)), least_threshold(), 1.0);
        }
    }

    /// The current reach below which no child is drawn.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    /// Classes of nodes by the draft's largest probability, of equal width.
    static constexpr std::size_t classes = 8;
    static constexpr double prior_weight = 8;       ///< weight of the acceptance of the options, in nodes
    static constexpr double kept_of_a_step = 0.99;  ///< decay of counts in each step, so that rates follow the text
    static constexpr double step_of_threshold = 0.1;

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }
    static constexpr bool by_own_context = Rule::shape_depends_on == multidraft::shape_depends_on::own_context;

    [[nodiscard]] node_id nodes() const noexcept { return tree_.as_added().size(); }
    [[nodiscard]] double least_threshold() const noexcept {
        double bound = 0;
        if constexpr (by_own_context) bound = Rule::least_threshold(options_.nodes, options_.depth);
        return std::max(bound, options_.least);
    }

    /// Whether a node may have children, a function of its parent's row and its own rank among its siblings.
    [[nodiscard]] bool goes_on(node_id v) const noexcept { return reach_[at(v)] >= threshold_ && reach_[at(v)] > 0; }

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

    /// The largest probabilities of each row of the level, and the part of its reach that its children share.
    void look(host_group const& g) {
        std::size_t const tops = most_tops();
        likeliest_.assign(level_.size() * tops, 0.0);
        shared_.clear();
        class_.resize(at(nodes()), 0);
        for (std::size_t k = 0; k < level_.size(); ++k) {
            auto const& q = model_.distribution(tree_.row_of_node()[at(level_[k])]);
            best_.assign(tops, none);
            g.top_k(q.size(), weight_of{q}, span<token_id>(best_));
            for (std::size_t i = 0; i < tops; ++i)
                if (best_[i] != none) likeliest_[k * tops + i] = static_cast<double>(q(best_[i]));
            std::size_t const here =
                std::min(classes - 1, static_cast<std::size_t>(likeliest_[k * tops] * static_cast<double>(classes)));
            class_[at(level_[k])] = here;
            shared_.push_back(reach_[at(level_[k])] * std::min(1.0, accepted_[here] / tried_[here]));
        }
    }

    [[nodiscard]] std::size_t most_tops() const {
        return static_cast<std::size_t>(
            std::min<index_t>(std::max(options_.children - 1, 1), static_cast<index_t>(vocabulary_)));
    }
    [[nodiscard]] std::span<double const> likeliest(std::size_t k) const {
        return std::span<double const>(likeliest_).subspan(k * most_tops(), most_tops());
    }

    /// The largest number of children of the k-th node of the level that each have at least that reach.
    [[nodiscard]] index_t count_of(std::size_t k, double least) const {
        if (!(shared_[k] > 0)) return 0;
        return draft::most_children_of_share(sampler_, likeliest(k), least / shared_[k], options_.children);
    }

    void settle_counts([[maybe_unused]] std::int32_t levels_left) {
        counts_.resize(level_.size());
        if constexpr (by_own_context) {
            for (std::size_t k = 0; k < level_.size(); ++k) counts_[k] = count_of(k, threshold_);
        } else {
            share_out(levels_left);
        }
    }

    /// The smallest threshold for which the level has no more than its share of the remaining nodes; ties are in the
    /// order of the nodes.
    void share_out(std::int32_t levels_left) {
        std::int32_t const left = options_.nodes - (nodes() - 1);
        std::int64_t const part = (left + levels_left - 1) / levels_left;
        auto const sum_of = [&](double least) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < level_.size(); ++k) sum += count_of(k, least);
            return sum;
        };
        double low = 0;
        double high = 2;  // no reach is this large
        for (int i = 0; i < 40; ++i) {
            double const middle = (low + high) / 2;
            (sum_of(middle) > part ? low : high) = middle;
        }
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < level_.size(); ++k) sum += counts_[k] = count_of(k, std::max(high, threshold_));
        for (std::size_t k = 0; k < level_.size(); ++k) {
            index_t const more = count_of(k, std::max(low, threshold_));
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
        auto const shares = draft::shares_of(sampler_, likeliest(k), counts_[k]);
        // The certain children as the sampler counted them; the share of each is at most that of the rule.
        index_t const certain = tree_.certain()[at(v)];
        for (index_t i = 0; i < children.count; ++i) {
            double share = shares.of_draw();
            if (i < certain && static_cast<std::size_t>(i) < likeliest(k).size())
                share = likeliest(k)[static_cast<std::size_t>(i)];
            reach_.push_back(shared_[k] * share);
        }
    }

    model_rows<Draft> model_;
    [[no_unique_address]] Sampler sampler_;
    reach_options options_;
    draft::tree_growth<law, Rule::shape_depends_on> tree_;
    mask_view mask_{};
    std::int32_t vocabulary_ = 0;
    double threshold_ = 0;
    std::array<double, classes> tried_{}, accepted_{};
    std::vector<double> reach_;  ///< of each node
    std::vector<std::size_t> class_;
    std::vector<node_id> level_;  ///< the nodes that get children now
    std::vector<node_id> parents_;
    std::vector<token_id> best_;
    std::vector<double> likeliest_;  ///< of the level's rows
    std::vector<double> shared_;     ///< of the level's nodes: reach times acceptance
    std::vector<index_t> counts_;
};

}  // namespace MULTIDRAFT_NAMESPACE
