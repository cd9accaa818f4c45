// The options of a generation, and what an observer of its steps sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One step after its verification, before its tokens are emitted. Its views are valid during the call only.
struct step_view {
    std::span<token_id const> text;  ///< before the step; its last token is the root
    tree_view tree;                  ///< parents and tokens of all nodes, the root first
    std::span<node_id const> path;   ///< accepted nodes in order, the root excluded
    token_id next = none;            ///< what is emitted after them
    /// For each node the probability of its token in its parent's row, under the target (p) and the draft (q), both
    /// processed; 1 at the root. `q` is empty where the drafter has no rows, such as a look-up.
    std::span<double const> p;
    std::span<double const> q;
};

/// Called once a step (see `generation_options::observer`); it must not change the state of the loop.
using step_observer = std::function<void(step_view const&)>;

namespace detail {

/// The probability of every node's token in the row of its parent; empty where `rows` does not have these rows.
template <class Rows>
void node_probabilities(host_group const& g, tree_view tree, Rows const& rows, std::vector<double>& into) {
    into.clear();
    if constexpr (row_source<Rows, host_group>) {
        into.push_back(1.0);
        auto const nodes = static_cast<std::size_t>(tree.size());
        for (std::size_t v = 1; v < nodes; ++v) {
            node_id const parent = tree.parents[v];
            if constexpr (child_row_source<Rows, host_group>) {
                index_t const child = static_cast<node_id>(v) - tree.children(parent).first;
                into.push_back(static_cast<double>(rows(g, parent, child)(tree.tokens[v])));
            } else {
                into.push_back(static_cast<double>(rows(g, parent)(tree.tokens[v])));
            }
        }
    }
}

}  // namespace detail

/// How much to generate, from which distribution, with which seed.
struct generation_options {
    std::int32_t max_tokens = 128;         ///< emit at most that many tokens, >= 0
    std::vector<token_id> stop_tokens;     ///< generation ends with the first of these, which is emitted too
    multidraft::sampling_params sampling;  ///< of the target's distribution
    /// Of the draft's distribution; the target's when absent. Candidates may be drawn from any distribution without
    /// changing the law of the text. At temperature 0 a higher draft temperature offers several candidates instead of
    /// the draft's argmax alone.
    std::optional<multidraft::sampling_params> draft_sampling;
    std::uint64_t seed = 0;     ///< equal seeds give equal tokens, whatever else runs
    std::uint32_t request = 0;  ///< distinguishes requests with the same seed
    /// Called after each verification of the speculative loop with its tree, for visualisation and analysis. Free when
    /// empty; otherwise it costs a pass over every inner row.
    step_observer observer{};
};

/// How the requests of a batch are run (`continuous_batching`).
struct batching_options {
    /// Tokens of prompts that a step reads at most, of all requests together, >= 1. A longer prompt is read in pieces,
    /// so that it does not hold up the requests that are decoded.
    std::int32_t prompt_tokens = 256;
};

/// Called with the tokens of each step as they are emitted; returning false ends the generation.
using token_callback = std::function<bool(std::span<token_id const>)>;

/// Why a generation ended.
enum class stop_reason { max_tokens, stop_token, context_limit, callback };

/// Throws `invalid_input` for a prompt or options that cannot be used with a vocabulary of V tokens.
inline void validate(generation_options const& options, std::span<token_id const> prompt, std::int32_t vocabulary,
                     std::int32_t context_limit) {
    validate(options.sampling);
    if (options.draft_sampling) detail::validate_member("draft_sampling", *options.draft_sampling);
    if (options.max_tokens < 0) refuse("max_tokens", options.max_tokens, "the number of tokens is 0 or larger");
    if (prompt.empty())
        refuse("prompt.size", 0, "a prompt has one token or more (the start-of-text token alone will do)");
    if (static_cast<std::int64_t>(prompt.size()) > context_limit)
        refuse("prompt.size", prompt.size(), "the prompt is longer than the model's context");
    for (std::size_t i = 0; i < prompt.size(); ++i)
        if (prompt[i] < 0 || prompt[i] >= vocabulary)
            refuse("prompt", static_cast<std::int64_t>(i), prompt[i], "a token lies in [0, vocabulary)");
    for (std::size_t i = 0; i < options.stop_tokens.size(); ++i)
        if (options.stop_tokens[i] < 0 || options.stop_tokens[i] >= vocabulary)
            refuse("stop_tokens", static_cast<std::int64_t>(i), options.stop_tokens[i],
                   "a token lies in [0, vocabulary)");
}

}  // namespace MULTIDRAFT_NAMESPACE
