// Bug: comparisons that include equality, so that a uniform of 0 accepts a token of no mass.
#pragma once

#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::bugs {

/// `u <= ratio` instead of `u < ratio`, and the first token whose running sum reaches u * total instead of exceeding
/// it. One uniform in 2^53 is 0: too rare for statistics. Gives the same uniform to every draw.
class inclusive_source {
public:
    explicit inclusive_source(double uniform) noexcept : uniform_(uniform) {}

    template <class Real>
    [[nodiscard]] bool bernoulli(address, Real numerator, Real denominator) const {
        return static_cast<Real>(uniform_) * denominator <= numerator;
    }

    template <group G, class Real, class W>
    [[nodiscard]] index_t categorical(G const&, chunk_sums<Real> const& sums, index_t n, W const& w,
                                      span<token_id const> taken, address) const {
        Real before = 0;
        for (index_t i = 0; i < n; ++i) {
            bool out = false;
            for (token_id const x : taken) out = out || x == i;
            before += out ? Real(0) : w(i);
            if (static_cast<Real>(uniform_) * sums.total <= before) return i;
        }
        return none;
    }

    template <class Real>
    [[nodiscard]] Real uniform(address) const {
        return static_cast<Real>(uniform_);
    }

private:
    double uniform_;
};

}  // namespace multidraft::bugs
