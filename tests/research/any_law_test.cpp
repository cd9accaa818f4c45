// alpha* by its definition, q-convexity and the prefixes of Hu et al. (Definition 2, Theorems 3 to 6), and candidates
// of several drafts.
#include "multidraft/research/any_law.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/research/independent.hpp"
#include "multidraft/testing/kinds.hpp"
#include "support/optimal_transport.hpp"
#include "support/refusal.hpp"

namespace any_law_test {
namespace {

namespace analysis = multidraft::analysis;
namespace research = multidraft::research;
using multidraft::index_t;
using multidraft::token_id;
using multidraft::testing::all_kinds;
using multidraft::testing::kind;
using multidraft::testing::random_models;
using multidraft::testing::refusal;
using multidraft::testing::transport_plan;
using research::token_set;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

double mass_of(token_set set, row const& q) {
    double sum = 0;
    for (std::size_t i = 0; i < q.size(); ++i) sum += (set >> i & 1U) != 0 ? q[i] : 0.0;
    return sum;
}

/// Conditionals of draws without replacement.
auto without_replacement(row const& q) {
    return [&q](std::span<token_id const> drawn) {
        row left = q;
        for (token_id const x : drawn) left[static_cast<std::size_t>(x)] = 0;
        double sum = 0;
        for (double const x : left) sum += x;
        for (double& x : left) x = sum > 0 ? x / sum : 0.0;
        return left;
    };
}

/// Q of n independent draws conditioned on being different.
auto conditional_poisson(row const& q, index_t n) {
    research::tuple_law law;
    double all = 0;
    for (auto const& [tuple, chance] :
         research::law_of_conditionals(n, [&q](std::span<token_id const>) { return q; })) {
        auto different = tuple;
        std::sort(different.begin(), different.end());
        if (std::adjacent_find(different.begin(), different.end()) != different.end()) continue;
        law[tuple] = chance;
        all += chance;
    }
    for (auto& [tuple, chance] : law) chance /= all;
    return law;
}

constexpr kind kinds[] = {kind::plain, kind::no_mass, kind::disjoint, kind::equal, kind::ties, kind::sharp};

TEST(AnyLaw, HasTheOptimumOfTheLawsThatAreKnown) {
    for (kind const k : kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 5, 0, seed);
            row const& p = models.target[0];
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 4; ++n) {
                auto const iid = [&](token_set set) { return std::pow(mass_of(set, q), n); };
                EXPECT_NEAR(research::alpha_star_of_sets(p, iid).alpha_star, analysis::alpha_star_iid(p, q, n),
                            tolerance);
                auto const sequential = research::law_of_conditionals(n, without_replacement(q));
                EXPECT_NEAR(research::alpha_star_of_law(p, sequential).alpha_star,
                            analysis::alpha_star_sequential(p, q, n), tolerance);
                if (n > analysis::detail::support_of(q)) continue;
                EXPECT_NEAR(research::alpha_star_of_law(p, conditional_poisson(q, n)).alpha_star,
                            analysis::alpha_star_conditional_poisson(p, q, n), tolerance);
            }
        }
    }
}

TEST(AnyLaw, HasTheOptimumOfThePlanOfTransport) {
    for (kind const k : kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 4, 1, seed);
            row const& p = models.target[0];
            // Each token shifts the next one's row: a law without a known formula.
            auto const shifted = [&](std::span<token_id const> drawn) {
                return drawn.empty() ? models.draft[0] : models.draft[models.draft.after(0, drawn.back())];
            };
            for (index_t n = 1; n <= 3; ++n) {
                auto const law = research::law_of_conditionals(n, shifted);
                auto const found = research::alpha_star_of_law(p, law);
                transport_plan const plan(law, p);
                EXPECT_NEAR(found.alpha_star, plan.acceptance(), 1e-11);
                research::inside_probabilities const inside(law, 4);
                EXPECT_NEAR(found.alpha_star, 1 + mass_of(found.set, p) - inside(found.set), tolerance)
                    << "the set shows it";
                EXPECT_LE(analysis::acceptance_recursive_conditionals(p, n, shifted), found.alpha_star + tolerance);
            }
        }
    }
}

