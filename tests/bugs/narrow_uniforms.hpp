// Bug: uniforms as wide as the rows' floats, of which there are fewer than a large vocabulary needs.
#pragma once

#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::bugs {

/// Decides by 24 of a uniform's 53 bits. Tokens of less than 2^-24 are drawn far too often or not at all, and an event
/// of smaller probability occurs once in 2^24. Gives the same uniform to every draw.
class narrow_uniforms {
public:
    explicit narrow_uniforms(double uniform) noexcept
        : uniform_(static_cast<float>(static_cast<int>(uniform * 0x1p24))) {
        uniform_ *= 0x1p-24F;
    }

    template <class Real>
    [[nodiscard]] bool bernoulli(address, Real numerator, Real denominator) const {
        return static_cast<Real>(uniform_) * denominator < numerator;
    }

    template <group G, class Sums, class W>
    [[nodiscard]] index_t categorical(G const& g, Sums const& sums, index_t n, W const& w, span<token_id const> taken,
                                      address) const {
        return g.inverse_cdf(sums, n, w, static_cast<double>(uniform_), taken);
    }

    template <class Real>
    [[nodiscard]] Real uniform(address) const {
        return static_cast<Real>(uniform_);
    }

private:
    float uniform_;
};

}  // namespace multidraft::bugs
