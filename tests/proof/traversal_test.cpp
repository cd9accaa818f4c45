// Traversal verification: the exact law of its output over whole trees, its acceptance, and errors.
#include "multidraft/verify/traversal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bugs/plain_traversal.hpp"
#include "bugs/traversal_divided_by_mass.hpp"
#include "bugs/traversal_keeps_token.hpp"
#include "bugs/traversal_keeps_weight.hpp"
#include "bugs/traversal_of_leaves.hpp"
#include "bugs/traversal_of_plain_target.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/tree_cases.hpp"

namespace traversal_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::node_id;
using multidraft::token_id;
using multidraft::testing::distance_from_target;
using multidraft::testing::expect_lossless_trees;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::law_of_target;
using multidraft::testing::print;
using multidraft::testing::proof_tolerance;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::total_variation;
using multidraft::testing::tree_case;

std::vector<tree_case> trees() {
    return {{{1}, 3},    {{2}, 2},    {{2}, 5},       {{3}, 4},       {{4}, 3},       {{1, 1, 1}, 3},
            {{2, 1}, 3}, {{2, 1}, 4}, {{2, 2}, 2},    {{2, 2}, 3},    {{3, 1}, 3},    {{1, 2}, 4},
            {{1, 3}, 3}, {{3, 2}, 2}, {{2, 1, 1}, 2}, {{1, 2, 1}, 3}, {{1, 1, 2}, 3}, {{2, 2, 1}, 2}};
}

TEST(traversal, of_iid_drafts_is_lossless) { expect_lossless_trees<draft::iid, verify::traversal<law::iid>>(trees()); }

TEST(traversal, of_sequential_drafts_is_lossless) {
    expect_lossless_trees<draft::sequential, verify::traversal<law::sequential>>(trees());
    expect_lossless_trees<draft::sequential, verify::traversal<law::sequential>>({{{2, 2, 2}, 2}, {{2, 1, 1}, 3}}, {},
                                                                                 {}, 1);
}

// A number of children that is a stopping rule: stops when the tokens drawn so far hold most of the draft's mass.
struct stops_when_covered {
    using law = multidraft::law::sequential;

    template <class G, class Q, class Real, class Source>
    multidraft::drawn_children operator()(G const& g, Q const& q, multidraft::chunk_sums<Real> const& sums,
                                          Source& source, multidraft::draw_site site,
                                          multidraft::span<token_id> out) const {
        Real covered = 0;
        for (std::size_t k = 0; k < out.size(); ++k) {
            auto const index = static_cast<multidraft::index_t>(k);
            if (covered > Real(0.5)) return {index};
            token_id const x = source.categorical(g, sums, q.size(), multidraft::weight_of{q}, out.first(k),
                                                  site(multidraft::purpose::draft, index));
            if (x == multidraft::none) return {index};
            out[k] = x;
            covered += q(x);
        }
        return {static_cast<multidraft::index_t>(out.size())};
    }
};

TEST(traversal, of_a_number_of_children_that_is_a_stopping_rule_is_lossless) {
    expect_lossless_trees<stops_when_covered, verify::traversal<law::sequential>>(
        {{{3}, 4}, {{2, 1}, 3}, {{2, 2}, 3}, {{3, 1}, 3}, {{1, 2}, 3}});
}

TEST(traversal, of_several_steps_is_lossless) {
    for (kind const k : {kind::plain, kind::no_mass}) {
        auto const models = random_models(k, 2, 4, 7);
        auto const iid =
            multidraft::testing::law_of_text(draft::iid{}, verify::traversal<law::iid>{}, shape{2, 1}, models, 4);
        auto const sequential = multidraft::testing::law_of_text(
            draft::sequential{}, verify::traversal<law::sequential>{}, shape{2, 1}, models, 4);
        EXPECT_LT(total_variation(iid.law, law_of_target(models.target, 4)), proof_tolerance);
        EXPECT_LT(total_variation(sequential.law, law_of_target(models.target, 4)), proof_tolerance);
    }
}

