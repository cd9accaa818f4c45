// Feeding a model: plain text into its cache, and the type of its logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Forwards `text[model.length() ..]`, so that the cache holds all of `text`, and writes the last row of logits unless
/// the span is empty.
///
/// Does nothing when nothing is missing. `positions` is scratch.
template <language_model M>
void catch_up(M& model, std::span<token_id const> text, std::vector<std::int32_t>& positions,
              std::span<logit_of<M>> logits) {
    auto const known = static_cast<std::int32_t>(model.length());
    auto const missing = text.subspan(static_cast<std::size_t>(known));
    if (missing.empty()) return;
    positions.resize(missing.size());
    std::iota(positions.begin(), positions.end(), known);
    model.forward(token_batch{missing, positions, known, {}}, logits);
}

}  // namespace MULTIDRAFT_NAMESPACE
