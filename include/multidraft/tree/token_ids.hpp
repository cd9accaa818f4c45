// Token ids of 64 bits, as PyTorch has them, as the tokens of a tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Writes ids of 64 bits as tokens: `out[i]` is `ids[i]`, and -1, which pads trees, is `none`. O(ids).
///
/// Throws `invalid_input`, with nothing written, for an id outside [-1, vocabulary) and for an `out` of another size.
inline void narrow_tokens(span<std::int64_t const> ids, index_t vocabulary, span<token_id> out) {
    if (out.size() != ids.size()) refuse("out.size", out.size(), "there is one token for each id");
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < -1 || ids[i] >= vocabulary)
            refuse("ids", static_cast<std::int64_t>(i), ids[i],
                   "a token is in the vocabulary, or -1 where there is none");
    for (std::size_t i = 0; i < ids.size(); ++i) out[i] = ids[i] < 0 ? none : static_cast<token_id>(ids[i]);
}

/// Writes tokens as ids of 64 bits; `none` is -1. Throws `invalid_input` for an `out` of another size.
inline void widen_tokens(span<token_id const> tokens, span<std::int64_t> out) {
    if (out.size() != tokens.size()) refuse("out.size", out.size(), "there is one id for each token");
    for (std::size_t i = 0; i < tokens.size(); ++i) out[i] = tokens[i] == none ? -1 : tokens[i];
}

}  // namespace MULTIDRAFT_NAMESPACE
