// Multi-token joint decoding, approximated by beams of the target: the quality that MTAD approaches. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/catch_up.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/lossy/beam_sampling_drafter.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// Emits `length` tokens a step, the likeliest of `width` sequences drawn from the target's joint distribution of that
/// many tokens by beam sampling ([MTAD] 3.1, with the approximation that its section 3.1 uses itself).
///
/// Not the target's distribution, and not meant to be: it leans to texts of high joint likelihood, so its perplexity
/// under the target is lower than that of sampling. `length` target calls a step over `width` sequences: a baseline of
/// quality, not of speed. Width 1 or length 1 with width 1 is plain sampling of the target.
template <language_model Target>
class joint_decoding {
public:
    static constexpr bool lossless = false;

    /// Throws `invalid_input` for numbers below 1.
    joint_decoding(Target& target, std::int32_t width, std::int32_t length)
        : target_(target), beams_(target, width, length) {}

    /// Generates, drawing from `source`. The cache is reset first; `on_tokens` may be empty.
    template <draw_source Source>
    generation operator()(std::span<token_id const> prompt, generation_options const& options, Source& source,
                          token_callback const& on_tokens = {}) {
        validate(options, prompt, target_.vocabulary(), target_.context_limit());
        generation result;
        generation_metrics& m = result.metrics;
        text_state state(prompt, options, on_tokens, target_.context_limit());
        {
            multidraft::detail::stopwatch const whole(m.seconds);
            host_group const g;
            beams_.reset();
            if (!state.ended()) {
                multidraft::detail::stopwatch const time(m.prompt_seconds);
                beams_.read(state.text().first(prompt.size() - 1));
            }
            while (!state.ended()) {
                std::int32_t const length = state.length();
                generation_metrics calls;
                beams_.grow(g, state.text(), std::max(1, std::min(state.left(), beams_.depth_limit(length))),
                            options.sampling, source, calls);
                m.target_calls += calls.draft_calls;  // the target is the drafter here
                m.target_seconds += calls.draft_seconds;
                m.sample_seconds += calls.sample_seconds;
                m.mask_seconds += calls.mask_seconds;
                auto const chain = beams_.tokens().subspan(1);
                std::int32_t const count = state.emit(chain);
                m.tokens += count;
                multidraft::detail::stopwatch const time(m.cache_seconds);
                nodes_.clear();
                for (node_id v = 0; v < count; ++v) nodes_.push_back(v);  // the last token emitted is read next time
                beams_.keep(length - 1, nodes_);
            }
        }
        result.tokens = state.emitted();
        result.why = state.why();
        return result;
    }

    /// Generates with the draws of `options.seed` and `options.request`.
    generation operator()(std::span<token_id const> prompt, generation_options const& options,
                          token_callback const& on_tokens = {}) {
        addressed_source source{addressed_uniforms(options.seed, options.request)};
        return (*this)(prompt, options, source, on_tokens);
    }

private:
    Target& target_;
    beam_sampling_drafter<Target> beams_;
    std::vector<node_id> nodes_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
