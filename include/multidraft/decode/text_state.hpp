// The text of one generation as it grows, and when it ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Where a text ends.
struct text_limits {
    std::int32_t max_tokens = std::numeric_limits<std::int32_t>::max();  ///< how many more may be emitted, >= 0
    span<token_id const> stop_tokens{};  ///< the text ends with the first of these, which is included
};

namespace detail {

/// How many tokens of a step are emitted, and why the text ends with them; no reason while it continues.
struct text_cut {
    std::size_t count = 0;
    std::optional<stop_reason> reason;
};

/// All tokens of a step, or those up to the first stop token or the limit; if both are reached the reason is the stop
/// token. O(tokens * stop tokens).
[[nodiscard]] inline text_cut cut_at_limits(span<token_id const> tokens, text_limits const& limits) {
    auto const room = static_cast<std::size_t>(limits.max_tokens);
    std::size_t const count = std::min(tokens.size(), room);
    for (std::size_t k = 0; k < count; ++k)
        if (std::find(limits.stop_tokens.begin(), limits.stop_tokens.end(), tokens[k]) != limits.stop_tokens.end())
            return {k + 1, stop_reason::stop_token};
    if (count == room) return {count, stop_reason::max_tokens};
    return {count, std::nullopt};
}

}  // namespace detail

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
