// The base of all generation loops: checks, caches, the prompt, steps until the text ends, the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/detail/set_while.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The base of a generation loop `Self`, which defines a step:
///
/// - `target_model()`: the target.
/// - `reset()`: empties the caches of its models.
/// - `read_prompt(text, options)`: the models read what they need before the first step. `text` is the prompt.
/// - `step(state, options, source, metrics)`: emits one or more tokens with `state.emit`, and updates counts and times
///   except for the number of tokens.
///
/// They may be private if the base is a friend.
template <class Self>
class generation_loop {
public:
    /// Generates, drawing from `source`. Caches are emptied first; `on_tokens` may be empty. Throws `invalid_input`,
    /// with nothing changed, for a prompt or options that cannot be used (`validate`), and within a callback of its
    /// own.
    template <draw_source Source>
    generation operator()(std::span<token_id const> prompt, generation_options const& options, Source& source,
                          token_callback const& on_tokens = {}) {
        if (runs_) refuse("loop", "out of turn", "it generates a text: a callback of it runs no other one");
        Self& self = static_cast<Self&>(*this);
        auto& target = self.target_model();
        validate(options, prompt, target.vocabulary(), target.context_limit());
        detail::set_while const running(runs_);
        generation result;
        generation_metrics& m = result.metrics;
        text_state state(prompt, options, on_tokens, target.context_limit());
        {
            detail::stopwatch const whole(m.seconds);
            self.reset();
            if (!state.ended()) {
                detail::stopwatch const time(m.time.prompt);
                self.read_prompt(state.text(), options);
            }
            while (!state.ended()) self.step(state, options, source, m);
        }
        result.tokens = state.emitted();
        result.reason = state.reason();
        m.tokens = static_cast<std::int64_t>(result.tokens.size());
        return result;
    }

    /// Generates with the draws of `options.seed` and `options.request`.
    generation operator()(std::span<token_id const> prompt, generation_options const& options,
                          token_callback const& on_tokens = {}) {
        addressed_source source{addressed_uniforms(options.seed, options.request)};
        return (*this)(prompt, options, source, on_tokens);
    }

private:
    bool runs_ = false;
};

}  // namespace MULTIDRAFT_NAMESPACE
