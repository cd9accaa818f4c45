// Token ids of 64 bits, as PyTorch has them, as the tokens of a tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/absent_tokens.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// An id as a token; `none` for one that is outside the range of tokens (and of tree/absent_tokens.hpp).
template <std::integral Id>
[[nodiscard]] MULTIDRAFT_HD constexpr token_id narrow_token(Id id) noexcept {
    return id >= Id{padding} && id <= Id{largest_number<token_id>} ? static_cast<token_id>(id) : none;
}

/// Writes ids of 64 bits as tokens: `out[i]` is `ids[i]`. Absent children (`none`, `support_ended`, `padding`) keep
/// their values. O(ids).
///
/// Throws `invalid_input`, with nothing written, for an id outside [-3, vocabulary) and for an `out` of another size.
inline void narrow_tokens(span<std::int64_t const> ids, index_t vocabulary, span<token_id> out) {
    if (out.size() != ids.size()) refuse("out.size", out.size(), "there is one token for each id");
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < padding || ids[i] >= vocabulary)
            refuse("ids", static_cast<std::int64_t>(i), ids[i],
                   "a token is in the vocabulary, or says why there is none (tree/absent_tokens.hpp)");
    for (std::size_t i = 0; i < ids.size(); ++i) out[i] = static_cast<token_id>(ids[i]);
}

/// Writes tokens as ids of 64 bits. Throws `invalid_input` for an `out` of another size.
inline void widen_tokens(span<token_id const> tokens, span<std::int64_t> out) {
    if (out.size() != tokens.size()) refuse("out.size", out.size(), "there is one id for each token");
    for (std::size_t i = 0; i < tokens.size(); ++i) out[i] = tokens[i];
}

}  // namespace MULTIDRAFT_NAMESPACE
