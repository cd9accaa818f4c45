// A row with each weight multiplied by a factor, normalised again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The weights of q, each times a factor, as a function object for the operations of a group.
template <class Q, class Factor>
struct weight_times_factor {
    using real = probability_of<Q>;
    Q q;
    Factor factor;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return fp::mul(static_cast<real>(q.weight(i)), static_cast<real>(factor(i)));
    }
};

}  // namespace detail

/// The distribution proportional to q.weight(i) factor(i). Made by `make_reweighted`. If no token has mass all its
/// probabilities are 0.
template <distribution Q, class Factor>
struct reweighted {
    using real = probability_of<Q>;
    detail::weight_times_factor<Q, Factor> product;
    real total;  ///< of the products; 0 if it is too small to divide by

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return product.q.size(); }
    /// The probability of token i.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        return total > 0 ? fp::div(product(i), total) : real(0);
    }
    /// The same: its weights are normalised.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
};

/// q with every weight multiplied by `factor(i)`, a finite number that is not negative: a function object that is
/// copied into the row. One pass, summed in the group's order.
///
/// The row has no mass if the products sum to less than 2^-103 in floats (2^-970 in doubles), since they may have lost
/// bits.
template <group G, distribution Q, class Factor>
[[nodiscard]] MULTIDRAFT_HD reweighted<Q, Factor> make_reweighted(G const& g, Q const& q, Factor const& factor) {
    using real = probability_of<Q>;
    constexpr real least = std::numeric_limits<real>::min() / std::numeric_limits<real>::epsilon();
    detail::weight_times_factor<Q, Factor> const product{q, factor};
    real const total = g.sum(q.size(), product);
    return {product, total >= least ? total : real(0)};
}

}  // namespace MULTIDRAFT_NAMESPACE
