// The text of one generation as it grows, and when it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_limits.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What a decoding loop returns.
struct generation {
    std::vector<token_id> tokens;  ///< emitted, without the prompt
    stop_reason reason = stop_reason::max_tokens;
    multidraft::generation_metrics metrics;
};

/// The prompt and the emitted tokens; applies the limits that every loop shares.
class text_state {
public:
    /// A text that begins with the prompt and ends by the options, or when the context of `context_limit` tokens is
    /// full.
    text_state(std::span<token_id const> prompt, generation_options const& options, token_callback const& callback,
               std::int32_t context_limit)
        : text_(prompt.begin(), prompt.end()),
          options_(options),
          callback_(callback),
          prompt_(prompt.size()),
          context_limit_(context_limit) {
        ended_ = options.max_tokens == 0;
    }

    /// Whether no token may be emitted any more.
    [[nodiscard]] bool ended() const noexcept { return ended_; }
    /// Why it ended; meaningful once it has.
    [[nodiscard]] stop_reason reason() const noexcept { return reason_; }
    /// All tokens, the prompt first. The last one is the root of the next tree.
    [[nodiscard]] std::span<token_id const> text() const noexcept { return text_; }
    /// Tokens of prompt and text together.
    [[nodiscard]] std::int32_t length() const noexcept { return static_cast<std::int32_t>(text_.size()); }
    /// How many more tokens may be emitted.
    [[nodiscard]] std::int32_t left() const noexcept {
        return options_.max_tokens - static_cast<std::int32_t>(text_.size() - prompt_);
    }

    /// Emits the tokens of a step: all of them, or up to the limit or the first stop token. Returns how many.
    std::int32_t emit(std::span<token_id const> tokens) {
        detail::text_cut const cut = detail::cut_at_limits(tokens, {left(), options_.stop_tokens});
        text_.insert(text_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(cut.count));
        if (cut.reason)
            end(*cut.reason);
        else if (length() > context_limit_)
            end(stop_reason::context_limit);
        if (callback_ && cut.count > 0 && !callback_(tokens.first(cut.count)) && !ended_) end(stop_reason::callback);
        return static_cast<std::int32_t>(cut.count);
    }

    /// The tokens after the prompt.
    [[nodiscard]] std::vector<token_id> emitted() const {
        return {text_.begin() + static_cast<std::ptrdiff_t>(prompt_), text_.end()};
    }

private:
    void end(stop_reason reason) {
        ended_ = true;
        reason_ = reason;
    }

    std::vector<token_id> text_;
    generation_options const& options_;
    token_callback const& callback_;
    std::size_t prompt_;
    std::int32_t context_limit_;
    bool ended_ = false;
    stop_reason reason_ = stop_reason::max_tokens;
};

}  // namespace MULTIDRAFT_NAMESPACE
