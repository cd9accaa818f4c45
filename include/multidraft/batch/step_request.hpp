// A request in a step of a batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A request in a step of a batch. Nothing is owned: the text and the shape stay as they are until the step is
/// verified.
struct step_request {
    /// The tokens so far, prompt included, one or more. The last one is the root of the tree, and its index the
    /// position that addresses the draws: a text that is cut at its front uses positions again, and needs another seed
    /// or id.
    span<token_id const> text;
    /// How many children each node is to have; null: the root alone, which gives one token without a draft. For
    /// samplers whose law is `addressed_by_text` it may not depend on drafts that earlier steps refused.
    topology const* shape = nullptr;
    std::uint64_t seed = 0;
    std::uint32_t id = 0;        ///< distinguishes requests with the same seed, such as several samples of one prompt
    sampling_params sampling{};  ///< of the target's rows
    std::optional<sampling_params> draft_sampling{};  ///< of the draft's rows, if other than `sampling`
    /// How many of the first tokens of `text` the target's cache holds: fewer than all. The step reads the others.
    index_t in_target = 0;
    index_t in_draft = 0;  ///< the same for the draft's cache
};

namespace detail {

/// Of the first tokens of a text that a cache holds: the last token is the root, which a model reads in the step.
inline void check_cached(char const* name, index_t count, std::int64_t length) {
    if (count < 0 || count >= length)
        refuse(name, count, "a cache holds some of the tokens before the last of " + std::to_string(length));
}

/// Of the tokens that a model reads.
inline void check_tokens(step_request const& r) {
    for (auto k = static_cast<std::size_t>(std::min(r.in_target, r.in_draft)); k < r.text.size(); ++k)
        if (r.text[k] < 0) refuse("text", static_cast<std::int64_t>(k), r.text[k], "a token is not negative");
}

/// Throws `invalid_input` for a request that cannot be decoded with trees of that kind.
inline void check_decoded(step_request const& r, topology const& shape, allowed_trees kind) {
    auto const length = static_cast<std::int64_t>(r.text.size());
    if (length < 1) refuse("text.size", length, "the last token of a text is the root");
    if (length > std::numeric_limits<std::int32_t>::max() - shape.max_depth())
        refuse("text.size", length, "the positions of the tree's nodes exceed 2^31 - 1");
    check_cached("in_target", r.in_target, length);
    check_cached("in_draft", r.in_draft, length);
    check_tokens(r);
    validate_member("sampling", r.sampling);
    if (r.draft_sampling) validate_member("draft_sampling", *r.draft_sampling);
    if (node_id const v = first_not_allowed(tree_view{shape.parents(), {}}, kind); v != none)
        refuse("shape", v, shape.parent(v), rule_of(batch_argument::shape));
}

/// The same for a request whose text is only read.
inline void check_read(step_request const& r) {
    auto const length = static_cast<std::int64_t>(r.text.size());
    if (length < 1 || length > std::numeric_limits<std::int32_t>::max())
        refuse("text.size", length, "there is a token to read, and positions are below 2^31");
    check_cached("in_target", r.in_target, length);
    if (r.in_draft < 0 || r.in_draft > length)
        refuse("in_draft", r.in_draft, "a cache holds at most all " + std::to_string(length) + " tokens");
    check_tokens(r);
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
