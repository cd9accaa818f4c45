// N-gram look-up: earlier continuations of the tokens that the text now ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/law/law.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// Candidates without a draft model: what followed an earlier occurrence of the last n tokens (prompt look-up; [LLMA]
/// copies from references in this way).
///
/// Law: `deterministic`. Longer matches come first, among equally long ones the latest.
struct ngram_lookup {
    using law = multidraft::law::deterministic;

    std::int32_t longest = 4;   ///< tokens of the longest match looked for
    std::int32_t shortest = 1;  ///< and of the shortest that counts, at least 1

    /// Throws `invalid_input` for invalid lengths.
    void validate() const {
        if (shortest < 1) refuse("shortest", shortest, "a match has one token or more");
        if (longest < shortest) refuse("longest", longest, "the longest match is no shorter than the shortest");
    }

    /// Calls `found(start, n)` for every index in `text` where a match of n tokens ends, n <= longest, best first,
    /// until it returns false: the continuation is `text[start ..]`, 0 < start < text.size(). O(text (longest -
    /// shortest + 1)).
    template <class Found>
    void operator()(span<token_id const> text, Found&& found) const {
        auto const size = static_cast<std::int32_t>(text.size());
        for (std::int32_t n = std::min(longest, size - 1); n >= shortest; --n) {
            for (std::int32_t start = size - 1; start >= n; --start) {
                if (!ends_alike(text, start, n)) continue;
                // A match of more tokens, which was reported already.
                if (n < longest && start > n && ends_alike(text, start, n + 1)) continue;
                if (!found(start, n)) return;
            }
        }
    }

private:
    /// Whether the n tokens before `start` are the last n of the text.
    static bool ends_alike(span<token_id const> text, std::int32_t start, std::int32_t n) {
        auto const size = static_cast<std::int32_t>(text.size());
        for (std::int32_t k = 1; k <= n; ++k)
            if (text[start - k] != text[size - k]) return false;
        return true;
    }
};

/// Token `k` of a continuation that begins at `start`. Past the end of the text it reads its own copy, so that a
/// repetition continues.
[[nodiscard]] inline token_id continuation_token(span<token_id const> text, std::int32_t start, std::int32_t k) {
    auto const period = static_cast<std::int32_t>(text.size()) - start;
    return text[start + k % period];
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
