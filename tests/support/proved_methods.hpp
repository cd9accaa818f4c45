// The proof of every method of a list: by enumeration, or by a separate test, without which nothing links.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "multidraft/methods/list.hpp"
#include "multidraft/testing/prove_lossless.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The proof of a method whose law `prove_lossless` cannot compute. Specialised in the test that contains it and
/// defined nowhere else: a method without a proof does not link.
template <class Method>
void prove_otherwise();

template <>
void prove_otherwise<methods::recursive_rejection_gumbel_top_k>();
template <>
void prove_otherwise<methods::nested_ranked_block_stratified>();
template <>
void prove_otherwise<methods::nested_ranked_block_iid>();
template <>
void prove_otherwise<methods::shared_randomness>();
template <>
void prove_otherwise<methods::naive_independent>();
template <>
void prove_otherwise<methods::multi_round_independent>();

/// The trees and the limits of a method's proof.
template <class Method>
[[nodiscard]] proof_options options_of() {
    proof_options options;
    switch (Method::trees) {
        case allowed_trees::any:
            break;
        case allowed_trees::pairs:
            options.trees = pairs_to_prove();
            break;
        case allowed_trees::forks:
            options.trees = forks_to_prove();
            break;
        case allowed_trees::chains:
            options.trees = chains_to_prove();
            break;
    }
    // Ranked methods have more branches than others, and histograms cost more than sorting.
    if (methods::by_rank::has<typename Method::verifier>) options.seeds = 1;
    if (Method::name.find("ranked") != std::string_view::npos) options.most_branches = 20000;
    return options;
}

template <class Method>
class proved : public ::testing::Test {};

/// Names of tests: those of the methods.
struct names_of_methods {
    template <class Method>
    static std::string GetName(int) {
        std::string name(Method::name);
        std::replace_if(
            name.begin(), name.end(), [](char c) { return c == '/' || c == ' '; }, '_');
        return name;
    }
};

TYPED_TEST_SUITE_P(proved);

TYPED_TEST_P(proved, has_the_law_of_the_target) {
    if constexpr (TypeParam::proof == proof_by::itself) {
        // Run where it is defined; referenced here, so that nothing links without it.
        void (*const volatile proof)() = &prove_otherwise<TypeParam>;
        EXPECT_NE(proof, nullptr);
    } else {
        auto const found =
            prove_lossless(typename TypeParam::sampler{}, typename TypeParam::verifier{}, options_of<TypeParam>());
        EXPECT_TRUE(found.holds()) << found.report();
        EXPECT_GT(found.cases, 250);
    }
}

REGISTER_TYPED_TEST_SUITE_P(proved, has_the_law_of_the_target);

}  // namespace MULTIDRAFT_NAMESPACE::testing
