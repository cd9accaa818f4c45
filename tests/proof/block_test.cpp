// Block verification: the exact law of its output, its acceptance, and errors.
#include "multidraft/verify/block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bugs/block_from_the_root.hpp"
#include "bugs/block_weights_not_capped.hpp"
#include "bugs/block_with_ratio_coins.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/scripted.hpp"
#include "support/tree_cases.hpp"

namespace block_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::node_id;
using multidraft::token_id;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::model_pair;
using multidraft::testing::print;
using multidraft::testing::proof_tolerance;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::tree_case;

std::vector<tree_case> chains() {
    return {{{1}, 1}, {{1}, 2}, {{1}, 5}, {{1, 1}, 3}, {{1, 1}, 4}, {{1, 1, 1}, 2}, {{1, 1, 1}, 3}, {{1, 1, 1, 1}, 2}};
}

TEST(block, is_lossless) {
    multidraft::testing::expect_lossless_trees<draft::iid, verify::block<law::iid>>(chains());
    multidraft::testing::expect_lossless_trees<draft::sequential, verify::block<law::sequential>>(chains());
}

// The paper's recurrences, with every residual written out; by recursion over the drafted path.
double accepted_by_definition(model_pair const& models, int depth) {
    using row = std::vector<double>;
    double total = 0;
    struct level {
        std::size_t context;
        double w;
    };
    std::vector<level> way{{0, 1.0}};
    std::function<void(double)> const extend = [&](double chance) {
        auto const at = static_cast<int>(way.size()) - 1;
        if (at < depth) {
            auto const here = way.back();
            row const& p = models.target[here.context];
            row const& q = models.draft[here.context];
            for (std::size_t x = 0; x < q.size(); ++x) {
                if (!(q[x] > 0)) continue;
                way.push_back(
                    {models.target.after(here.context, static_cast<token_id>(x)), std::min(1.0, here.w * p[x] / q[x])});
                extend(chance * q[x]);
                way.pop_back();
            }
            return;
        }
        double alive = chance;
        for (int i = depth; i > 0; --i) {
            double const w = way[static_cast<std::size_t>(i)].w;
            double h = w;
            if (i < depth) {
                row const& p = models.target[way[static_cast<std::size_t>(i)].context];
                row const& q = models.draft[way[static_cast<std::size_t>(i)].context];
                double mass = 0;
                for (std::size_t x = 0; x < q.size(); ++x) mass += std::max(w * p[x] - q[x], 0.0);
                h = mass > 0 ? mass / (mass + (1 - w)) : 0.0;
            }
            total += alive * h * i;
            alive *= 1 - h;
        }
    };
    extend(1.0);
    return total;
}

TEST(block, accepts_what_its_definition_says_and_never_less_than_token_by_token) {
    double gained = 0;
    for (kind const k : multidraft::testing::all_kinds) {
        for (shape const& children : std::vector<shape>{{1}, {1, 1}, {1, 1, 1}}) {
            for (std::uint64_t seed = 1; seed <= 5; ++seed) {
                auto const depth = static_cast<int>(children.size());
                auto const models = random_models(k, 3, depth, seed);
                double const accepted =
                    law_of_step(draft::iid{}, verify::block<law::iid>{}, children, models).mean_accepted;
                double const plain =
                    law_of_step(draft::iid{}, verify::speculative_sampling<law::iid>{}, children, models).mean_accepted;
                EXPECT_NEAR(accepted, accepted_by_definition(models, depth), 1e-9) << print(children) << name_of(k);
                EXPECT_GE(accepted, plain - proof_tolerance) << print(children) << ", " << name_of(k);
                gained = std::max(gained, accepted - plain);
                if (depth == 1) {
                    EXPECT_NEAR(accepted, plain, proof_tolerance);
                }
            }
        }
    }
    EXPECT_GT(gained, 0.02);
}

// --- Bugs ------------------------------------------------------------------------------------------------------------

