// Dynamic trees of the nodes most likely to be reached under the draft, by top tokens or by draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The bounds of a dynamic tree.
struct best_first_options {
    std::int32_t nodes = 16;    ///< of the tree, the root not counted, >= 1
    std::int32_t depth = 5;     ///< levels, >= 1: one draft call each
    std::int32_t width = 4;     ///< nodes of a level that the draft reads and that may have children, >= 1
    std::int32_t children = 4;  ///< of a node at most, >= 1
    double least = 0.1;         ///< sampled trees: the least worth of a draw, in [0, 1]

    /// Throws `invalid_input` naming the field that is out of its range.
    void validate() const {
        if (nodes < 1 || nodes > 1 << 16) refuse("nodes", nodes, "a tree has 1 to 2^16 nodes besides its root");
        if (depth < 1) refuse("depth", depth, "a tree has one level or more");
        if (width < 1) refuse("width", width, "at least one node of a level has children");
        if (children < 1) refuse("children", children, "a node has one child or more");
        if (!(least >= 0 && least <= 1)) refuse("least", least, "a share of the draft's probability lies in [0, 1]");
    }
};

namespace detail {

/// The base of both dynamic trees: their bounds, and the selection of the nodes to extend.
template <language_model Draft, draft_law Law>
class best_first_drafter : public single_model_drafter<Draft, Law> {
public:
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(options_.depth, this->model_.depth_limit(length));
    }

protected:
    best_first_drafter(Draft& draft, best_first_options options)
        : single_model_drafter<Draft, Law>(draft), options_(options) {
        options_.validate();
    }

    /// The root alone, which is reached with certainty. Of a tree of that depth the model reads at most `most` nodes.
    void start(std::span<token_id const> text, std::int32_t depth, std::int64_t most) {
        std::int64_t read = 1;
        for (std::int64_t d = 1, level = 1; d < depth && read < most; ++d) {
            level = std::min<std::int64_t>(options_.width, level * options_.children);
            read += level;
        }
        if (std::min(read, most) > most_read)
            refuse("width", options_.width, "the draft would read more than 2^16 nodes of a tree");
        single_model_drafter<Draft, Law>::start(text, static_cast<node_id>(std::min(read, most)));
        reach_.assign(1, 1.0);
        level_.assign(1, 0);
    }

    /// A child of a node, with its probability of being reached.
    void add(node_id parent, token_id token, double reach) {
        single_model_drafter<Draft, Law>::add(parent, token);
        reach_.push_back(reach);
    }

    /// Keeps the `count` nodes most likely to be reached, ties to the smaller number, in the order of their numbers.
    void keep_likeliest(std::vector<node_id>& nodes, std::int32_t count) const {
        auto const limit = static_cast<std::size_t>(count);
        if (nodes.size() <= limit) return;
        std::sort(nodes.begin(), nodes.end(), [&](node_id a, node_id b) {
            double const of_a = reach_[this->at(a)];
            double const of_b = reach_[this->at(b)];
            return of_a > of_b || (!(of_b > of_a) && a < b);
        });
        nodes.resize(limit);
        std::sort(nodes.begin(), nodes.end());
    }

    static constexpr std::int64_t most_read = (1 << 16) + 1;

    best_first_options options_;
    std::vector<double> reach_;   ///< of each node: its probability of being reached, by the draft; or its worth
    std::vector<node_id> level_;  ///< nodes to extend
};

}  // namespace detail

/// Expands and re-ranks ([EAGLE-2]): at each level the `width` nodes of the largest joint draft probability get their
/// `children` most likely tokens; of all nodes found, the `nodes` likeliest are kept.
///
/// Law: `deterministic`: nothing is drawn, so a choice that depends on every node does not bias the text. Ties go to
/// the node found first. Verify with `verify::naive<law::deterministic>`.
template <language_model Draft>
class best_first_top_drafter : public detail::best_first_drafter<Draft, law::deterministic> {
    using base = detail::best_first_drafter<Draft, law::deterministic>;
    using base::level_;
    using base::options_;
    using base::reach_;

public:
    static constexpr bool shape_depends_on_draws = false;

    /// The model belongs to the caller. Throws `invalid_input` for options out of their range.
    explicit best_first_top_drafter(Draft& draft, best_first_options options = {}) : base(draft, options) {}

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source&, generation_metrics& m) {
        this->start(text, depth, base::most_read + 1);
        for (std::int32_t d = 0; d < depth && !level_.empty(); ++d) {
            this->expand(g, text, level_, w, m);
            detail::stopwatch const time(m.time.sample);
            node_id const begin = this->tree_.size();
            for (node_id const v : level_) {
                auto const q = this->distribution(v);
                best_.resize(static_cast<std::size_t>(std::min<index_t>(options_.children, q.size())));
                g.top_k(q.size(), weight_of{q}, span<token_id>(best_));
                for (token_id const x : best_) {
                    if (x == none || !(q.weight(x) > 0)) break;
                    this->add(v, x, reach_[this->at(v)] * static_cast<double>(q(x)));
                }
            }
            level_.resize(this->at(this->tree_.size() - begin));
            std::iota(level_.begin(), level_.end(), begin);
            this->keep_likeliest(level_, options_.width);
        }
        detail::stopwatch const time(m.time.sample);
        ranked_.resize(this->at(this->tree_.size() - 1));
        std::iota(ranked_.begin(), ranked_.end(), 1);
        this->keep_likeliest(ranked_, options_.nodes);
        kept_.assign(this->at(this->tree_.size()), 0);
        kept_[0] = 1;
        // A child is never likelier than its parent and comes later, so a kept node's parent is kept.
        for (node_id const v : ranked_) kept_[this->at(v)] = 1;
        this->finish(m, kept_);
    }

