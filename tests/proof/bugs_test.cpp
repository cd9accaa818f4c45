// Bugs that must be caught: the proof of losslessness fails where it should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bugs/deterministic_with_ratio.hpp"
#include "bugs/draft_not_renormalised.hpp"
#include "bugs/emission_from_target.hpp"
#include "bugs/first_residual_emitted.hpp"
#include "bugs/iid_as_sequential.hpp"
#include "bugs/inclusive_source.hpp"
#include "bugs/longest_path.hpp"
#include "bugs/merged_duplicates.hpp"
#include "bugs/peeking_stop.hpp"
#include "bugs/plain_rejection.hpp"
#include "bugs/refused_not_removed.hpp"
#include "bugs/residual_not_normalised.hpp"
#include "bugs/residual_not_updated.hpp"
#include "bugs/reused_address.hpp"
#include "bugs/sequential_as_iid.hpp"
#include "bugs/shared_uniform.hpp"
#include "bugs/sorted_children.hpp"
#include "bugs/subtracted_twice.hpp"
#include "bugs/swapped.hpp"
#include "bugs/wrong_entry_cleared.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/scripted.hpp"

namespace bugs_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::testing::distance_from_target;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::law_of_target;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::total_variation;

// The least deviation of a bug: nine orders of magnitude above the tolerance of the proof.
constexpr double distance = 1e-3;

/// Expects that the enumeration rejects a pair on every tree, with one of five random pairs of models: some bugs are
/// harmless to some models, which is why the proof takes several.
template <class Sampler, class Verifier>
void expect_caught(std::vector<shape> const& trees, multidraft::index_t vocabulary = 4) {
    for (shape const& children : trees) {
        double smallest = 1;
        double largest = 0;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            auto const models = random_models(kind::plain, vocabulary, static_cast<int>(children.size()), seed);
            double const tv = distance_from_target(Sampler{}, Verifier{}, children, models);
            smallest = std::min(smallest, tv);
            largest = std::max(largest, tv);
        }
        std::string name;
        for (int const n : children) name += (name.empty() ? "" : "x") + std::to_string(n);
        std::printf("    %-4s total variation %.4f to %.4f\n", name.c_str(), smallest, largest);
        EXPECT_GT(largest, distance) << name;
    }
}

template <class Sampler, class Verifier>
void expect_address_refused(shape const& children) {
    auto const models = random_models(kind::plain, 3, static_cast<int>(children.size()), 1);
    try {
        static_cast<void>(law_of_step(Sampler{}, Verifier{}, children, models));
        FAIL() << "no address was refused";
    } catch (multidraft::invalid_input const& refused) {
        EXPECT_STREQ(refused.argument().c_str(), "address.index");
        std::printf("    %s\n", refused.what());
    }
}

// --- The parts that the bugs reuse are lossless ----------------------------------------------------------------------

TEST(bugs, are_made_of_right_parts) {
    for (shape const& children : std::vector<shape>{{1}, {3}, {2, 1}}) {
        for (kind const k : {kind::plain, kind::no_mass, kind::narrow_draft}) {
            auto const models = random_models(k, 4, static_cast<int>(children.size()), 3);
            auto const iid = law_of_step(draft::iid{}, bugs::plain_rejection<law::iid>{}, children, models);
            auto const sequential =
                law_of_step(draft::sequential{}, bugs::plain_rejection<law::sequential>{}, children, models);
            auto const target = law_of_target(models.target, children.size() + 1);
            EXPECT_LT(total_variation(iid.law, target), 1e-12);
            EXPECT_LT(total_variation(sequential.law, target), 1e-12);
            // The library, which never stores a residual, takes the same decisions.
            EXPECT_NEAR(
                law_of_step(draft::iid{}, verify::recursive_rejection<law::iid>{}, children, models).mean_accepted,
                iid.mean_accepted, 1e-12);
            EXPECT_NEAR(
                law_of_step(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, children, models)
                    .mean_accepted,
                sequential.mean_accepted, 1e-12);
        }
    }
}

// --- Wrong verifiers -------------------------------------------------------------------------------------------------

TEST(bugs, swapped) {
    expect_caught<draft::iid, bugs::swapped<law::iid>>({{1}, {2}, {1, 1}, {2, 1}});
    expect_caught<draft::sequential, bugs::swapped<law::sequential>>({{1}, {2}, {2, 1}});
}