// Theorem 3, and Theorem 4 for the law of its proof: draws conditioned on being different.
TEST(QConvexity, HoldsForDrawsWithReplacementAndForDifferentOnes) {
    for (kind const k : kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 5, 0, seed);
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 4; ++n) {
                auto const iid = [&](token_set set) { return std::pow(mass_of(set, q), n); };
                EXPECT_LE(research::lack_of_q_convexity(q, iid), tolerance);
                EXPECT_LE(research::lack_of_supermodularity(5, iid), tolerance);  // Theorem 5
                if (n > analysis::detail::support_of(q)) continue;
                research::inside_probabilities const different(conditional_poisson(q, n), 5);
                EXPECT_LE(research::lack_of_q_convexity(q, different), tolerance);
                EXPECT_LE(research::lack_of_supermodularity(5, different), tolerance);
            }
        }
    }
}

// Draws one after another without replacement, the paper's (6), are another law than that of its proof of Theorem 4.
// The theorem holds for it too (docs/research.md has the proof), so that its optimum is at a prefix.
TEST(QConvexity, HoldsForDrawsOneAfterAnother) {
    for (kind const k : all_kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 5, 0, seed);
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 5; ++n) {
                research::inside_probabilities const inside(research::law_of_conditionals(n, without_replacement(q)),
                                                            5);
                EXPECT_LE(research::lack_of_q_convexity(q, inside), tolerance) << name_of(k) << ", n = " << n;
                EXPECT_LE(research::lack_of_supermodularity(5, inside), tolerance);
            }
        }
    }
}

// Every Q is supermodular, that of dependent drafts too, but not every one is q-convex: here it is so for no q. Tokens
// 0 and 1 are drawn by the first draft, 2 and 3 by the second; (17) with H of one token requires q(1) <= q(3) / 9 and
// q(3) <= q(1) / 9.
TEST(QConvexity, FailsForTheProductOfDifferentDrafts) {
    row const first{0.9, 0.1, 0, 0};
    row const second{0, 0, 0.9, 0.1};
    auto const product = [&](token_set set) { return mass_of(set, first) * mass_of(set, second); };
    EXPECT_LE(research::lack_of_supermodularity(4, product), tolerance);
    for (row const& q : {first, second, row{0.25, 0.25, 0.25, 0.25}, row{0.45, 0.05, 0.45, 0.05}, row{0.5, 0, 0.5, 0}})
        EXPECT_GT(research::lack_of_q_convexity(q, product), 1e-3);
}

// What 4.2.2 computes for draws without replacement is the optimum of the other law: no bound in either direction.
TEST(QConvexity, OfTheOtherLawBoundsNothingHere) {
    int above = 0;
    int below = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
        auto const models = random_models(kind::plain, 5, 0, seed);
        row const& p = models.target[0];
        row const& q = models.draft[0];
        double const optimum = analysis::alpha_star_sequential(p, q, 2);
        double const formula = analysis::alpha_star_conditional_poisson(p, q, 2);
        above += formula > optimum + 1e-9 ? 1 : 0;
        below += formula < optimum - 1e-9 ? 1 : 0;
    }
    EXPECT_GT(above, 40);
    EXPECT_GT(below, 2);
}

// Theorem 6: where Q is q-convex the minimum is at a prefix by q/p; elsewhere prefixes give no less.
TEST(QConvexity, PutsTheMinimumAtAPrefix) {
    for (kind const k : kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 5, 1, seed);
            row const& p = models.target[0];
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 3; ++n) {
                auto const iid = [&](token_set set) { return std::pow(mass_of(set, q), n); };
                EXPECT_NEAR(research::alpha_star_of_prefixes(p, q, iid).alpha_star,
                            research::alpha_star_of_sets(p, iid).alpha_star, tolerance);
                std::vector<row> const drafts{q, models.draft[models.draft.after(0, 0)]};
                auto const product = [&](token_set set) { return mass_of(set, drafts[0]) * mass_of(set, drafts[1]); };
                EXPECT_GE(research::alpha_star_of_prefixes(p, q, product).alpha_star,
                          research::alpha_star_of_sets(p, product).alpha_star - tolerance);
            }
        }
    }
}