private:
    std::vector<node_id> ranked_;
    std::vector<token_id> best_;
    std::vector<char> kept_;
};

/// Draws without replacement, each where it is worth most. The next draw at a node v is worth worth(v) left(v): left(v)
/// is the mass of q there that has not been drawn, worth(v) the worth of the draw of v itself, 1 for the root. It is
/// the draft's probability that all earlier draws along the path miss.
///
/// Whether the next draw is made depends on earlier draws, never on the token that it gives. A level ends when no draw
/// is worth `least`, when its share of the `nodes` is drawn, or when every node has `children`. So the number of
/// children is a stopping rule, and `verify::recursive_rejection<law::sequential>` is lossless. Joint probabilities, as
/// in `best_first_top_drafter`, would be lossless too but a worse criterion: whether a drawn token is accepted hardly
/// depends on its own q. Ties go to the node drawn first.
template <language_model Draft>
class best_first_drawn_drafter : public detail::best_first_drafter<Draft, law::sequential> {
    using base = detail::best_first_drafter<Draft, law::sequential>;
    using base::level_;
    using base::options_;
    using base::reach_;

public:
    static constexpr bool shape_depends_on_draws = true;

    /// The model belongs to the caller. Throws `invalid_input` for options out of their range.
    explicit best_first_drawn_drafter(Draft& draft, best_first_options options = {}) : base(draft, options) {}

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        this->start(text, depth, std::int64_t{options_.nodes} + 1);
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        for (std::int32_t d = 0; d < depth && !level_.empty() && drawn() < options_.nodes; ++d) {
            this->expand(g, text, level_, w, m);
            detail::stopwatch const time(m.time.sample);
            node_id const begin = this->tree_.size();
            // A level takes its share of the remaining nodes and leaves the rest to the levels below.
            std::int32_t const levels = depth - d;
            std::int32_t const share = (options_.nodes - drawn() + levels - 1) / levels;
            std::int32_t const limit = std::min(options_.nodes, drawn() + std::max(share, 1));
            draw_level(g, source, position, limit);
            level_.clear();
            for (node_id v = begin; v < this->tree_.size(); ++v)
                if (!(reach_[this->at(v)] < options_.least)) level_.push_back(v);
            this->keep_likeliest(level_, options_.width);
        }
        this->finish(m);
    }

private:
    [[nodiscard]] node_id drawn() const noexcept { return this->tree_.size() - 1; }

    template <draw_source Source>
    void draw_level(host_group const& g, Source& source, std::int32_t position, std::int32_t limit) {
        auto const per_node = static_cast<std::size_t>(std::min(options_.children, options_.nodes));
        worth_.clear();
        for (node_id const v : level_) worth_.push_back(reach_[this->at(v)]);
        taken_.assign(level_.size() * per_node, none);
        counts_.assign(level_.size(), 0);
        while (drawn() < limit) {
            auto const best =
                static_cast<std::size_t>(std::distance(worth_.begin(), std::max_element(worth_.begin(), worth_.end())));
            if (!(worth_[best] > 0) || worth_[best] < options_.least) return;
            node_id const v = level_[best];
            auto const q = this->distribution(v);
            weight_of const weight{q};
            auto& sums = this->sums(v);
            span<token_id> const mine = span<token_id>(taken_).subspan(best * per_node, per_node);
            std::size_t const k = counts_[best];
            token_id const x = source.categorical(g, sums, q.size(), weight, span<token_id const>(mine.first(k)),
                                                  draw_site{position, v}(purpose::draft, static_cast<index_t>(k)));
            if (x == none) {
                worth_[best] = -1;
                continue;
            }
            this->add(v, x, worth_[best]);
            mine[k] = x;
            if (++counts_[best] == per_node) {
                worth_[best] = -1;
                continue;
            }
            double const whole = static_cast<double>(weight(x)) / static_cast<double>(q(x));
            g.update_chunk(sums, q.size(), weight, span<token_id const>(mine.first(k + 1)), x);
            worth_[best] = reach_[this->at(v)] * static_cast<double>(sums.total) / whole;
            if (!(sums.total > 0)) worth_[best] = -1;
        }
    }

    std::vector<double> worth_;
    std::vector<token_id> taken_;
    std::vector<std::size_t> counts_;
};

}  // namespace MULTIDRAFT_NAMESPACE