TEST(traversal, equals_the_golden_values_and_accepts_more_than_recursive_rejection) {
    double gained = 0;
    for (auto const& one : multidraft::testing::golden_trees()) {
        auto const target = law_of_target(one.models.target, one.children.size() + 1);
        auto const iid = law_of_step(draft::iid{}, verify::traversal<law::iid>{}, one.children, one.models);
        auto const sequential =
            law_of_step(draft::sequential{}, verify::traversal<law::sequential>{}, one.children, one.models);
        EXPECT_NEAR(iid.mean_accepted, one.mean_accepted("traversal/iid"), 1e-9) << print(one.children);
        EXPECT_NEAR(sequential.mean_accepted, one.mean_accepted("traversal/sequential"), 1e-9) << print(one.children);
        EXPECT_LT(total_variation(iid.law, target), proof_tolerance);
        EXPECT_LT(total_variation(sequential.law, target), proof_tolerance);
        EXPECT_GE(iid.mean_accepted, one.mean_accepted("recursive_rejection/iid") - 1e-9);
        EXPECT_GE(sequential.mean_accepted, one.mean_accepted("recursive_rejection/sequential") - 1e-9);
        EXPECT_LE(iid.mean_accepted, one.limit("iid") + 1e-7);
        EXPECT_LE(sequential.mean_accepted, one.limit("sequential") + 1e-7);
        gained = std::max(gained, sequential.mean_accepted - one.mean_accepted("recursive_rejection/sequential"));
    }
    EXPECT_GT(gained, 0.02);
}

// One child a node: block verification. One level: recursive rejection.
TEST(traversal, is_block_verification_of_a_chain_and_recursive_rejection_of_a_node) {
    for (kind const k : multidraft::testing::all_kinds) {
        auto const chain = random_models(k, 3, 3, 5);
        EXPECT_NEAR(law_of_step(draft::iid{}, verify::traversal<law::iid>{}, {1, 1, 1}, chain).mean_accepted,
                    law_of_step(draft::iid{}, verify::block<law::iid>{}, {1, 1, 1}, chain).mean_accepted,
                    proof_tolerance)
            << name_of(k);
        auto const node = random_models(k, 4, 1, 6);
        EXPECT_NEAR(
            law_of_step(draft::sequential{}, verify::traversal<law::sequential>{}, {3}, node).mean_accepted,
            law_of_step(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, {3}, node).mean_accepted,
            proof_tolerance)
            << name_of(k);
    }
}

// The library, which never stores a residual, takes the same decisions as the formulas.
TEST(traversal, needs_no_residual) {
    for (kind const k : multidraft::testing::all_kinds) {
        for (shape const& children : std::vector<shape>{{3}, {2, 2}, {3, 1}, {1, 2, 1}}) {
            auto const models = random_models(k, 3, static_cast<int>(children.size()), 9);
            auto const written =
                law_of_step(draft::sequential{}, bugs::plain_traversal<law::sequential>{}, children, models);
            auto const library =
                law_of_step(draft::sequential{}, verify::traversal<law::sequential>{}, children, models);
            EXPECT_NEAR(written.mean_accepted, library.mean_accepted, 1e-11) << print(children) << ", " << name_of(k);
            EXPECT_LT(total_variation(written.law, library.law), 1e-11) << print(children) << ", " << name_of(k);
            auto const written_iid = law_of_step(draft::iid{}, bugs::plain_traversal<law::iid>{}, children, models);
            auto const library_iid = law_of_step(draft::iid{}, verify::traversal<law::iid>{}, children, models);
            EXPECT_NEAR(written_iid.mean_accepted, library_iid.mean_accepted, 1e-11) << print(children) << name_of(k);
        }
    }
}

// --- Bugs ------------------------------------------------------------------------------------------------------------

