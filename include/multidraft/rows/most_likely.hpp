// The most likely token of a row of logits, in one pass that also finds rows that are not distributions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The token with the largest logit, ties to the lower token: the one that has all mass at temperature 0. `none` for a
/// row that holds NaN or plus infinity, or nothing but minus infinity. One pass.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD index_t most_likely_token(G const& g, View const& logits) {
    using real = typename View::real;
    index_t const best =
        g.argmax(logits.size(), function_of{logits, [](auto const& x, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                real const here = x(i);
                                                return here == here ? here : infinity<real>;
                                            }});
    if (best == none) return none;
    real const largest = logits(best);
    return largest >= -largest_number<real> && largest <= largest_number<real> ? best : none;
}

}  // namespace MULTIDRAFT_NAMESPACE
