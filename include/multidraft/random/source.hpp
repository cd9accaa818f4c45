// Where samplers and verifiers get their randomness: Bernoulli and categorical draws from a source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The draws that an algorithm may make. Each draw has its own address; no address is used twice.
///
/// - `bernoulli(a, numerator, denominator)`: true with probability min(1, numerator / denominator), never when the
///   numerator is 0.
/// - `categorical(g, sums, n, w, taken, a)`: a token with probability in proportion to w, tokens `taken` excluded;
///   `sums` are the chunk sums of exactly those weights, with a positive total. `none` where the total is not a number:
///   infinite, or NaN.
/// - `uniform<Real>(a)`: a number in [0, 1), for ranks and positions.
///
/// Both are decided by uniforms of 53 bits whatever the type of the row. With the 24 bits of a float at most 2^24
/// tokens could ever be drawn, and all probabilities below 2^-24 would be treated alike.
template <class S>
concept draw_source = requires(S& source, address a, float x, host_group const& g, chunk_sums<float> const& sums,
                               index_t n, group_archetype::term w, span<token_id const> taken) {
    { source.bernoulli(a, x, x) } -> std::same_as<bool>;
    { source.categorical(g, sums, n, w, taken, a) } -> std::same_as<index_t>;
    { source.template uniform<float>(a) } -> std::same_as<float>;
};

/// The source of real runs: every draw is a pure function of (seed, request, address).
///
/// A Bernoulli draw is `u * denominator < numerator` in double precision, strict, so that u = 0 never accepts a token
/// of no mass; its probability is right to 2^-53. A categorical draw is the inverse of the running sum at the fraction
/// u, `group.inverse_cdf`: each token's share is right to 2^-51 of the total, up to the rounding of the sums. For
/// floats that is about 2^-24 of the token's share. So even tokens of probability 2^-40 are drawn in proportion.
class addressed_source {
public:
    addressed_source() = default;
    /// Draws by these uniforms: their seed and request.
    MULTIDRAFT_HD constexpr explicit addressed_source(addressed_uniforms uniforms) noexcept : uniforms_(uniforms) {}

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD bool bernoulli(address a, Real numerator, Real denominator) const {
        return fp::mul(uniforms_.template uniform<double>(a), static_cast<double>(denominator)) <
               static_cast<double>(numerator);
    }

    template <group G, class Sums, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t categorical(G const& g, Sums const& sums, index_t n, W const& w,
                                                    span<token_id const> taken, address a) const {
        if (!(sums.total <= largest_number<std::decay_t<decltype(sums.total)>>)) return none;
        return g.inverse_cdf(sums, n, w, uniforms_.template uniform<double>(a), taken);
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real uniform(address a) const {
        return uniforms_.template uniform<Real>(a);
    }

    /// The uniforms that decide.
    [[nodiscard]] MULTIDRAFT_HD constexpr addressed_uniforms const& uniforms() const noexcept { return uniforms_; }

private:
    addressed_uniforms uniforms_{};
};

}  // namespace MULTIDRAFT_NAMESPACE
