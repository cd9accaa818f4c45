// Wrong verifiers that the public proof must catch: they pass for one tree, or for one kind of rows.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bugs/certain_recounted.hpp"
#include "bugs/given_as_drawn.hpp"
#include "bugs/heats_stale_order.hpp"
#include "bugs/heats_ties_unbroken.hpp"
#include "bugs/plain_heats.hpp"
#include "bugs/rejection_without_units.hpp"
#include "bugs/top_then_one_without_units.hpp"
#include "bugs/unreachable_read.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"

namespace caught_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;

template <class Sampler, class Verifier>
proof caught(char const* name, Sampler sampler, Verifier verifier, proof_options const& options = {}) {
    auto const found = prove_lossless(sampler, verifier, options);
    std::printf("    %s: %s\n", name, found.report().c_str());
    EXPECT_FALSE(found.holds()) << name;
    return found;
}

TEST(caught, heats_are_right_parts) {
    for (auto const& found :
         {prove_lossless(draft::iid{}, bugs::plain_heats<1>{}), prove_lossless(draft::iid{}, bugs::plain_heats<2>{}),
          prove_lossless(draft::iid{}, bugs::plain_heats<3>{})})
        EXPECT_TRUE(found.holds()) << found.report();
}

TEST(caught, heats_in_a_stale_order) {
    // With one, two or three trees nothing is detected.
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
        for (tree_case const& t : std::vector<tree_case>{{{2}, 4}, {{3}, 4}, {{2, 2}, 3}, {{3, 1}, 3}})
            EXPECT_LT(distance_from_target(
                          draft::iid{}, bugs::heats_stale_order<3>{}, t.children,
                          random_models(kind::plain, t.vocabulary, static_cast<int>(t.children.size()), seed)),
                      1e-12);
    EXPECT_GT(caught("heats of two", draft::iid{}, bugs::heats_stale_order<2>{}).distance.value, 1e-2);
    auto const three = caught("heats of three", draft::iid{}, bugs::heats_stale_order<3>{});
    EXPECT_GT(three.distance.value, 0.1);
    EXPECT_EQ(three.distance.tree, shape{6});
}

TEST(caught, ties_that_the_law_does_not_break) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
        EXPECT_LT(distance_from_target(draft::iid{}, bugs::heats_ties_unbroken<2>{}, {4},
                                       random_models(kind::plain, 4, 1, seed)),
                  1e-12);
    EXPECT_GT(caught("ties", draft::iid{}, bugs::heats_ties_unbroken<2>{}).distance.value, 0.1);
}

TEST(caught, certain_children_that_are_counted_again) {
    auto const found = caught("recounted", draft::stratified{}, bugs::certain_recounted{});
    EXPECT_GT(found.distance.value, 1e-3);
    EXPECT_TRUE(found.distance.in_floats);
}

TEST(caught, given_children_that_are_counted_as_draws) {
    EXPECT_GT(caught("ranked", bugs::given_as_drawn{}, verify::ranked<law::stratified>{}).distance.value, 0.1);
    EXPECT_GT(caught("ranked block", bugs::given_as_drawn{}, verify::ranked_block<law::stratified>{}).distance.value,
              0.1);
}

TEST(caught, masses_that_are_too_small_for_floats) {
    auto const thrown =
        caught("unclamped", engine_sequential{}, bugs::rejection_without_units<law::sequential, false>{});
    EXPECT_NE(thrown.error.find("floats"), std::string::npos) << thrown.error;
    auto const biased = caught("clamped", engine_sequential{}, bugs::rejection_without_units<law::sequential, true>{});
    EXPECT_GT(biased.distance.value, 1e-2);
    EXPECT_TRUE(biased.distance.in_floats);
    auto const top = caught("top then one", engine_stratified<law::top_then_one>{}, bugs::top_then_one_without_units{});
    EXPECT_NE(top.error.find("floats"), std::string::npos) << top.error;
    // Independent draws never reach the remaining mass, and in doubles it takes less than 1e-300.
    EXPECT_TRUE(prove_lossless(draft::iid{}, bugs::rejection_without_units<law::iid, false>{}).holds());
    EXPECT_TRUE(
        prove_lossless(engine_sequential{}, bugs::rejection_without_units<law::sequential, false>{}, {.floats = false})
            .holds());
}

TEST(caught, rows_read_that_the_target_cannot_reach) {
    auto const found = caught("unreachable", draft::iid{}, bugs::unreachable_read<law::iid>{});
    EXPECT_NE(found.error.find("holds no distribution"), std::string::npos) << found.error;
}

}  // namespace
}  // namespace caught_test
