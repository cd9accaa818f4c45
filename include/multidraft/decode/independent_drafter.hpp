// The drafter of several draft models: each child of a node is drawn by one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/model_rows.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Grows a fixed shape from several draft models: the k-th child of a node is drawn from model k, or k modulo their
/// number ([SpecInfer]). Duplicates are kept.
///
/// Law: `independent`; verify with `verify::multi_round`, which reads the row of each child from `rows()`, or with
/// `verify::naive<law::independent>`. Every model reads every node that has children. Put the best model first: it
/// drafts the child of a node that has only one.
template <language_model Draft>
class independent_drafter : public candidate_tree_drafter<law::independent> {
    static_assert(!observes_features<Draft>,
                  "multidraft: this model observes features of the target, which a drafter of several models does not "
                  "hand on");

public:
    using logit = logit_of<Draft>;
    using view = typename model_rows<Draft>::view;
    static constexpr bool shape_depends_on_draws = false;

    /// Throws `invalid_input` when there is no model.
    independent_drafter(std::vector<Draft*> const& models, topology shape) : shape_(std::move(shape)) {
        if (models.empty()) refuse("models.size", 0, "there is at least one draft model");
        for (std::size_t k = 0; k < models.size(); ++k) {
            if (models[k] == nullptr) refuse("models", static_cast<std::int64_t>(k), "null", "a model is there");
            for (std::size_t j = 0; j < k; ++j)
                if (models[j] == models[k])
                    refuse("models", static_cast<std::int64_t>(k), "a model given before",
                           "each model has a cache of its own");
            models_.emplace_back(*models[k]);
        }
    }

    void check(std::int32_t vocabulary) const {
        for (auto const& model : models_) model.check(vocabulary);
    }
    /// Whether a model at that address is one of its own.
    [[nodiscard]] bool calls(void const* model) const noexcept {
        return std::any_of(models_.begin(), models_.end(), [&](auto const& one) { return one.is(model); });
    }
    void reset() {
        for (auto& model : models_) model.reset();
    }
    void read(std::span<token_id const> context) {
        for (auto& model : models_) model.read(context);
    }
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        std::int32_t depth = shape_.max_depth();
        for (auto const& model : models_) depth = std::min(depth, model.depth_limit(length));
        return depth;
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        tree_.start(text.back(), position);
        for (auto& model : models_) model.start();
        reader_.start(shape_.size());
        level_.assign(1, 0);
        for (std::int32_t d = 0; d < depth && !level_.empty(); ++d) {
            auto const in = inputs(reader_, level_, m);
            for (auto& model : models_) model.read(g, text, in, w, m);
            detail::stopwatch const time(m.time.sample);
            node_id const begin = tree_.size();
            for (node_id const v : level_) draw_children(g, v, source, position);
            level_.clear();
            for (node_id v = begin; v < tree_.size(); ++v)
                if (shape_.child_count(like(v)) > 0) level_.push_back(v);
        }
        detail::stopwatch const time(m.time.mask);
        tree_.arrange();
        tree_.extend_mask();
        rows_.clear();
        for (auto const& model : models_)
            for (index_t const e : tree_.nodes().entries)
                rows_.push_back(e == none ? softmax_row<view>() : model.distribution(e));
        auto const nodes = static_cast<std::size_t>(size());
        of_models_.clear();
        for (std::size_t k = 0; k < models_.size(); ++k)
            of_models_.emplace_back(span<softmax_row<view> const>(rows_.data() + k * nodes, nodes),
                                    models_[k].vocabulary());
        m.drafted += size() - 1;
    }

    /// The row of each child, by the model that drew it.
    [[nodiscard]] rows_of_models<prepared_rows<softmax_row<view>>> rows() const noexcept {
        return rows_of_models<prepared_rows<softmax_row<view>>>(of_models_);
    }

    void keep(std::int32_t context, std::span<node_id const> nodes) {
        auto const entries = reader_.entries_of(tree_, nodes);
        for (auto& model : models_) model.keep(context, entries);
    }

private:
    /// The node of the shape that a node corresponds to.
    [[nodiscard]] node_id like(node_id v) const noexcept { return tree_.added().shape_nodes[at(v)]; }

    template <draw_source Source>
    void draw_children(host_group const& g, node_id v, Source& source, std::int32_t position) {
        index_t const wanted = shape_.child_count(like(v));
        index_t const entry = tree_.added().entries[at(v)];
        for (index_t k = 0; k < wanted; ++k) {
            auto& model = models_[static_cast<std::size_t>(k) % models_.size()];
            auto const q = model.distribution(entry);
            token_id const x = source.categorical(g, model.sums(entry), q.size(), weight_of{q}, {},
                                                  draw_site{position, v}(purpose::draft, k));
            if (x == none) return;
            tree_.add(v, x, &shape_);
        }
    }

    topology shape_;
    std::vector<model_rows<Draft>> models_;
    draft::draft_reader reader_;
    std::vector<node_id> level_;
    std::vector<softmax_row<view>> rows_;                      ///< model after model
    std::vector<prepared_rows<softmax_row<view>>> of_models_;  ///< the same by model
};

}  // namespace MULTIDRAFT_NAMESPACE