template <class Verifier>
double worst_distance(shape const& children) {
    double worst = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        auto const models = random_models(kind::plain, 3, static_cast<int>(children.size()), seed);
        worst = std::max(worst, multidraft::testing::distance_from_target(draft::iid{}, Verifier{}, children, models));
    }
    std::printf("    %-6s total variation up to %.4f\n", print(children).c_str(), worst);
    return worst;
}

TEST(block, bugs_are_caught) {
    for (shape const& children : std::vector<shape>{{1, 1}, {1, 1, 1}}) {
        EXPECT_GT(worst_distance<bugs::block_from_the_root>(children), 1e-3);
        EXPECT_GT(worst_distance<bugs::block_weights_not_capped>(children), 1e-3);
        EXPECT_GT(worst_distance<bugs::block_with_ratio_coins>(children), 1e-3);
    }
}

// --- Bad input -------------------------------------------------------------------------------------------------------

struct rows {
    std::vector<double> values;
    multidraft::index_t vocabulary;
    [[nodiscard]] multidraft::index_t rows_count() const {
        return static_cast<multidraft::index_t>(values.size()) / vocabulary;
    }
    [[nodiscard]] multidraft::probability_rows<double> view() const {
        return {values.data(), rows_count(), vocabulary};
    }
};

multidraft::verdict run(std::vector<node_id> const& parents, std::vector<token_id> const& tokens, rows const& p,
                        rows const& q, std::size_t scratch_size = 256, std::vector<double> draws = {0.5, 0.5, 0.5}) {
    std::vector<node_id> path(4, -7);
    std::vector<std::byte> scratch(scratch_size);
    multidraft::testing::scripted_source source{multidraft::span<double const>(draws)};
    return verify::block<law::iid>{}(multidraft::host_group{},
                                     multidraft::drafted<law::iid>{multidraft::tree_view{parents, tokens}},
                                     multidraft::target_rows(p.view()), multidraft::draft_rows(q.view()), source, 0,
                                     path, multidraft::span<std::byte>(scratch));
}

std::string refusal(std::function<void()> const& call) {
    try {
        call();
    } catch (multidraft::invalid_input const& refused) {
        return refused.what();
    }
    return "";
}

TEST(block, refuses_what_it_cannot_verify) {
    rows const even{{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 2};
    rows const certain{{1, 0, 1, 0, 1, 0}, 2};
    EXPECT_EQ(refusal([&] { run({-1, 0, 1}, {0, 0, 1}, even, even); }), "");
    EXPECT_NE(refusal([&] {
                  run({-1, 0, 0}, {0, 0, 1}, even, even);
              }).find("children[0] = 2: block verification"),
              std::string::npos);
    EXPECT_NE(refusal([&] { run({-1, 0, 1}, {0, 0, 1}, even, even, 16); }).find("scratch.size"), std::string::npos);
    EXPECT_NE(refusal([&] {
                  run({-1, 0, 1}, {0, 0, 1}, even, certain);
              }).find("tokens[2] = 1: the draft row of node 1"),
              std::string::npos);
    double const nan = std::numeric_limits<double>::quiet_NaN();
    rows const bad{{0.5, 0.5, nan, nan, 0.5, 0.5}, 2};
    EXPECT_NE(refusal([&] {
                  run({-1, 0, 1}, {0, 0, 1}, bad, even);
              }).find("target[1] = nan: the target row of node 1"),
              std::string::npos);
    rows const bad_end{{0.5, 0.5, 0.5, 0.5, nan, nan}, 2};
    EXPECT_NE(refusal([&] { run({-1, 0, 1}, {0, 0, 1}, bad_end, even); }).find("target[2]"), std::string::npos);
}

// A prefix without mass ends the path: nothing below it is read.
TEST(block, does_not_read_below_a_prefix_without_mass) {
    double const nan = std::numeric_limits<double>::quiet_NaN();
    rows const p{{0, 1, nan, nan, nan, nan}, 2};
    rows const q{{0.5, 0.5, nan, nan}, 2};
    auto const v = run({-1, 0, 1}, {0, 0, 1}, p, q);
    EXPECT_EQ(v.accepted, 0);
    EXPECT_EQ(v.next, 1);
}

}  // namespace
}  // namespace block_test