TEST(bugs, residual_not_updated) {
    expect_caught<draft::iid, bugs::residual_not_updated<law::iid>>({{2}, {3}, {2, 1}});
    expect_caught<draft::sequential, bugs::residual_not_updated<law::sequential>>({{2}, {3}, {2, 1}});
}

TEST(bugs, subtracted_twice) {
    expect_caught<draft::iid, bugs::subtracted_twice<law::iid>>({{1}, {2}, {1, 1}, {2, 1}});
    expect_caught<draft::sequential, bugs::subtracted_twice<law::sequential>>({{1}, {2}, {1, 1}, {2, 1}});
}

TEST(bugs, sequential_as_iid) { expect_caught<draft::sequential, bugs::sequential_as_iid>({{2}, {3}, {2, 1}}); }

TEST(bugs, iid_as_sequential) { expect_caught<draft::iid, bugs::iid_as_sequential>({{2}, {3}, {2, 1}}); }

TEST(bugs, wrong_entry_cleared) { expect_caught<draft::sequential, bugs::wrong_entry_cleared>({{2}, {3}, {2, 1}}); }

TEST(bugs, residual_not_normalised) {
    expect_caught<draft::iid, bugs::residual_not_normalised<law::iid>>({{2}, {3}, {2, 1}});
    expect_caught<draft::sequential, bugs::residual_not_normalised<law::sequential>>({{2}, {3}, {2, 1}});
}

/// Rows of a first example, on which two plausible mistakes do not show.
multidraft::testing::model_pair rows_of_an_example() {
    multidraft::testing::model_pair models{multidraft::testing::small_model(3, 1),
                                           multidraft::testing::small_model(3, 1)};
    for (std::size_t c = 0; c < models.target.contexts(); ++c) {
        models.target[c] = {0.5, 0.3, 0.2};
        models.draft[c] = {0.2, 0.5, 0.3};
    }
    return models;
}

/// One pair of rows calls the verifier lossless, the bank of `prove_lossless` does not.
template <class Verifier>
void expect_caught_by_the_bank() {
    for (int const n : {1, 2, 3})
        EXPECT_LT(distance_from_target(draft::sequential{}, Verifier{}, {n}, rows_of_an_example()), 1e-12) << n;
    auto const found = multidraft::testing::prove_lossless(draft::sequential{}, Verifier{});
    EXPECT_FALSE(found.holds());
    EXPECT_GT(found.distance.value, distance) << found.report();
    std::printf("    %s\n", found.report().c_str());
}

TEST(bugs, draft_not_renormalised) {
    expect_caught<draft::sequential, bugs::draft_not_renormalised>({{2}, {3}, {2, 1}});
    expect_caught_by_the_bank<bugs::draft_not_renormalised>();
}

TEST(bugs, first_residual_emitted) {
    expect_caught<draft::sequential, bugs::first_residual_emitted>({{2}, {3}, {2, 1}});
    expect_caught_by_the_bank<bugs::first_residual_emitted>();
}

/// A proof of few cases says so.
TEST(bugs, of_few_rows_are_reported_as_such) {
    multidraft::testing::proof_options one;
    one.trees = {{{2}, 3}};
    one.seeds = 1;
    auto const few =
        multidraft::testing::prove_lossless(draft::sequential{}, bugs::plain_rejection<law::sequential>{}, one);
    EXPECT_TRUE(few.holds());
    EXPECT_NE(few.report().find("few cases: wrong verifiers pass"), std::string::npos) << few.report();
    auto const many =
        multidraft::testing::prove_lossless(draft::sequential{}, bugs::plain_rejection<law::sequential>{});
    EXPECT_EQ(many.report().find("few cases"), std::string::npos) << many.report();
}

TEST(bugs, shared_uniform) {
    expect_caught<draft::iid, bugs::shared_uniform<law::iid>>({{2}, {3}, {2, 1}});
    expect_caught<draft::sequential, bugs::shared_uniform<law::sequential>>({{2}, {3}, {2, 1}});
}

TEST(bugs, merged_duplicates) { expect_caught<draft::iid, bugs::merged_duplicates>({{2}, {3}, {2, 1}}); }