template <class Sampler, class Verifier>
void expect_caught(char const* name, std::vector<shape> const& trees_of_bug) {
    for (shape const& children : trees_of_bug) {
        double worst = 0;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            auto const models = random_models(kind::plain, 3, static_cast<int>(children.size()), seed);
            worst = std::max(worst, distance_from_target(Sampler{}, Verifier{}, children, models));
        }
        std::printf("    %-24s %-6s total variation up to %.4f\n", name, print(children).c_str(), worst);
        EXPECT_GT(worst, 1e-3) << name << ", " << print(children);
    }
}

TEST(traversal, bugs_are_caught) {
    using draft::iid;
    using draft::sequential;
    expect_caught<sequential, bugs::traversal_divided_by_mass>("divided by mass", {{2, 2}, {1, 2}, {1, 3}});
    expect_caught<iid, bugs::traversal_keeps_weight<law::iid>>("keeps weight, iid", {{2, 2}, {1, 2}, {1, 1}});
    expect_caught<sequential, bugs::traversal_keeps_weight<law::sequential>>("keeps weight", {{2, 2}, {1, 2}});
    expect_caught<iid, bugs::traversal_of_plain_target<law::iid>>("plain target, iid", {{2, 2}, {1, 2}, {1, 1}});
    expect_caught<sequential, bugs::traversal_of_plain_target<law::sequential>>("plain target", {{2, 2}, {1, 2}});
    expect_caught<sequential, bugs::traversal_keeps_token>("keeps token", {{2}, {3}, {2, 1}, {2, 2}});
    expect_caught<iid, bugs::traversal_of_leaves<law::iid>>("leaves only, iid", {{2, 2}, {2, 1}, {1, 1}});
    expect_caught<sequential, bugs::traversal_of_leaves<law::sequential>>("leaves only", {{2, 2}, {2, 1}});
}

// --- Bad input -------------------------------------------------------------------------------------------------------

TEST(traversal, refuses_what_it_cannot_verify) {
    std::vector<double> const even(8, 0.5);
    std::vector<double> const certain{1, 0, 1, 0, 1, 0, 1, 0};
    double const nan = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> const bad{0.5, 0.5, nan, nan, 0.5, 0.5, 0.5, 0.5};
    std::vector<node_id> const parents{-1, 0, 0, 1};
    auto const refusal = [&](std::vector<double> const& p, std::vector<double> const& q,
                             std::vector<token_id> const& tokens, std::size_t scratch_size) -> std::string {
        std::vector<node_id> path(3, -7);
        std::vector<std::byte> scratch(scratch_size);
        multidraft::addressed_source source{multidraft::addressed_uniforms(1)};
        try {
            verify::traversal<law::iid>{}(multidraft::host_group{},
                                          multidraft::drafted<law::iid>{multidraft::tree_view{parents, tokens}},
                                          multidraft::target_rows(multidraft::probability_rows<double>(p.data(), 4, 2)),
                                          multidraft::draft_rows(multidraft::probability_rows<double>(q.data(), 4, 2)),
                                          source, 0, path, multidraft::span<std::byte>(scratch));
        } catch (multidraft::invalid_input const& refused) {
            return refused.what();
        }
        return "";
    };
    EXPECT_EQ(refusal(even, even, {0, 0, 1, 1}, 512), "");
    EXPECT_NE(refusal(even, even, {0, 0, 1, 1}, 16).find("scratch.size = 16"), std::string::npos);
    EXPECT_NE(refusal(even, certain, {0, 0, 1, 1}, 512).find("tokens[3] = 1: the draft row of node 1"),
              std::string::npos);
    EXPECT_NE(refusal(bad, even, {0, 0, 1, 1}, 512).find("target[1] = nan: the target row of node 1"),
              std::string::npos);
    EXPECT_NE(refusal(even, even, {0, 0, 2, 1}, 512).find("tokens[2] = 2"), std::string::npos);
}

}  // namespace
}  // namespace traversal_test
