// Multi-token joint decoding, approximated by beams of the target: the reference for the quality of MTAD. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/beam_sampling.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Emits `length` tokens per step, the likeliest of `width` sequences drawn from the target's joint distribution of
/// that many tokens by beam sampling ([MTAD] 3.1, with the approximation of that section).
///
/// By design not the target's distribution: it is biased towards texts of high joint likelihood, so its perplexity
/// under the target is lower than that of sampling. `length` target calls per step over `width` sequences: a baseline
/// of quality, not of speed. Width 1 or length 1 with width 1 is plain sampling of the target.
template <language_model Target>
class joint_decoding : public generation_loop<joint_decoding<Target>> {
public:
    static constexpr bool lossless = false;

    /// Throws `invalid_input` for numbers below 1.
    joint_decoding(Target& target, std::int32_t width, std::int32_t length)
        : target_(target), beams_(target, width, length) {}

private:
    friend class generation_loop<joint_decoding>;

    Target& target_model() noexcept { return target_; }
    void reset() { beams_.reset(); }
    void read_prompt(std::span<token_id const> text, generation_options const&) {
        beams_.read(text.first(text.size() - 1));
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        host_group const g;
        std::int32_t const length = state.length();
        generation_metrics calls;
        beams_.grow(g, state.text(), std::max(1, std::min(state.left(), beams_.depth_limit(length))), options.sampling,
                    source, calls);
        m.target_calls += calls.draft_calls;  // the target is the drafter here
        m.time.target += calls.time.draft;
        m.time.sample += calls.time.sample;
        m.time.mask += calls.time.mask;
        std::int32_t const count = state.emit(beams_.tokens().subspan(1));
        multidraft::detail::stopwatch const time(m.time.cache);
        nodes_.resize(static_cast<std::size_t>(count));
        std::iota(nodes_.begin(), nodes_.end(), 0);  // the last token emitted is read next time
        beams_.keep(length - 1, nodes_);
    }

    Target& target_;
    beam_sampling_drafter<Target> beams_;
    std::vector<node_id> nodes_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
