// The drafter of stochastic beams: on every level a number of sequences drawn without replacement.
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
#include "multidraft/decode/beam_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How many nodes each level of a shape has, the root's level excluded: beam widths with the same number of nodes.
[[nodiscard]] inline std::vector<std::int32_t> level_widths(topology const& shape) {
    std::vector<std::int32_t> widths;
    for (std::int32_t d = 1; d <= shape.max_depth(); ++d) widths.push_back(shape.level(d).count);
    return widths;
}

/// Drafts by stochastic beam search (RSD-S, Algorithms 7 to 9): level l holds the `widths[l]` sequences of length l + 1
/// that come first in a draw without replacement. A sequence without a continuation on the beam ends in a leaf.
///
/// Law: `sequential`; the number of a node's children is a stopping rule (see `draft::stochastic_beam_level`). Verify
/// with `verify::recursive_rejection<law::sequential>`.
template <language_model Draft>
class stochastic_beam_drafter : public beam_drafter<Draft, law::sequential> {
    using base = beam_drafter<Draft, law::sequential>;

public:
    static constexpr bool shape_depends_on_draws = true;

    /// Throws `invalid_input` for a level without a sequence, or with more than 2^12, and for more than 2^16 nodes.
    stochastic_beam_drafter(Draft& draft, std::vector<std::int32_t> widths) : base(draft), widths_(std::move(widths)) {
        for (std::size_t l = 0; l < widths_.size(); ++l) {
            if (widths_[l] < 1 || widths_[l] > 1 << 12)
                refuse("widths", static_cast<std::int64_t>(l), widths_[l], "a level has 1 to 2^12 sequences");
            nodes_ += widths_[l];
            this->check_read("widths.size", static_cast<std::int64_t>(widths_.size()), nodes_);
        }
    }

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(static_cast<std::int32_t>(widths_.size()), this->model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        this->start(text, nodes_ + 1);
        this->grow_beams(
            g, text, depth, w, m, [&](std::int32_t d) { return widths_[static_cast<std::size_t>(d)]; },
            [&](beam_level const& b, auto const& row_of, auto const& sums_of, auto const& site_of) {
                return draft::stochastic_beam_level(g, b.beams, row_of, sums_of, site_of, source, b.numbers, b.taken,
                                                    b.counts, b.steps);
            });
        this->finish(m);
    }

private:
    std::vector<std::int32_t> widths_;
    node_id nodes_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE
