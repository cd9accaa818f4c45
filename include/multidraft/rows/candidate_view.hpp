// A row of logits that has a few candidates, and no mass elsewhere: their tokens and logits, nothing of V.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A row of V logits that are `logits[k]` at `tokens[k]` and minus infinity elsewhere: a draft that gives its 16 to 512
/// likeliest tokens only ([DSpark]'s successors, engines that copy a top-k from a device). Tokens rise. A view of the
/// caller's arrays.
///
/// The children are drawn from this row and verified with it, so nothing is lost but what the draft left out. Ranked
/// verifiers count its candidates alone (`lists_candidates`), and the host group passes over runs without one
/// (`has_runs`); elsewhere an entry costs a search among the candidates.
template <class T = float>
class candidate_view {
public:
    using real = real_of<T>;

    candidate_view() = default;
    /// Throws `invalid_input` on the host for tokens that do not rise or are outside the vocabulary. O(candidates).
    MULTIDRAFT_HD candidate_view(span<token_id const> tokens, T const* logits, index_t vocabulary)
        : tokens_(tokens), logits_(logits), size_(vocabulary) {
#if !MULTIDRAFT_ON_DEVICE
        if (std::size_t const k = detail::first_out_of_order(tokens, vocabulary); k < tokens.size())
            refuse("tokens", static_cast<std::int64_t>(k), tokens[k],
                   "candidates rise, each in [0, " + std::to_string(vocabulary) + ")");
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        std::size_t const k = before(i);
        return k < tokens_.size() && tokens_[k] == i ? to_real(logits_[k]) : minus_infinity<real>;
    }

    /// The tokens that have a logit, which rise.
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> candidates() const noexcept { return tokens_; }
    /// The row with the k-th candidate alone.
    [[nodiscard]] MULTIDRAFT_HD candidate_view only(index_t k) const noexcept {
        candidate_view result = *this;
        result.tokens_ = tokens_.subspan(static_cast<std::size_t>(k), 1);
        result.logits_ = logits_ + k;
        return result;
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD candidate_view in_chunk(index_t begin, index_t end) const noexcept {
        candidate_view result = *this;
        std::size_t const first = before(begin);
        result.tokens_ = tokens_.subspan(first, before(end) - first);
        result.logits_ = logits_ + first;
        return result;
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const noexcept {
        std::size_t const k = before(begin);
        return k == tokens_.size() || tokens_[k] >= begin + run_length;
    }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const {
        real values[static_cast<std::size_t>(run_length)];
        for (real& x : values) x = minus_infinity<real>;
        for (std::size_t k = before(begin); k < tokens_.size() && tokens_[k] < end; ++k)
            values[tokens_[k] - begin] = to_real(logits_[k]);
        body(run_values<real>(values, begin, size_));
    }

private:
    /// The number of candidates below i.
    [[nodiscard]] MULTIDRAFT_HD std::size_t before(index_t i) const noexcept {
        return detail::entries_below(tokens_, i);
    }

    span<token_id const> tokens_{};
    T const* logits_ = nullptr;
    index_t size_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE
