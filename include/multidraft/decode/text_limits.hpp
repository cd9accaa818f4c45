// Where a text ends: the number of tokens, the stop tokens, and which of the two comes first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
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

}  // namespace MULTIDRAFT_NAMESPACE
