// A request of a loop over many: while it waits or is in flight, and when it has ended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/detail/set_while.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A request that has ended.
struct finished_request {
    std::int64_t ticket = 0;
    generation result;  ///< the tokens up to the end, also where there was an error
    /// Why it could not go on; empty for a text that ended by its options.
    std::string error;
};

namespace detail {

/// A request that waits or is in flight.
struct batched_request {
    batched_request(std::int64_t of_ticket, std::span<token_id const> prompt, generation_options of,
                    token_callback callback, std::int32_t context_limit)
        : ticket(of_ticket),
          options(std::move(of)),
          on_tokens(std::move(callback)),
          text(prompt, options, on_tokens, context_limit) {}

    std::int64_t ticket;
    generation_options options;
    token_callback on_tokens;
    text_state text;
    generation_metrics metrics{};
    std::int32_t sequence = none;
    std::int32_t number = none;           ///< by which the chooser knows it
    index_t in_target = 0, in_draft = 0;  ///< tokens of the text in the caches
    bool cancelled = false;
};

/// All requests of a loop, and the sequences that are free.
struct request_queues {
    using queue = std::deque<std::unique_ptr<batched_request>>;

    /// The request that has not ended and has the seed and the number of these options; null: there is none.
    [[nodiscard]] batched_request const* with_draws_of(generation_options const& options) const noexcept {
        for (queue const* const of : {&waiting, &active})
            for (auto const& r : *of)
                if (r->options.seed == options.seed && r->options.request == options.request) return r.get();
        return nullptr;
    }

    /// Refuses a request for a loop that was moved from.
    void check_usable() const {
        if (free.empty() && active.empty()) refuse("submit", "out of turn", "the loop was moved from");
    }

    queue waiting, active;
    std::vector<std::int32_t> free;  ///< sequences
    std::vector<finished_request> finished;
    std::int64_t next_ticket = 0;
    bool in_step = false;  ///< when callbacks may be called (`set_while`)
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
