// A proof by the library's own prover, as an expectation.
#pragma once

#include <gtest/gtest.h>

#include "multidraft/testing/prove_lossless.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Expects that `prove_lossless` proves the verifier lossless for the sampler, in more than a few cases.
template <class Sampler, class Verifier>
void expect_proved(Sampler sampler, Verifier verifier, proof_options const& options = {}) {
    static_assert(Verifier::traits.lossless);
    auto const found = prove_lossless(sampler, verifier, options);
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_GT(found.cases, 250);
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
