// What every model of the example refuses in a call of `language_model`, before anything is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace multidraft::examples {

/// The sizes of a model and its cache.
struct call_limits {
    std::int32_t vocabulary;
    std::int32_t context_limit;  ///< positions
    std::int32_t capacity;       ///< entries of the cache
};

/// Throws `invalid_input` for a batch, or a number of logits, that is invalid for a cache of that length.
void check_batch(call_limits const& limits, token_batch const& batch, std::size_t logits, std::int32_t length);

/// Throws `invalid_input` for entries that a cache of that length cannot keep.
void check_kept(std::int32_t context, std::span<std::int32_t const> entries, std::int32_t length);

}  // namespace multidraft::examples
