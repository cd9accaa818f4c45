// Growing a draft tree: the draft model reads it level by level, and a sampler draws the children of each node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/draft/draw_children.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A tree of candidates with its tokens, mask, positions and draft rows.
///
/// The shape is an upper bound: where the draft's support is smaller a node gets fewer children, and the subtrees of
/// the missing children are absent. `StopRule` may end the tree before its full depth. Memory is kept from one step to
/// the next.
template <class Logit, sampler Sampler, stop_rule StopRule = never_stop>
class draft_tree {
public:
    using law = typename Sampler::law;
    using view = row_view<Logit>;

    /// A root alone, to be grown by this sampler and ended by this rule.
    explicit draft_tree(Sampler sampler = {}, StopRule rule = {}) : sampler_(sampler), rule_(std::move(rule)) {}

    /// Grows a tree below the last token of `text`, at most `depth` levels of `shape` deep.
    ///
    /// The draft model first reads what it has not yet read of the text; afterwards its cache holds all of the text and
    /// the nodes that have been expanded, `expanded()` of them, in order. With depth 0 the tree is its root and the
    /// model is not called.
    template <group G, language_model Draft, draw_source Source>
    void grow(G const& g, Draft& draft, std::span<token_id const> text, topology const& shape, std::int32_t depth,
              sampling_params const& w, Source& source, generation_metrics& m) {
        static_assert(!StopRule::reads_hidden_state || reveals_hidden_state<Draft>,
                      "multidraft: the stop rule reads the draft's hidden states and this model does not show them "
                      "(hidden_size, hidden_states)");
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        start(text.back(), position, shape);
        vocabulary_ = draft.vocabulary();
        node_id begin = 0;
        for (std::int32_t level = 0; level < depth; ++level) {
            node_id const end = size();
            if (!has_children(begin, end, shape)) break;
            {
                make_room(end);
                detail::stopwatch const time(m.time.draft);
                read_level(draft, text, begin, position);
                ++m.draft_calls;
            }
            if constexpr (stops_early) {
                detail::stopwatch const time(m.time.sample);
                if (stops(g, draft, begin, end, shape, w)) {
                    rows_.resize(at(end));  // the nodes were read and have no children
                    break;
                }
            }
            {
                detail::stopwatch const time(m.time.sample);
                for (node_id v = begin; v < end; ++v) draw_children(g, v, shape, w, source);
            }
            {
                detail::stopwatch const time(m.time.mask);
                extend_mask(end, shape);
            }
            begin = end;
        }
        m.drafted += size() - 1;
    }

    [[nodiscard]] node_id size() const noexcept { return tree_.size(); }
    /// How many nodes the draft model has read: the first ones.
    [[nodiscard]] node_id expanded() const noexcept { return static_cast<node_id>(rows_.size()); }
    [[nodiscard]] drafted<law> tree() const noexcept {
        return make_drafted<law>(tree_.added().tree(), tree_.added().certain);
    }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.added().tokens; }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.added().positions; }
    [[nodiscard]] mask_view mask() const {
        return sliced_ ? sliced(full_.mask.view(), full_.mask.size(), size()) : tree_.mask();
    }
    [[nodiscard]] prepared_rows<softmax_row<view>> rows() const noexcept { return {rows_, vocabulary_}; }

