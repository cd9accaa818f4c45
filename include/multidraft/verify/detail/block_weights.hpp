// Block verification of one path: weights on the way down, the stopping level on the way up.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The weight of a path with one more token: min(1, w p(x) / m(x)); w = 1 at the root.
///
/// p and m are the probabilities of the token under the target and under the law by which it was selected. NaN stays
/// NaN, and infinity, which is not a probability, becomes NaN.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE Real next_weight(Real w, Real p, Real m) {
    Real const owed = fp::mul(w, p);
    if (!(owed <= largest_number<Real> && m <= largest_number<Real>)) return not_a_number<Real>;
    if (!(owed >= m)) return fp::div(owed, m);
    return owed > 0 ? Real(1) : owed;
}

/// A path as `stop_of_block` reads it. Level 0 is the root; levels run to `length()`.
///
/// - `node(l)`: the node at a level.
/// - `token(l)`: its token, for l >= 1.
/// - `weight(l)`: its weight by `next_weight`; 1 for l = 0.
/// - `target()`: the target's rows, `target()(g, node)`.
/// - `conditional(g, l)`: the exact law m of token(l + 1) given the tokens of levels up to l < `length()`, as a
///   distribution.
template <class Path, class G>
concept block_path = requires(Path const& path, G const& g, std::int32_t level) {
    { path.length() } -> std::convertible_to<std::int32_t>;
    { path.node(level) } -> std::convertible_to<node_id>;
    { path.token(level) } -> std::convertible_to<token_id>;
    { path.weight(level) } -> std::floating_point;
    { path.target()(g, path.node(level)) } -> distribution;
    { path.conditional(g, level) } -> distribution;
};

/// Where a path stops, and the token after it: block verification (Sun et al., "Block verification accelerates
/// speculative decoding", 2024).
///
/// Level i, from the last one g up, is where the path stops with probability h_i: h_g = w_g, h_i = S_i / (S_i + 1 -
/// w_i) with S_i = sum (w_i p - m)+ over the next token, h_0 = 1. Then the next token is drawn from p (at g) or
/// Norm[(w_i p - m)+].
///
/// Lossless whenever m is the exact law of the path. One Bernoulli draw and one pass over p and m for each rejected
/// level, one pass for the level where it stops; levels above are not read. A path may be truncated where its weight is
/// 0, since nothing below can be accepted. The result's token is `none` when a row holds NaN or no mass.
template <group G, block_path<G> Path, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD verdict stop_of_block(G const& g, Path const& path, Source& source, std::int32_t position) {
    using real = std::decay_t<decltype(path.weight(0))>;
    std::int32_t level = path.length();
    if (path.weight(level) != path.weight(level)) return {};  // NaN in a row above
    {
        draw_site const site{position, path.node(level)};
        if (level == 0 || source.bernoulli(site(purpose::acceptance, 0), path.weight(level), real(1)))
            return {level, emit_at(g, path.target(), path.node(level), source, site)};
    }
    for (;;) {
        --level;
        draw_site const site{position, path.node(level)};
        real const w = path.weight(level);
        auto const p = path.target()(g, path.node(level));
        auto const r = residual_of_path(p, path.conditional(g, level), w);
        auto const sums = g.sum_chunks(p.size(), r);
        real const mass = sums.total;
        if (mass != mass) return {};
        // Without mass the path does not stop here, even where h is 0/0 (p equal to m up to rounding): the level above
        // decides.
        if (level > 0 && !source.bernoulli(site(purpose::acceptance, 0), mass, mass + (1 - w))) continue;
        token_id const drafted = path.token(level + 1);
        return {level, emit_residual(g, p, r, sums, span<token_id const>(&drafted, 1), source, site)};
    }
}

#if !MULTIDRAFT_ON_DEVICE

/// Reports why a path gave no token: the first row on it that is not a distribution.
template <group G, block_path<G> Path>
[[noreturn]] MULTIDRAFT_COLD void refuse_block(G const& g, Path const& path) {
    for (std::int32_t level = 0; level <= path.length(); ++level) {
        check_row(g, path.target()(g, path.node(level)), "target", path.node(level));
        if (level < path.length()) check_row(g, path.conditional(g, level), "draft", path.node(level));
    }
    refuse("target", path.node(0), "no token",
           "the rows of the path down to node " + std::to_string(path.node(path.length())) + " leave nothing to emit");
}

#endif

/// Verifies a path of a tree as a block, and writes its accepted part to `accepted`.
template <group G, block_path<G> Path, draw_source Source>
[[nodiscard]] MULTIDRAFT_HD verdict verify_block(G const& g, tree_view tree, Path const& path, Source& source,
                                                 std::int32_t position, span<node_id> accepted) {
    verdict const result = stop_of_block(g, path, source, position);
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) {
        if (result.next == none) refuse_block(g, path);
    }
#endif
    if (result.next == none) return {};
    return accepted_path(g, tree, path.node(result.accepted), result.next, accepted);
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
