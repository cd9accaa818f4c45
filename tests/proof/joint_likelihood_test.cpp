// Joint likelihood and target-initialised trees: their acceptance and the bias of their output, by enumeration.
#include "multidraft/lossy/joint_likelihood.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/tree_cases.hpp"

namespace joint_likelihood_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::node_id;
using multidraft::token_id;
using multidraft::testing::distance_from_target;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::model_pair;
using multidraft::testing::print;
using multidraft::testing::proof_tolerance;
using multidraft::testing::random_models;
using multidraft::testing::shape;

using joint = multidraft::lossy::joint_likelihood<law::iid>;

// --- Joint likelihood ------------------------------------------------------------------------------------------------

/// The mean accepted length by Alg. 1 with products, over all paths of two tokens.
double accepted_by_definition(model_pair const& models, double tau) {
    double mean = 0;
    auto const& p = models.target;
    auto const& q = models.draft;
    for (std::size_t x = 0; x < q[0].size(); ++x) {
        auto const after = q.after(0, static_cast<token_id>(x));
        for (std::size_t y = 0; y < q[0].size(); ++y) {
            double const chance = q[0][x] * q[after][y];
            if (!(chance > 0)) continue;
            int longest = 0;
            if (std::min(1.0, p[0][x] / q[0][x]) > tau) longest = 1;
            if (std::min(1.0, p[0][x] * p[after][y] / chance) > tau) longest = 2;
            mean += chance * longest;
        }
    }
    return mean;
}

TEST(joint_likelihood, accepts_the_longest_prefix_that_passes) {
    for (kind const k : multidraft::testing::all_kinds) {
        if (k == kind::almost_equal) continue;  // ratios at the threshold itself
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            auto const models = random_models(k, 4, 2, seed);
            for (double const tau : {0.0, 0.1, 0.5, 0.9, 1.0})
                EXPECT_NEAR(law_of_step(draft::iid{}, joint(static_cast<float>(tau)), {1, 1}, models).mean_accepted,
                            accepted_by_definition(models, static_cast<double>(static_cast<float>(tau))), 1e-9)
                    << name_of(k) << ", tau " << tau;
        }
    }
}

TEST(joint_likelihood, costs_what_its_threshold_allows) {
    std::map<double, double> distance;
    std::map<double, double> accepted;
    std::printf("    joint likelihood, chain of 2, V = 4, ten pairs of models: mean total variation from the target\n");
    for (double const tau : {0.0, 0.1, 0.3, 0.5, 0.9, 1.0}) {
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            auto const models = random_models(kind::plain, 4, 2, seed);
            joint const verifier(static_cast<float>(tau));
            distance[tau] += distance_from_target(draft::iid{}, verifier, {1, 1}, models) / 10;
            accepted[tau] += law_of_step(draft::iid{}, verifier, {1, 1}, models).mean_accepted / 10;
        }
        std::printf("      tau %.1f: accepted %.4f, total variation %.4f\n", tau, accepted[tau], distance[tau]);
    }
    EXPECT_LT(distance[1.0], proof_tolerance);  // nothing is accepted
    EXPECT_EQ(accepted[1.0], 0);
    EXPECT_NEAR(accepted[0.0], 2, 1e-12);  // everything with mass under the target
    EXPECT_GT(distance[0.0], 0.1);
    EXPECT_GT(distance[0.5], 1e-3);
}

// Logarithms: a long path whose likelihoods are far below the smallest float.
TEST(joint_likelihood, of_long_paths_does_not_underflow) {
    constexpr index_t vocabulary = 1000;
    constexpr int depth = 200;
    std::vector<float> const even(static_cast<std::size_t>(vocabulary), 1.0F / vocabulary);
    std::vector<float> rows;
    std::vector<node_id> parents{multidraft::none};
    for (int d = 0; d < depth; ++d) parents.push_back(d);
    for (int d = 0; d <= depth; ++d) rows.insert(rows.end(), even.begin(), even.end());
    std::vector<token_id> const tokens(parents.size(), 7);
    multidraft::probability_rows<float> const view(rows.data(), depth + 1, vocabulary);
    multidraft::addressed_source source{multidraft::addressed_uniforms(1)};
    std::vector<node_id> path(depth);
    auto const v = joint(0.5F)(
        multidraft::host_group{}, multidraft::drafted<law::iid>{multidraft::tree_view{parents, tokens}},
        multidraft::target_rows(view), multidraft::draft_rows(view), source, 0, multidraft::span<node_id>(path));
    EXPECT_EQ(v.accepted, depth);
}

TEST(joint_likelihood, refuses_what_it_cannot_use) {
    for (float const tau : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()})
        EXPECT_THROW(joint{tau}, multidraft::invalid_input) << tau;
    auto const models = random_models(kind::plain, 3, 1, 1);
    EXPECT_THROW(static_cast<void>(law_of_step(draft::iid{}, joint{}, {2}, models)), multidraft::invalid_input);
}

// --- Target-initialised trees ----------------------------------------------------------------------------------------

/// Draws the root's children from a row that the test made the target's, and the others from the draft's.
template <class Sampler>
struct starting_with_target : Sampler {
    using law = multidraft::law::target_initialised<typename Sampler::law>;
};

/// Models whose draft has the target's row at the root.
model_pair with_starts(model_pair models) {
    models.draft[0] = models.target[0];
    return models;
}

using longest = multidraft::lossy::target_initialised<verify::recursive_rejection<law::iid>>;

TEST(target_initialised, costs_total_variation) {
    std::printf("    target-initialised trees, V = 4, five pairs of models: total variation from the target\n");
    for (shape const& children : std::vector<shape>{{1, 1}, {2, 1}, {3, 1}, {2, 2}}) {
        double largest = 0;
        double mean = 0;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            auto const models = with_starts(random_models(kind::plain, children[1] == 2 ? 3 : 4, 2, seed));
            double const tv = distance_from_target(starting_with_target<draft::iid>{}, longest{}, children, models);
            largest = std::max(largest, tv);
            mean += tv / 5;
        }
        std::printf("      %s: mean %.4f, up to %.4f\n", print(children).c_str(), mean, largest);
        if (children[0] == 1)
            EXPECT_LT(largest, proof_tolerance) << "one start is speculative decoding";
        else
            EXPECT_GT(largest, 1e-2) << print(children);
    }
}

TEST(target_initialised, keeps_the_first_of_the_longest_paths) {
    // Two starts; the draft agrees with the target below the second only.
    std::vector<double> const rows{0.5, 0.5, 1, 0, 0, 1, 1, 0, 0, 1};
    std::vector<double> const drafts{0.5, 0.5, 0, 1, 0, 1, 0.5, 0.5, 0.5, 0.5};
    std::vector<node_id> const parents{-1, 0, 0, 1, 2};
    std::vector<token_id> const tokens{0, 0, 1, 1, 1};
    multidraft::addressed_source source{multidraft::addressed_uniforms(1)};
    std::vector<node_id> path(2, -7);
    auto const v =
        longest{}(multidraft::host_group{},
                  multidraft::drafted<law::target_initialised<law::iid>>{multidraft::tree_view{parents, tokens}},
                  multidraft::target_rows(multidraft::probability_rows<double>(rows.data(), 5, 2)),
                  multidraft::draft_rows(multidraft::probability_rows<double>(drafts.data(), 5, 2)), source, 0,
                  multidraft::span<node_id>(path));
    EXPECT_EQ(v.accepted, 2);
    EXPECT_EQ(path, (std::vector<node_id>{2, 4}));
    EXPECT_EQ(v.next, 1);
}

}  // namespace
}  // namespace joint_likelihood_test