private:
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    void start(token_id root, std::int32_t position, topology const& shape) {
        tree_.start(root, position);
        rows_.clear();
        if constexpr (stops_early) {
            if (full_.shape != shape) full_ = {shape, ancestor_mask(shape.parents())};
            sliced_ = true;
        } else {
            tree_.extend_mask(shape.size());
        }
    }

    /// The mask of the nodes from `end` on. If every child of the shape was drawn it is a slice of the shape's mask;
    /// otherwise the tree has its own mask.
    void extend_mask(node_id end, topology const& shape) {
        if constexpr (stops_early) {
            for (node_id v = end; v < size(); ++v) sliced_ = sliced_ && like(v) == v;
            if (sliced_) return;
        }
        tree_.extend_mask(shape.size());
    }

    /// The node of the shape that a node corresponds to.
    [[nodiscard]] node_id like(node_id v) const noexcept { return tree_.added().shape_nodes[at(v)]; }

    /// Whether a node of a level has children in the shape.
    [[nodiscard]] bool has_children(node_id begin, node_id end, topology const& shape) const {
        for (node_id v = begin; v < end; ++v)
            if (shape.child_count(like(v)) > 0) return true;
        return false;
    }

    /// The draft reads the last level, which begins at `begin`; with the root it reads the part of the text that its
    /// cache lacks.
    template <language_model Draft>
    void read_level(Draft& draft, std::span<token_id const> text, node_id begin, std::int32_t position) {
        std::span<Logit> const logits(logits_.data() + static_cast<std::ptrdiff_t>(at(begin) * at(vocabulary_)),
                                      at(size() - begin) * at(vocabulary_));
        if (begin == 0)
            catch_up(draft, text, scratch_, logits);
        else
            draft.forward(token_batch{tokens().subspan(at(begin)), positions().subspan(at(begin)), position,
                                      mask().from_row(begin)},
                          logits);
    }

    /// Whether the stop rule is met at every node of a level.
    template <group G, language_model Draft>
    bool stops(G const& g, Draft const& draft, node_id begin, node_id end, topology const& shape,
               sampling_params const& w) {
        for (node_id v = begin; v < end; ++v) {
            if (shape.child_count(like(v)) == 0) continue;
            std::span<float const> hidden;
            if constexpr (StopRule::reads_hidden_state) {
                auto const width = static_cast<std::size_t>(draft.hidden_size());
                hidden = draft.hidden_states().subspan(at(v - begin) * width, width);
            }
            if (!(rule_(g, process_logits(g, row(v), w, "draft logits").row, hidden) < rule_.threshold())) return false;
        }
        return true;
    }

    /// Grows the buffer of logits to all nodes so far, and redirects the existing rows to the new memory.
    void make_room(node_id nodes) {
        std::size_t const wanted = at(nodes) * at(vocabulary_);
        if (wanted <= logits_.size()) return;
        Logit const* const old = logits_.data();
        logits_.resize(wanted);
        if (logits_.data() != old)
            for (std::size_t v = 0; v < rows_.size(); ++v) rows_[v].move_to(row(static_cast<node_id>(v)));
    }

    [[nodiscard]] view row(node_id v) const noexcept {
        return {logits_.data() + static_cast<std::ptrdiff_t>(at(v) * at(vocabulary_)), vocabulary_};
    }

    template <group G, draw_source Source>
    void draw_children(G const& g, node_id v, topology const& shape, sampling_params const& w, Source& source) {
        auto const wanted = shape.child_count(like(v));
        if (wanted == 0) {
            rows_.emplace_back();
            return;
        }
        auto q = process_logits(g, row(v), w, "draft logits");
        rows_.push_back(q.row);
        drawn_children const drawn =
            draft::draw_children(g, tree_, v, wanted, sampler_, q.row, q.sums, source, children_);
        tree_.add(v, children_, drawn.certain, &shape);
    }

    /// The mask of a whole shape, made once: the masks of trees that stop early are slices of it.
    struct shape_mask {
        topology shape;
        ancestor_mask mask{shape.parents()};
    };

    static constexpr bool stops_early = !std::is_same_v<StopRule, never_stop>;

    [[no_unique_address]] Sampler sampler_;
    [[no_unique_address]] StopRule rule_;
    std::int32_t vocabulary_ = 0;
    tree_builder tree_;  ///< in level order as its nodes are added
    std::vector<token_id> children_;
    std::vector<std::int32_t> scratch_;
    std::vector<Logit> logits_;
    std::vector<softmax_row<view>> rows_;
    shape_mask full_;
    bool sliced_ = false;  ///< whether the tree's mask is the upper left corner of that
};

}  // namespace MULTIDRAFT_NAMESPACE