TEST(SeveralDrafts, HaveTheOptimumOfTheProduct) {
    bool prefixes_fail = false;
    for (kind const k : kinds) {
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            auto const models = random_models(k, 4, 1, seed);
            row const& p = models.target[0];
            std::vector<row> drafts;
            for (token_id x = 0; x < 3; ++x) {
                drafts.push_back(models.draft[x == 0 ? 0 : models.draft.after(0, x)]);
                auto const best = research::alpha_star_independent(p, drafts);
                auto const law = research::law_of_independent(drafts);
                transport_plan const plan(law, p);
                EXPECT_NEAR(best.alpha_star, plan.acceptance(), 1e-11);
                EXPECT_NEAR(best.alpha_star, research::alpha_star_of_law(p, law).alpha_star, tolerance);
                double const rate = research::acceptance_multi_round(p, drafts);
                EXPECT_NEAR(rate,
                            analysis::acceptance_recursive_conditionals(
                                p, static_cast<index_t>(drafts.size()),
                                [&](std::span<token_id const> drawn) { return drafts[drawn.size()]; }),
                            tolerance);
                EXPECT_LE(rate, best.alpha_star + tolerance);
                double naive = 0;
                for (auto const& [tuple, chance] : law) {
                    token_set set = 0;
                    for (token_id const t : tuple) set |= token_set{1} << t;
                    naive += chance * mass_of(set, p);
                }
                EXPECT_NEAR(research::acceptance_naive_independent(p, drafts), naive, tolerance);
                if (drafts.size() < 2) continue;
                auto const product = [&](token_set set) {
                    double all = 1;
                    for (row const& q : drafts) all *= mass_of(set, q);
                    return all;
                };
                EXPECT_LE(research::lack_of_supermodularity(4, product), tolerance);
                for (row const& q : drafts)
                    prefixes_fail = prefixes_fail ||
                                    research::alpha_star_of_prefixes(p, q, product).alpha_star > best.alpha_star + 1e-6;
            }
        }
    }
    EXPECT_TRUE(prefixes_fail) << "so that all sets have to be walked";
    row const p{0.25, 0.75};
    EXPECT_NEAR(research::alpha_star_independent(p, std::vector<row>{{0.5, 0.5}, {0.5, 0.5}}).alpha_star,
                analysis::alpha_star_iid(p, row{0.5, 0.5}, 2), tolerance);
}

TEST(AnyLaw, RefusesWhatIsNone) {
    row const p{0.5, 0.5};
    auto const nothing = [](token_set) { return 0.0; };
    EXPECT_EQ(refusal([&] { return research::alpha_star_of_sets(row(25, 0.04), nothing); }),
              "p.size = 25: sets of tokens are walked for vocabularies of 1 to 24 tokens");
    EXPECT_EQ(refusal([&] {
                  return research::alpha_star_of_sets(row{0.5, 0.25}, nothing);
              }),
              "sum(p) = 0.75: the probabilities of a row sum to 1");
    EXPECT_EQ(refusal([&] {
                  return research::alpha_star_of_law(p, {{{0, 2}, 1.0}});
              }),
              "law[0] = 2: a token is in 0 .. V - 1");
    EXPECT_EQ(refusal([&] {
                  return research::alpha_star_of_law(p, {{{0}, 0.5}});
              }),
              "sum(law) = 0.5: the probabilities of a row sum to 1");
    EXPECT_EQ(refusal([&] { return research::lack_of_supermodularity(0, nothing); }),
              "vocabulary = 0: sets of tokens are walked for vocabularies of 1 to 24 tokens");
    EXPECT_EQ(refusal([&] { return research::alpha_star_independent(p, {}); }),
              "drafts.size = 0: one token or more is drafted");
    std::vector<row> const other{{0.5, 0.5}, {1.0}};
    EXPECT_EQ(refusal([&] { return research::acceptance_multi_round(p, other); }),
              "drafts[1].size = 1: target and draft have one vocabulary");
    EXPECT_EQ(refusal([&] { return research::law_of_conditionals(0, without_replacement(p)); }),
              "n = 0: one token or more is drafted");
    EXPECT_EQ(refusal([&] {
                  return analysis::acceptance_recursive_conditionals(
                      p, 1, [](std::span<token_id const>) { return row{1.0}; });
              }),
              "conditional.size = 1: target and draft have one vocabulary");
}

}  // namespace
}  // namespace any_law_test
