// Greedy multi-path block verification: the exact law of its output, the law of the kept path, and errors.
#include "multidraft/verify/multi_path_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bugs/multi_path_with_draft_law.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/tree_cases.hpp"

namespace multi_path_block_test {
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

TEST(multi_path_block, is_lossless) {
    multidraft::testing::expect_lossless_trees<draft::iid, verify::multi_path_block>({{{1}, 3},
                                                                                      {{2}, 4},
                                                                                      {{3}, 3},
                                                                                      {{4}, 2},
                                                                                      {{1, 1, 1}, 3},
                                                                                      {{2, 1}, 2},
                                                                                      {{2, 1}, 3},
                                                                                      {{2, 1}, 4},
                                                                                      {{3, 1}, 3},
                                                                                      {{4, 1}, 2},
                                                                                      {{2, 1, 1}, 2},
                                                                                      {{3, 1, 1}, 2}});
    multidraft::testing::expect_lossless_trees<draft::iid, verify::multi_path_block>({{{2, 1, 1}, 3}}, {}, {}, 1);
}

// --- The law of the kept path, by its definition ---------------------------------------------------------------------

using row = std::vector<double>;

/// The acceptance of the published form: tokens ordered by p/q, ties to the lower token, differences of powers.
double accepted_by_definition(model_pair const& models, int paths, int depth) {
    struct step {
        std::size_t context;
        double w;
        row m;
    };
    double total = 0;
    std::vector<step> way;
    auto const law_of = [&](std::size_t context, double prefix, double below) {
        row const& p = models.target[context];
        row const& q = models.draft[context];
        row m(p.size(), 0.0);
        for (std::size_t x = 0; x < p.size(); ++x) {
            if (!(q[x] > 0)) continue;
            double worse = 0;
            for (std::size_t y = 0; y < p.size(); ++y)
                if (q[y] > 0 && (p[y] * q[x] < p[x] * q[y] || (p[y] * q[x] == p[x] * q[y] && y < x))) worse += q[y];
            double const a = below + prefix * worse;
            m[x] = (std::pow(a + prefix * q[x], paths) - std::pow(a, paths)) /
                   (std::pow(below + prefix, paths) - std::pow(below, paths));
        }
        return m;
    };
    std::function<void(std::size_t, double, double, double, double)> const extend =
        [&](std::size_t context, double w, double chance, double prefix, double below) {
            if (static_cast<int>(way.size()) == depth) {
                way.push_back({context, w, {}});
                double alive = chance;
                for (int i = depth; i > 0; --i) {
                    auto const& at = way[static_cast<std::size_t>(i)];
                    double h = at.w;
                    if (i < depth) {
                        double mass = 0;
                        for (std::size_t x = 0; x < at.m.size(); ++x)
                            mass += std::max(at.w * models.target[at.context][x] - at.m[x], 0.0);
                        h = mass > 0 ? mass / (mass + 1 - at.w) : 0.0;
                    }
                    total += alive * h * i;
                    alive *= 1 - h;
                }
                way.pop_back();
                return;
            }
            row const m = law_of(context, prefix, below);
            row const& p = models.target[context];
            row const& q = models.draft[context];
            way.push_back({context, w, m});
            for (std::size_t x = 0; x < m.size(); ++x) {
                if (!(m[x] > 0)) continue;
                double worse = 0;
                for (std::size_t y = 0; y < p.size(); ++y)
                    if (q[y] > 0 && (p[y] * q[x] < p[x] * q[y] || (p[y] * q[x] == p[x] * q[y] && y < x))) worse += q[y];
                extend(models.target.after(context, static_cast<token_id>(x)), std::min(1.0, w * p[x] / m[x]),
                       chance * m[x], prefix * q[x], below + prefix * worse);
            }
            way.pop_back();
        };
    extend(0, 1.0, 1.0, 1.0, 0.0);
    return total;
}

/// Whether no two ratios of a model share a class.
bool has_no_ties(model_pair const& models) {
    for (std::size_t c = 0; c < models.target.contexts(); ++c) {
        std::vector<multidraft::index_t> classes;
        for (std::size_t x = 0; x < models.target[c].size(); ++x)
            classes.push_back(verify::detail::ratio_class(models.target[c][x], models.draft[c][x]));
        std::sort(classes.begin(), classes.end());
        if (std::adjacent_find(classes.begin(), classes.end()) != classes.end()) return false;
    }
    return true;
}

TEST(multi_path_block, accepts_what_the_published_form_does) {
    int compared = 0;
    int with_ties = 0;
    double tied = 0;
    double above_block = 0;
    for (shape const& children : std::vector<shape>{{2}, {3}, {2, 1}, {3, 1}, {2, 1, 1}}) {
        auto const depth = static_cast<int>(children.size());
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
            auto const models = random_models(kind::plain, depth == 3 ? 2 : 3, depth, seed);
            auto const here = law_of_step(draft::iid{}, verify::multi_path_block{}, children, models).mean_accepted;
            if (has_no_ties(models)) {
                EXPECT_NEAR(here, accepted_by_definition(models, children[0], depth), 1e-9) << print(children);
                ++compared;
            } else {  // an order with ties is another order, neither better nor worse
                tied += here - accepted_by_definition(models, children[0], depth);
                ++with_ties;
            }
            shape const chain(children.size(), 1);
            auto const one = law_of_step(draft::iid{}, verify::block<law::iid>{}, chain, models).mean_accepted;
            above_block = std::max(above_block, here - one);
        }
    }
    EXPECT_GT(compared, 20);
    EXPECT_GT(above_block, 0.1);
    std::printf("    %d models without ties; up to %.3f tokens above one path\n", compared, above_block);
    if (with_ties > 0) std::printf("    %d models with ties: on average %+.4f tokens\n", with_ties, tied / with_ties);
}