TEST(bugs, emission_from_target) {
    expect_caught<draft::iid, bugs::emission_from_target<law::iid>>({{1}, {2}, {1, 1}, {2, 1}});
    expect_caught<draft::sequential, bugs::emission_from_target<law::sequential>>({{1}, {2}, {1, 1}, {2, 1}});
}

TEST(bugs, deterministic_with_ratio) {
    expect_caught<draft::top_n, bugs::deterministic_with_ratio>({{1}, {2}, {3}, {1, 1}, {2, 1}});
}

TEST(bugs, refused_not_removed) {
    expect_caught<draft::top_n, bugs::refused_not_removed>({{1}, {2}, {3}, {1, 1}, {2, 1}});
}

TEST(bugs, longest_path) {
    expect_caught<draft::iid, bugs::longest_path<law::iid>>({{2}, {2, 1}, {2, 2}}, 3);
    expect_caught<draft::sequential, bugs::longest_path<law::sequential>>({{2}, {2, 1}, {2, 2}}, 3);
}

// --- Wrong samplers --------------------------------------------------------------------------------------------------

TEST(bugs, peeking_stop) {
    expect_caught<bugs::peeking_stop, verify::recursive_rejection<law::sequential>>({{1}, {2}, {3}, {1, 1}, {2, 1}});
}

TEST(bugs, sorted_children) {
    expect_caught<bugs::sorted_children, verify::recursive_rejection<law::sequential>>({{2}, {3}, {2, 1}});
}

// Naive verification makes no assumption on the drafts, so it is lossless with these samplers.
TEST(bugs, of_samplers_do_not_bias_naive_verification) {
    for (shape const& children : std::vector<shape>{{2}, {2, 1}}) {
        auto const models = random_models(kind::plain, 4, static_cast<int>(children.size()), 5);
        EXPECT_LT(distance_from_target(bugs::peeking_stop{}, verify::naive<law::sequential>{}, children, models),
                  1e-12);
        EXPECT_LT(distance_from_target(bugs::sorted_children{}, verify::naive<law::sequential>{}, children, models),
                  1e-12);
    }
}

// --- Caught by another check than the law ----------------------------------------------------------------------------

// The enumerating source refuses an address that is used a second time.
TEST(bugs, reused_address) {
    expect_address_refused<draft::iid, bugs::one_coin_a_node<law::iid>>({2});
    expect_address_refused<draft::sequential, bugs::one_coin_a_node<law::sequential>>({2});
    expect_address_refused<draft::iid, bugs::coin_of_the_draft<law::iid>>({1});
    expect_address_refused<draft::sequential, bugs::coin_of_the_draft<law::sequential>>({2});
    expect_address_refused<draft::iid, bugs::one_node_a_tree<law::iid>>({1, 1});
}

// The law of the output does not see events of probability 0; a scripted uniform of 0 does.
TEST(bugs, inclusive_comparison) {
    multidraft::host_group const g;
    std::vector<float> const p{0.0F, 0.0F, 0.5F, 0.5F};
    std::vector<float> const q{0.0F, 0.5F, 0.25F, 0.25F};
    multidraft::probabilities<float> const target(p.data(), 4);
    multidraft::probabilities<float> const drafts(q.data(), 4);
    std::vector<multidraft::token_id> const candidate{1};
    verify::recursive_rejection<law::iid> const verifier;
    std::vector<multidraft::token_id> drawn(1);
    auto sums = g.sum_chunks(4, multidraft::weight_of{drafts});

    bugs::inclusive_source wrong(0.0);
    EXPECT_EQ(verifier.decide(g, target, drafts, candidate, wrong, {}).child, 0) << "the token of no mass is accepted";
    ASSERT_EQ(draft::iid{}(g, drafts, sums, wrong, {}, multidraft::span<multidraft::token_id>(drawn)).count, 1);
    EXPECT_EQ(drawn[0], 0) << "the token of no mass is drafted";

    std::vector<double> const zeros(4, 0.0);
    multidraft::testing::scripted_source right(zeros);
    EXPECT_EQ(verifier.decide(g, target, drafts, candidate, right, {}).child, multidraft::none);
    ASSERT_EQ(draft::iid{}(g, drafts, sums, right, {}, multidraft::span<multidraft::token_id>(drawn)).count, 1);
    EXPECT_EQ(drawn[0], 1);
}

}  // namespace
}  // namespace bugs_test
