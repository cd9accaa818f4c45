// A source for edge cases: uniforms from a list, whatever the draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A source that reads its uniforms from a list, whatever the address: for tests of edges such as u = 0 and 1 - 2^-53.
///
/// Running past the end of the list throws `invalid_input`.
class scripted_source {
public:
    /// Returns the uniforms in order, whatever the draw; they belong to the caller.
    explicit scripted_source(span<double const> uniforms) noexcept : uniforms_(uniforms) {}

    template <class Real>
    [[nodiscard]] bool bernoulli(address, Real numerator, Real denominator) {
        return fp::mul(next(), static_cast<double>(denominator)) < static_cast<double>(numerator);
    }

    template <group G, class Sums, class W>
    [[nodiscard]] index_t categorical(G const& g, Sums const& sums, index_t n, W const& w, span<token_id const> taken,
                                      address) {
        return g.inverse_cdf(sums, n, w, next(), taken);
    }

    template <class Real>
    [[nodiscard]] Real uniform(address) {
        return static_cast<Real>(next());
    }

    /// How many uniforms have been used.
    [[nodiscard]] std::size_t used() const noexcept { return used_; }

private:
    double next() {
        if (used_ == uniforms_.size()) refuse("uniforms.size", uniforms_.size(), "the script of uniforms has ended");
        return uniforms_[used_++];
    }

    span<double const> uniforms_;
    std::size_t used_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