TEST(multi_path_block, of_one_path_is_block_verification) {
    for (kind const k : multidraft::testing::all_kinds) {
        auto const models = random_models(k, 3, 3, 5);
        EXPECT_NEAR(law_of_step(draft::iid{}, verify::multi_path_block{}, {1, 1, 1}, models).mean_accepted,
                    law_of_step(draft::iid{}, verify::block<law::iid>{}, {1, 1, 1}, models).mean_accepted,
                    proof_tolerance)
            << name_of(k);
    }
}

TEST(multi_path_block, compared_with_the_other_verifiers_of_a_fork) {
    for (shape const& children : std::vector<shape>{{2, 1}, {3, 1}}) {
        double multi = 0;
        double traversal = 0;
        double recursive = 0;
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            auto const models = random_models(kind::plain, 3, 2, seed);
            multi += law_of_step(draft::iid{}, verify::multi_path_block{}, children, models).mean_accepted / 10;
            traversal += law_of_step(draft::iid{}, verify::traversal<law::iid>{}, children, models).mean_accepted / 10;
            recursive +=
                law_of_step(draft::iid{}, verify::recursive_rejection<law::iid>{}, children, models).mean_accepted / 10;
        }
        std::printf("    %s: multi-path %.4f, traversal %.4f, recursive rejection %.4f\n", print(children).c_str(),
                    multi, traversal, recursive);
        EXPECT_GT(multi, recursive);
    }
}

// --- The law of the kept path, in numbers ----------------------------------------------------------------------------

TEST(multi_path_block, first_survivors_are_a_law) {
    // Classes of several tokens: the factors times the masses sum to 1 at every level.
    std::vector<double> first{1, 0, 0, 0, 0};
    double survive = 1;
    std::vector<double> const masses{0.2, 0.3, 0.05, 0.45};
    for (int level = 0; level < 6; ++level) {
        verify::detail::first_survivor const who{first.data(), 5, survive};
        double below = 0;
        double total = 0;
        for (double const mass : masses) {
            total += mass * who.factor(below, mass);
            below += mass;
        }
        EXPECT_NEAR(total, 1, 1e-14);
        EXPECT_NEAR(std::accumulate(first.begin(), first.end(), 0.0), 1, 1e-14);
        std::vector<double> next(5);
        survive = who.after(0.5, 0.05, 0.02, next.data());
        first = next;
        EXPECT_GT(survive, 0);
        EXPECT_LE(survive, 1);
    }
}

