#include "transformer/batched_calls.hpp"

#include <cstddef>
#include <string>

#include "multidraft/base/error.hpp"
#include "multidraft/decode/batched_language_model.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace

void check_step(call_limits const& limits, step_inputs const& in, std::span<std::int32_t const> sequence_of,
                std::int32_t sequences, std::size_t logits) {
    if (logits != in.scored.size() * at(limits.vocabulary))
        refuse("logits.size", logits, "there is a row for each scored input");
    for (std::size_t k = 0; k < in.size(); ++k) {
        std::int32_t const b = in.requests[k];
        if (b < 0 || at(b) >= sequence_of.size())
            refuse("in.requests", static_cast<std::int64_t>(k), b, "no such request");
        std::int32_t const s = sequence_of[at(b)];
        if (s < 0 || s >= sequences) refuse("sequence_of", b, s, "no such sequence");
        if (in.tokens[k] < 0 || in.tokens[k] >= limits.vocabulary)
            throw failed_request(b, "token " + std::to_string(in.tokens[k]) + " is not in [0, " +
                                        std::to_string(limits.vocabulary) + ")");
        if (in.positions[k] < 0 || in.positions[k] >= limits.context_limit)
            throw failed_request(b, "position " + std::to_string(in.positions[k]) + " is beyond the context of " +
                                        std::to_string(limits.context_limit) + " tokens");
        if (in.entries[k] < 0 || in.entries[k] >= limits.capacity)
            throw failed_request(
                b, "the tree takes more than the " + std::to_string(limits.capacity) + " entries of a cache");
    }
}

void check_kept_of(std::int32_t sequence, std::int32_t sequences, std::int32_t capacity, std::int32_t context,
                   std::span<std::int32_t const> entries) {
    if (sequence < 0 || sequence >= sequences) refuse("sequence", sequence, "there are " + std::to_string(sequences));
    if (context < 0 || context > capacity)
        refuse("context", context, "a cache has " + std::to_string(capacity) + " entries");
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const number = static_cast<std::int64_t>(k);
        if (entries[k] < 0 || entries[k] >= capacity - context)
            refuse("entries", number, entries[k], "must be in [0, " + std::to_string(capacity - context) + ")");
        if (k > 0 && entries[k] <= entries[k - 1])
            refuse("entries", number, entries[k], "must be larger than the one before");
    }
}

void add_attended(step_inputs const& in, std::size_t k, std::vector<std::int32_t>& path, attended_entries& attended) {
    path.clear();
    for (auto row = in.first_row + static_cast<std::int64_t>(k); row != none; row = in.parent_rows[at(row)])
        path.push_back(in.entry_of_row[at(row)]);
    attended.add(0, in.first_entries[at(in.requests[k])]);
    for (std::size_t j = path.size(); j-- > 0;) attended.add(path[j], 1);
    attended.end_row();
}

}  // namespace multidraft::examples
