// The result of a step for the text: its tokens, the nodes whose cache entries are kept, log-probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The outcome of a step as an engine uses it: the accepted tokens and the one that follows them, up to the end of the
/// text. The text ends as in the generation loops: after the first stop token, which is emitted too, or at the limit.
///
/// Caches keep the entries of `nodes()`. The target's then holds the text up to its last token but one, wherever the
/// text ended, and the last token is the root of the next tree. The draft's lacks an accepted leaf, which it has not
/// read. Memory is kept from one step to the next.
class accepted_text {
public:
    accepted_text() = default;

    /// The outcome of a verdict on a tree: see `assign`.
    accepted_text(tree_view tree, span<node_id const> path, verdict const& v, text_limits const& limits = {}) {
        assign(tree, path, v, limits);
    }

    /// Reserves memory for trees of that many levels below the root.
    void reserve(std::int32_t depth) {
        auto const n = static_cast<std::size_t>(std::max(depth, 0)) + 1;
        tokens_.reserve(n);
        nodes_.reserve(n);
    }

    /// Sets the outcome of a verdict; `path` begins with the accepted nodes, as the verifier wrote them. O(accepted).
    ///
    /// Throws `invalid_input`, with nothing changed, for a verdict without a token, a path that is too short or does
    /// not follow the tree, a negative limit.
    void assign(tree_view tree, span<node_id const> path, verdict const& v, text_limits const& limits = {}) {
        if (v.next < 0) refuse("verdict.next", v.next, "the verdict has no token: a row was no distribution");
        if (v.accepted < 0 || static_cast<std::size_t>(v.accepted) > path.size())
            refuse("verdict.accepted", v.accepted, "the path has " + std::to_string(path.size()) + " nodes");
        if (limits.max_tokens < 0)
            refuse("limits.max_tokens", limits.max_tokens, "the number of tokens is 0 or larger");
        auto const accepted = static_cast<std::size_t>(v.accepted);
        node_id before = 0;
        for (std::size_t k = 0; k < accepted; ++k) {
            if (path[k] < 1 || path[k] >= tree.size() || tree.parents[at(path[k])] != before)
                refuse("path", static_cast<std::int64_t>(k), path[k], "a path goes from a node to a child of it");
            before = path[k];
        }
        tokens_.clear();
        nodes_.assign(1, 0);
        for (std::size_t k = 0; k < accepted; ++k) {
            tokens_.push_back(tree.tokens[at(path[k])]);
            nodes_.push_back(path[k]);
        }
        tokens_.push_back(v.next);
        detail::text_cut const cut = detail::cut_at_limits(tokens_, limits);
        reason_ = cut.reason;
        shorten(cut.count);
    }

    /// The tokens of the step up to the end of the text, at most one more than were accepted.
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tokens_; }
    /// The number of these tokens.
    [[nodiscard]] std::int32_t count() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }

    /// The nodes whose entries stay in the caches: the root and the accepted nodes before the last token, as many as
    /// there are tokens. Token k was drawn from, or accepted by, the target's row at `nodes()[k]`. For `compact`.
    [[nodiscard]] std::span<node_id const> nodes() const noexcept { return nodes_; }

    /// Why the text has ended; empty while it continues.
    [[nodiscard]] std::optional<stop_reason> end() const noexcept { return reason_; }
    /// Whether the text has ended.
    [[nodiscard]] bool ended() const noexcept { return reason_.has_value(); }

    /// Ends the text after `count` of the tokens, for the engine's own reasons, such as a stop string. The reason
    /// replaces one that there was. Throws `invalid_input` for more tokens than there are.
    void truncate(std::int32_t count, stop_reason reason = stop_reason::callback) {
        if (count < 0 || count > this->count())
            refuse("count", count, "the step has " + std::to_string(this->count()) + " tokens");
        shorten(static_cast<std::size_t>(count));
        reason_ = reason;
    }

    /// Writes the log-probability of each token under its row. The rows that were verified give those of the processed
    /// target; `logit_rows` with other sampling parameters give those of that distribution. One pass over a row for
    /// each token; none for rows that are prepared or remembered.
    ///
    /// `out` is as long as `tokens()`. Throws `invalid_input`, with nothing written, for another length and for rows
    /// that do not fit the tree or the vocabulary; a row that is not a distribution throws when read. A token without
    /// mass has minus infinity, which can happen with a lossy verifier or other sampling parameters.
    template <class Rows>
    void write_log_probabilities(Rows const& rows, span<double> out) const {
        if (out.size() != tokens_.size())
            refuse("out.size", out.size(), std::to_string(tokens_.size()) + " tokens count");
        for (std::size_t k = 0; k < tokens_.size(); ++k) {
            if (nodes_[k] >= rows.rows()) refuse("rows.rows", rows.rows(), "there is one row per node");
            if (tokens_[k] >= rows.size())
                refuse("tokens", static_cast<std::int64_t>(k), tokens_[k], "a token is in the rows' vocabulary");
        }
        host_group const g;
        for (std::size_t k = 0; k < tokens_.size(); ++k) out[k] = log_probability(rows(g, nodes_[k]), tokens_[k]);
    }

private:
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    void shorten(std::size_t count) {
        tokens_.resize(count);
        nodes_.resize(count);
    }

    std::vector<token_id> tokens_;
    std::vector<node_id> nodes_;
    std::optional<stop_reason> reason_;
};

}  // namespace MULTIDRAFT_NAMESPACE
