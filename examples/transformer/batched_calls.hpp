// What models of many sequences have in common: what they refuse in a call, and what a row of it attends to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "transformer/attended.hpp"
#include "transformer/call_checks.hpp"

namespace multidraft::examples {

/// Throws `failed_request` for an input that is beyond the limits, `invalid_input` for arguments that do not fit
/// together.
void check_step(call_limits const& limits, step_inputs const& in, std::span<std::int32_t const> sequence_of,
                std::int32_t sequences, std::size_t logits);

/// Throws `invalid_input` for entries that a cache of that capacity cannot keep.
void check_kept_of(std::int32_t sequence, std::int32_t sequences, std::int32_t capacity, std::int32_t context,
                   std::span<std::int32_t const> entries);

/// Adds a row: input k attends to the entries before the step, to its ancestors in the step and to itself. `path` is
/// memory.
void add_attended(step_inputs const& in, std::size_t k, std::vector<std::int32_t>& path, attended_entries& attended);

}  // namespace multidraft::examples
