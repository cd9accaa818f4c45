// The concept `sampler`: draws the children of one node from a draft distribution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The result of a sampler: the number of children, and how many of the first ones are certain, not drawn (see
/// `law::stratified`; 0 for other laws).
struct [[nodiscard]] drawn_children {
    index_t count = 0;
    index_t certain = 0;

    friend constexpr bool operator==(drawn_children const&, drawn_children const&) = default;
};

/// The smallest sum of the remaining weights that still allows a draw, for rows whose largest weight or whose total is
/// 1: 2^-103 for floats, 2^-970 for doubles. Below it the weights may have lost bits (they are subnormal or nearly so),
/// and a draw would not have its law. Rows made by `process_logits` have no weights this small.
template <class Real>
inline constexpr Real least_drawable = std::numeric_limits<Real>::min() / std::numeric_limits<Real>::epsilon();

/// Whether there is enough left to draw from.
template <class Sums>
[[nodiscard]] MULTIDRAFT_HD bool can_draw(Sums const& sums) {
    using real = std::decay_t<decltype(sums.total)>;
    return sums.total >= least_drawable<real>;
}

/// `sampler(g, q, sums, source, site, out)` draws up to `out.size()` children of the node `site.node` from the
/// distribution q, writes them in the order drawn and returns how many there are, and how many of them are certain.
/// `sums` are the chunk sums of q's weights. `S::law` is the law of the children.
///
/// A sampler that removes tokens from the sums takes them by value: the caller's stay as they were, and serve all nodes
/// that share a row. Sums that lie in memory of the group cannot be copied: they are moved into the sampler, and used
/// once (`chunk_sums_of`). Fewer than `out.size()` children mean that q's support was exhausted: no token is left, or
/// the remaining mass is below `least_drawable`.
template <class S>
concept sampler = requires {
    typename S::law;
    requires draft_law<typename S::law>;
}
&&requires(S const& s, host_group const& g, probabilities<float> const& q, chunk_sums<float> const& sums,
           addressed_source& source, draw_site site, span<token_id> out) {
    { s(g, q, sums, source, site, out) } -> std::same_as<drawn_children>;
};

}  // namespace MULTIDRAFT_NAMESPACE
