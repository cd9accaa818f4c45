// The certainty rule: how many of n children are the most likely tokens themselves, without a draw.
#pragma once

#include <cstddef>

#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"

namespace multidraft {

/// How many of the children of a node are certain under `law::stratified` ("certainty selection" of survey sampling).
///
/// Walk q from the top; while more than one child is left, k of them, and k q(top) / (mass left) >= theta, the top
/// token is a child with certainty. What is left, k children, are independent draws from the remaining tokens. theta in
/// (0, 1].
///
/// `children`: the most likely tokens in order, n or n - 1 of them, or the children of a drafted node, which are those
/// as long as they are certain: where the rule stops at the top token it stops at every other one too, so a verifier
/// finds the same number from the children alone. That they may be fewer than were asked for, because q's support was
/// exhausted, makes no difference: with k tokens left for k children or more, the top one has a share of 1/k at least.
/// O(n).
template <distribution Q>
[[nodiscard]] MULTIDRAFT_HD index_t certain_children(Q const& q, span<token_id const> children, index_t n,
                                                     double theta) {
    double left = 1;
    index_t certain = 0;
    auto const given = static_cast<index_t>(children.size());
    while (certain + 1 < n && certain < given) {
        token_id const x = children[static_cast<std::size_t>(certain)];
        if (x < 0) break;
        auto const top = static_cast<double>(q(x));
        if (!(static_cast<double>(n - certain) * top >= theta * left) || !(top > 0)) break;
        left -= top;
        ++certain;
    }
    return certain;
}

}  // namespace multidraft
