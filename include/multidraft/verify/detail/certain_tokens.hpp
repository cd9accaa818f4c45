// Membership in the certain children of a node, for use in row loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The certain children of a node, tested token by token inside a row loop.
///
/// Compares the tokens themselves, whatever their order and mass: ties may have been broken either way, and at
/// temperature 0 certain tokens may have no mass. A token lighter than all of them is not certain, so the list is
/// searched for few tokens only. Groups that process runs of tokens test a whole run (`any_in`).
template <distribution Q>
class certain_tokens {
public:
    using real = probability_of<Q>;

    /// O(tokens): keeps the smallest of their probabilities, so that one comparison excludes most other tokens.
    MULTIDRAFT_HD certain_tokens(Q const& row, span<token_id const> tokens) : q(row), tokens_(tokens) {
        for (token_id const x : tokens_) {
            real const here = q(x);
            lightest_ = here < lightest_ ? here : lightest_;
        }
    }

    /// Whether token i is one of them.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool holds(index_t i) const {
        if (tokens_.empty() || q(i) < lightest_) return false;
        bool found = false;

        MULTIDRAFT_ROLL
        for (token_id const x : tokens_) found = found || x == i;
        return found;
    }
    /// Whether one of them is in [begin, end).
    [[nodiscard]] MULTIDRAFT_HD bool any_in(index_t begin, index_t end) const {
        bool found = false;
        for (token_id const x : tokens_) found = found || (x >= begin && x < end);
        return found;
    }

    Q q;

private:
    span<token_id const> tokens_;
    real lightest_ = -minus_infinity<real>;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
