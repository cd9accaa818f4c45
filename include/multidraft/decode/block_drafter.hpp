// The drafter of block models: one call gives the rows of all depths, and each node draws its children from its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/block_model.hpp"
#include "multidraft/decode/block_rows.hpp"
#include "multidraft/decode/block_shapes.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Draws trees from a block model, which is called once a step. The row of a node is that of its depth, or with a term
/// of the parent that of its depth and its own token. Nodes with the same row share it, and each draws for itself, so
/// every verifier of the law is lossless that allows the shape.
///
/// `Shape` says how many children a node has, and what that depends on: `fixed_shape`, `best_first_shape`,
/// `reach_shape` (decode/block_shapes.hpp). `Law` is that of the sampler, or `law::shared_lists` of it: then one list
/// is drawn for each depth and stands below all its nodes, which have as many children each and no term of the parent.
template <block_model Model, sampler Sampler, class Shape = fixed_shape, draft_law Law = typename Sampler::law>
class block_drafter {
    static constexpr bool shared = has_shared_lists<Law>;
    static_assert(std::is_same_v<law_of_list<Law>, typename Sampler::law>,
                  "multidraft: the law of a block drafter is that of its sampler, or law::shared_lists of it");
    static_assert(!shared || !adds_parent_terms<Model>,
                  "multidraft: nodes share a list where they have one row; here the row depends on a node's token");
    static_assert(
        !gives_children<Shape> || std::is_same_v<Law, law::stratified>,
        "multidraft: children that a shape gives are certain, whatever the row says: law::stratified has such");

public:
    using law = Law;
    static constexpr multidraft::shape_depends_on shape_depends_on = Shape::depends_on;
    static constexpr bool shape_depends_on_draws = shape_depends_on != multidraft::shape_depends_on::nothing;

    /// The model belongs to the caller and must outlive the drafter.
    block_drafter(Model& model, Shape shape, Sampler sampler = {})
        : model_(&model), shape_(std::move(shape)), sampler_(sampler) {}

    void check(std::int32_t vocabulary) const {
        if (model_->vocabulary() != vocabulary)
            refuse("draft.vocabulary", model_->vocabulary(),
                   "the block model has another vocabulary than the target (" + std::to_string(vocabulary) + ")");
    }
    void reset() {
        model_->reset();
        if constexpr (gives_children<Shape>) shape_.reset();
    }
    void read(std::span<token_id const>) noexcept {}
    void observe(std::span<float const> features,
                 std::span<std::int32_t const> positions) requires observes_features<Model> {
        model_->observe(features, positions);
    }
    [[nodiscard]] std::int32_t feature_size() const requires observes_features<Model> { return model_->feature_size(); }
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(shape_.depth(), room(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        {
            detail::stopwatch const time(m.time.draft);
            rows_.call(*model_, text, depth);
            m.draft_calls += depth > 0 ? 1 : 0;
        }
        {
            detail::stopwatch const time(m.time.sample);
            auto const position = static_cast<std::int32_t>(text.size()) - 1;
            if constexpr (gives_children<Shape>) shape_.read(text);
            shape_.start(g, *model_, rows_, depth, text.back(), w, sampler_);
            if constexpr (shape_depends_on_draws)
                tree_.start(text.back(), position);
            else
                tree_.start(text.back(), position, shape_.shape(), depth);
            row_of_node_.clear();
            auto level = tree_.next_level();
            for (std::int32_t d = 0; d < depth && !level.empty(); ++d, level = tree_.next_level())
                draw_level(g, level.nodes, d, w, source);
            row_of_node_.resize(static_cast<std::size_t>(size()), none);
        }
        detail::stopwatch const time(m.time.mask);
        mask_ = tree_.mask();
        m.drafted += size() - 1;
    }

    [[nodiscard]] node_id size() const noexcept { return tree_.size(); }
    [[nodiscard]] drafted<law> tree() const noexcept { return tree_.drafts_of_any_shape(); }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.tokens(); }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.positions(); }
    [[nodiscard]] mask_view mask() const noexcept { return mask_; }
    [[nodiscard]] auto rows() const { return indexed_rows(rows_.all(), row_of_node_); }
    void keep(std::int32_t, std::span<node_id const>) noexcept {}

protected:
    /// Sets the shape of the following steps' trees.
    void use(topology const& shape) requires std::is_same_v<Shape, fixed_shape> {
        if (!(shape_.shape() == shape)) shape_ = shape;
    }
    /// The deepest tree below a text of that many tokens, whatever its shape.
    [[nodiscard]] std::int32_t room(std::int32_t length) const noexcept {
        return std::min(static_cast<std::int32_t>(model_->block_size()),
                        static_cast<std::int32_t>(model_->context_limit()) - length + 1);
    }
    /// Tokens of a text that a call reads besides its block: none that can be told from here.
    [[nodiscard]] static std::int32_t unread(std::span<token_id const>) noexcept { return 1; }

private:
    [[nodiscard]] token_id token_of(node_id v) const { return tree_.tokens()[static_cast<std::size_t>(v)]; }

    template <class Source>
    void draw_level(host_group const& g, std::span<node_id const> nodes, std::int32_t depth, sampling_params const& w,
                    Source& source) {
        for (node_id const v : nodes) {
            index_t const r = rows_.row_at(g, *model_, depth, token_of(v), w);
            row_of_node_.resize(static_cast<std::size_t>(tree_.size()), none);
            row_of_node_[static_cast<std::size_t>(v)] = r;
            if constexpr (gives_children<Shape>) {
                std::span<token_id const> const given = shape_.given(v);
                if (!given.empty()) {
                    tree_.add(v, given, static_cast<index_t>(given.size()));
                    continue;
                }
            }
            if constexpr (shared) {
                if (v == nodes.front()) tree_.draw_shared(nodes, sampler_, rows_[r].row, rows_[r].sums, source);
            } else if constexpr (!shape_depends_on_draws) {
                tree_.draw(v, sampler_, rows_[r].row, rows_[r].sums, source);
            } else {
                index_t const n = shape_.children(g, *model_, rows_, r, v, token_of(v), w, sampler_);
                shape_.drawn(v, tree_.draw(v, n, sampler_, rows_[r].row, rows_[r].sums, source));
            }
        }
    }

    Model* model_;
    Shape shape_;
    [[no_unique_address]] Sampler sampler_;
    block_rows<Model> rows_;
    draft::tree_growth<Law, shape_depends_on> tree_;
    std::vector<index_t> row_of_node_;
    mask_view mask_;
};

}  // namespace MULTIDRAFT_NAMESPACE
