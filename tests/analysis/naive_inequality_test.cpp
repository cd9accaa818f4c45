// Appendix C of Yang et al. 2024: recursive rejection emits a token that was not drafted no more often than naive
// verification does, token by token, so it accepts no less.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/testing/kinds.hpp"

namespace naive_inequality_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::testing::all_kinds;
using multidraft::testing::kind;
using multidraft::testing::random_models;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

/// By token: the probability that recursive rejection refuses all n independent candidates and emits it (18).
row emitted_after_refusals(row const& p, row const& q, index_t n) {
    row left = p;
    double refused = 1;
    for (index_t k = 0; k < n; ++k) {
        double mass = 0;
        for (std::size_t i = 0; i < p.size(); ++i) {
            left[i] = std::max(left[i] - q[i], 0.0);
            mass += left[i];
        }
        refused *= mass;
        if (!(mass > 0)) break;
        for (double& x : left) x /= mass;
    }
    for (double& x : left) x *= refused;
    return left;
}

TEST(NaiveInequality, HoldsTokenByToken) {
    for (kind const k : all_kinds) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            for (index_t const vocabulary : {2, 5, 40}) {
                auto const models = random_models(k, vocabulary, 0, seed);
                row const& p = models.target[0];
                row const& q = models.draft[0];
                for (index_t n = 1; n <= 8; ++n) {
                    row const speculative = emitted_after_refusals(p, q, n);
                    double accepted = 1;
                    for (std::size_t i = 0; i < p.size(); ++i) {
                        double const naive = p[i] * std::pow(1 - q[i], n);  // (19)
                        EXPECT_LE(speculative[i], naive + tolerance) << name_of(k) << ", n = " << n;
                        accepted -= speculative[i];
                    }
                    double const rate = analysis::acceptance_recursive_iid(p, q, n);
                    EXPECT_NEAR(rate, accepted, 1e-10);
                    EXPECT_GE(rate, analysis::acceptance_naive_iid(p, q, n) - tolerance);
                }
            }
        }
    }
}

// The paper proves it for draws with replacement; without replacement it holds in every case here.
TEST(NaiveInequality, HoldsWithoutReplacementInEveryCase) {
    for (kind const k : all_kinds) {
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            auto const models = random_models(k, 5, 0, seed);
            row const& p = models.target[0];
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 4; ++n)
                EXPECT_GE(analysis::acceptance_recursive_sequential(p, q, n),
                          analysis::acceptance_naive_sequential(p, q, n) - tolerance)
                    << name_of(k) << ", seed " << seed << ", n = " << n;
        }
    }
}

}  // namespace
}  // namespace naive_inequality_test