// The difference of powers of the papers loses all its digits where a token has little mass; the recurrence does not.
TEST(multi_path_block, subtracts_no_powers) {
    std::vector<double> const first{1, 0, 0, 0, 0, 0, 0, 0};
    double const worse = 0.7;
    double const mass = 1e-9;
    double const right = 8 * std::pow(worse, 7);  // the derivative of t^8, to 1e-8
    double const here = verify::detail::first_survivor{first.data(), 8, 1.0}.factor(worse, mass);
    double const naive = (std::pow(worse + mass, 8) - std::pow(worse, 8)) / mass;
    float const naive_float = (std::pow(0.7F + 1e-9F, 8.0F) - std::pow(0.7F, 8.0F)) / 1e-9F;
    EXPECT_NEAR(here / right, 1, 1e-7);
    EXPECT_GT(std::abs(static_cast<double>(naive_float) / right - 1), 0.5);
    std::printf("    relative error %.1e, by subtraction %.1e in double, %.1e in float\n", std::abs(here / right - 1),
                std::abs(naive / right - 1), std::abs(static_cast<double>(naive_float) / right - 1));
}

// --- Bugs ------------------------------------------------------------------------------------------------------------

TEST(multi_path_block, bugs_are_caught) {
    for (shape const& children : std::vector<shape>{{2}, {3}, {2, 1}}) {
        double worst = 0;
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            auto const models = random_models(kind::plain, 3, static_cast<int>(children.size()), seed);
            worst = std::max(worst, multidraft::testing::distance_from_target(
                                        draft::iid{}, bugs::multi_path_with_draft_law{}, children, models));
        }
        std::printf("    %-6s total variation up to %.4f\n", print(children).c_str(), worst);
        EXPECT_GT(worst, 1e-3);
    }
}

// --- Bad input -------------------------------------------------------------------------------------------------------

TEST(multi_path_block, refuses_what_it_cannot_verify) {
    std::vector<double> const even(10, 0.5);
    std::vector<double> const certain{1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    auto const refusal = [&](std::vector<node_id> const& parents, std::vector<token_id> const& tokens,
                             std::vector<double> const& q, std::size_t scratch_size) -> std::string {
        std::vector<node_id> path(4, -7);
        std::vector<std::byte> scratch(scratch_size);
        multidraft::addressed_source source{multidraft::addressed_uniforms(1)};
        try {
            verify::multi_path_block{}(multidraft::host_group{},
                                       multidraft::drafted<law::iid>{multidraft::tree_view{parents, tokens}},
                                       multidraft::target_rows(multidraft::probability_rows<double>(even.data(), 5, 2)),
                                       multidraft::draft_rows(multidraft::probability_rows<double>(q.data(), 5, 2)),
                                       source, 0, path, multidraft::span<std::byte>(scratch));
        } catch (multidraft::invalid_input const& refused) {
            return refused.what();
        }
        return "";
    };
    EXPECT_EQ(refusal({-1, 0, 0, 1, 2}, {0, 0, 1, 1, 0}, even, 8192), "");
    EXPECT_EQ(refusal({-1}, {0}, even, 8192), "");
    EXPECT_NE(refusal({-1, 0, 0, 1, 1}, {0, 0, 1, 1, 0}, even, 8192).find("paths of one length"), std::string::npos);
    EXPECT_NE(refusal({-1, 0, 0, 1}, {0, 0, 1, 1}, even, 8192).find("paths of one length"), std::string::npos);
    EXPECT_NE(refusal({-1, 0, 0, 1, 2}, {0, 0, 1, 1, 0}, even, 64).find("scratch.size = 64"), std::string::npos);
    EXPECT_NE(refusal({-1, 0, 0, 1, 2}, {0, 0, 1, 1, 0}, certain, 8192).find("the draft row of node"),
              std::string::npos);
}

}  // namespace
}  // namespace multi_path_block_test
