// The drafter of static trees: one draft model, one sampler, a fixed number of children for each node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/draft_model.hpp"
#include "multidraft/decode/draft_tree.hpp"
#include "multidraft/decode/drafter.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Draws the children of each node of `shape` with `Sampler` from one draft model (`draft_tree`); with a `StopRule`, as
/// many levels as the rule allows.
template <language_model Draft, sampler Sampler, class StopRule = never_stop>
class static_tree_drafter {
public:
    using law = typename Sampler::law;
    using logit = logit_of<Draft>;
    static constexpr bool shape_depends_on_draws = !std::is_same_v<StopRule, never_stop>;

    /// Trees of `shape`; `StopRule` may omit the last levels. The model belongs to the caller and must outlive the
    /// drafter.
    static_tree_drafter(Draft& draft, topology shape, Sampler sampler = {}, StopRule rule = {})
        : draft_(draft), shape_(std::move(shape)), tree_(sampler, std::move(rule)) {}

    void check(std::int32_t vocabulary) const { draft_.check(vocabulary); }
    /// Whether a model at that address is one of its own.
    [[nodiscard]] bool calls(void const* model) const noexcept { return draft_.is(model); }
    void reset() { draft_.reset(); }
    void read(std::span<token_id const> context) { draft_.read(context); }
    void observe(std::span<float const> features,
                 std::span<std::int32_t const> positions) requires observes_features<Draft> {
        draft_.observe(features, positions);
    }
    [[nodiscard]] std::int32_t feature_size() const requires observes_features<Draft> { return draft_.feature_size(); }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(shape_.max_depth(), room(length));
    }

    template <group G, draw_source Source>
    void grow(G const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w, Source& source,
              generation_metrics& m) {
        tree_.grow(g, draft_.model(), text, shape_, depth, w, source, m);
    }

    [[nodiscard]] node_id size() const noexcept { return tree_.size(); }
    [[nodiscard]] drafted<law> tree() const noexcept { return tree_.tree(); }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.tokens(); }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.positions(); }
    [[nodiscard]] mask_view mask() const noexcept { return tree_.mask(); }
    [[nodiscard]] auto rows() const noexcept { return tree_.rows(); }

    void keep(std::int32_t context, std::span<node_id const> nodes) {
        if (tree_.expanded() == 0) return;  // the model was not called
        while (!nodes.empty() && nodes.back() >= tree_.expanded()) nodes = nodes.first(nodes.size() - 1);
        draft_.model().keep(context, nodes);
    }

protected:
    /// Sets the shape of the following steps' trees.
    void use(topology const& shape) {
        if (!(shape_ == shape)) shape_ = shape;
    }
    /// The deepest tree below a text of that many tokens, whatever its shape.
    [[nodiscard]] std::int32_t room(std::int32_t length) const noexcept { return draft_.depth_limit(length); }
    /// Tokens of a text that the model has not read.
    [[nodiscard]] std::int32_t unread(std::span<token_id const> text) const {
        return static_cast<std::int32_t>(text.size()) - static_cast<std::int32_t>(draft_.model().length());
    }

private:
    draft_model<Draft> draft_;
    topology shape_;
    draft_tree<logit, Sampler, StopRule> tree_;
};

}  // namespace MULTIDRAFT_NAMESPACE
