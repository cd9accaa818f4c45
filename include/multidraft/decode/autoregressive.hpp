// The autoregressive loop: one target call a token. What every lossless method is measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/catch_up.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Generates text from the target alone, drawing from `source`.
///
/// The cache is reset first and holds the text up to its last token but one afterwards. `on_tokens` may be empty.
template <language_model Target, draw_source Source>
generation autoregressive(Target& target, std::span<token_id const> prompt, generation_options const& options,
                          Source& source, token_callback const& on_tokens = {}) {
    using logit = logit_of<Target>;
    std::int32_t const vocabulary = target.vocabulary();
    validate(options, prompt, vocabulary, target.context_limit());
    generation result;
    generation_metrics& m = result.metrics;
    text_state state(prompt, options, on_tokens, target.context_limit());
    {
        detail::stopwatch const whole(m.seconds);
        host_group const g;
        std::vector<std::int32_t> positions;
        std::vector<logit> room;
        target.keep(0, {});
        if (!state.ended()) {
            detail::stopwatch const time(m.prompt_seconds);
            catch_up(target, state.text().first(prompt.size() - 1), positions, {});
        }
        while (!state.ended()) {
            std::span<logit const> logits;
            {
                detail::stopwatch const time(m.target_seconds);
                std::int32_t const last = state.length() - 1;  // what the cache lacks
                logits =
                    detail::logits_of_call(target, token_batch{state.text().last(1), {&last, 1}, last, {}}, 1, room);
                ++m.target_calls;
            }
            token_id next = none;
            {
                detail::stopwatch const time(m.verify_seconds);
                auto const p =
                    process_logits(g, row_view<logit>(logits.data(), vocabulary), options.sampling, "target logits");
                draw_site const site{state.length() - 1, 0};
                next = source.categorical(g, p.sums, vocabulary, weight_of{p.row}, {}, site(purpose::target, 0));
            }
            m.tokens += state.emit({&next, 1});
        }
    }
    result.tokens = state.emitted();
    result.why = state.why();
    return result;
}

/// The same with the draws of `options.seed` and `options.request`.
template <language_model Target>
generation autoregressive(Target& target, std::span<token_id const> prompt, generation_options const& options,
                          token_callback const& on_tokens = {}) {
    addressed_source source{addressed_uniforms(options.seed, options.request)};
    return autoregressive(target, prompt, options, source, on_tokens);
}

}  // namespace MULTIDRAFT_NAMESPACE
