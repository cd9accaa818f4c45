// The optimal acceptance rates: against golden values, closed forms of easy rows and the definition by sets.
#include "multidraft/analysis/alpha_star.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "support/golden.hpp"
#include "support/refusal.hpp"

namespace alpha_star_test {
namespace {

namespace analysis = multidraft::analysis;
using multidraft::index_t;
using multidraft::testing::golden_cases;
using multidraft::testing::refusal;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

TEST(alpha_star, equals_the_golden_values) {
    auto const cases = golden_cases();
    ASSERT_GE(cases.size(), 36U);
    for (auto const& c : cases) {
        EXPECT_NEAR(analysis::alpha_star_iid(c.p, c.q, c.n), c.alpha_star("iid"), tolerance);
        EXPECT_NEAR(analysis::alpha_star_sequential(c.p, c.q, c.n), c.alpha_star("sequential"), tolerance);
        EXPECT_NEAR(analysis::alpha_star_conditional_poisson(c.p, c.q, c.n), c.alpha_star("conditional_poisson"),
                    tolerance);
        for (auto const& [j, rate] : c.rates.at("alpha_star").at("stratified").items())
            EXPECT_NEAR(analysis::alpha_star_stratified(c.p, c.q, c.n, std::stoi(j)), rate.get<double>(), tolerance);
        if (c.rates.at("alpha_star").contains("lp_iid")) {  // solved to about 1e-9
            EXPECT_NEAR(analysis::alpha_star_iid(c.p, c.q, c.n), c.alpha_star("lp_iid"), 1e-8);
            EXPECT_NEAR(analysis::alpha_star_sequential(c.p, c.q, c.n), c.alpha_star("lp_sequential"), 1e-8);
        }
    }
}

/// 1 + min over all sets H of p(H) - Q(H), with Q summed over all ordered drafts of the law `chance`.
template <class Chance>
double by_definition(row const& p, index_t n, Chance chance) {
    auto const size = p.size();
    std::vector<double> inside(std::size_t{1} << size, 0.0);  // by the set of drafted tokens, then by the set around it
    std::vector<std::size_t> draft(static_cast<std::size_t>(n), 0);
    for (;;) {
        std::size_t set = 0;
        for (auto const x : draft) set |= std::size_t{1} << x;
        inside[set] += chance(draft);
        std::size_t k = 0;
        while (k < draft.size() && ++draft[k] == size) draft[k++] = 0;
        if (k == draft.size()) break;
    }
    for (std::size_t i = 0; i < size; ++i)
        for (std::size_t set = 0; set < inside.size(); ++set)
            if ((set >> i & 1U) != 0) inside[set] += inside[set ^ (std::size_t{1} << i)];
    double least = 0;
    for (std::size_t set = 0; set < inside.size(); ++set) {
        double mass = 0;
        for (std::size_t i = 0; i < size; ++i) mass += (set >> i & 1U) != 0 ? p[i] : 0.0;
        least = std::min(least, mass - inside[set]);
    }
    return 1 + least;
}

TEST(alpha_star, is_the_minimum_over_all_sets) {
    using multidraft::testing::kind;
    for (kind const k : {kind::plain, kind::no_mass, kind::disjoint, kind::equal}) {
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
            auto const models = multidraft::testing::random_models(k, 5, 0, seed);
            row const& p = models.target[0];
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 4; ++n) {
                if (n > analysis::detail::support_of(q)) continue;
                double const iid = by_definition(p, n, [&](auto const& draft) {
                    double chance = 1;
                    for (auto const x : draft) chance *= q[x];
                    return chance;
                });
                EXPECT_NEAR(analysis::alpha_star_iid(p, q, n), iid, tolerance);
                double const sequential = by_definition(p, n, [&](auto const& draft) {
                    double chance = 1;
                    row left = q;
                    for (auto const x : draft) {
                        double mass = 0;
                        for (double const y : left) mass += y;
                        chance *= mass > 0 ? left[x] / mass : 0.0;
                        left[x] = 0;
                    }
                    return chance;
                });
                EXPECT_NEAR(analysis::alpha_star_sequential(p, q, n), sequential, tolerance);
                double all = 0;
                auto const product = [&](auto const& draft) {
                    double chance = 1;
                    for (std::size_t a = 0; a < draft.size(); ++a)
                        for (std::size_t b = 0; b <= a; ++b)
                            chance *= b == a ? q[draft[a]] : (draft[a] != draft[b] ? 1.0 : 0.0);
                    return chance;
                };
                by_definition(p, n, [&](auto const& draft) {
                    all += product(draft);
                    return 0.0;
                });
                double const poisson = by_definition(p, n, [&](auto const& draft) { return product(draft) / all; });
                EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, n), poisson, tolerance);
            }
        }
    }
}

TEST(alpha_star, is_one_minus_total_variation_for_one_draft) {
    for (auto const& c : golden_cases()) {
        double overlap = 0;
        for (std::size_t i = 0; i < c.p.size(); ++i) overlap += std::min(c.p[i], c.q[i]);
        EXPECT_NEAR(analysis::alpha_star_iid(c.p, c.q, 1), overlap, tolerance);
        EXPECT_NEAR(analysis::alpha_star_sequential(c.p, c.q, 1), overlap, tolerance);
        EXPECT_NEAR(analysis::alpha_star_conditional_poisson(c.p, c.q, 1), overlap, tolerance);
        EXPECT_NEAR(analysis::alpha_star_stratified(c.p, c.q, 1, 1), overlap, tolerance);
    }
}

TEST(alpha_star, of_stratified_drafts_is_that_of_iid_and_of_the_greedy_draft_at_its_ends) {
    for (auto const& c : golden_cases()) {
        EXPECT_NEAR(analysis::alpha_star_stratified(c.p, c.q, c.n, c.n), analysis::alpha_star_iid(c.p, c.q, c.n),
                    tolerance);
        // Optimal MDSD, Theorem 7.
        auto const top = analysis::detail::top(c.q, c.n - 1);
        double rest = 1;
        for (std::size_t const i : top) rest -= c.q[i];
        double expected = 0;
        for (std::size_t i = 0; i < c.p.size(); ++i)
            expected += std::find(top.begin(), top.end(), i) != top.end() ? c.p[i] : std::min(c.p[i], c.q[i] / rest);
        EXPECT_NEAR(analysis::alpha_star_stratified(c.p, c.q, c.n, 1), expected, 1e-10);
    }
}

TEST(alpha_star, is_one_for_equal_rows) {
    row const p{0.5, 0.25, 0.125, 0.125};
    for (index_t n = 1; n <= 4; ++n) {
        EXPECT_DOUBLE_EQ(analysis::alpha_star_iid(p, p, n), 1);
        EXPECT_DOUBLE_EQ(analysis::alpha_star_sequential(p, p, n), 1);
        EXPECT_DOUBLE_EQ(analysis::alpha_star_conditional_poisson(p, p, n), 1);
        for (index_t j = 1; j <= n; ++j) EXPECT_DOUBLE_EQ(analysis::alpha_star_stratified(p, p, n, j), 1);
    }
}

TEST(alpha_star, is_the_mass_of_the_draft_when_the_draft_is_certain) {
    row const p{0.1, 0.7, 0.2};
    row const q{0, 0, 1};
    for (index_t n = 1; n <= 5; ++n) {
        EXPECT_NEAR(analysis::alpha_star_iid(p, q, n), 0.2, tolerance);
        EXPECT_NEAR(analysis::alpha_star_sequential(p, q, n), 0.2, tolerance);  // only one token can be drawn
        EXPECT_NEAR(analysis::alpha_star_stratified(p, q, n, 1), 0.2, tolerance);
        EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, n), 0.2, tolerance);
    }
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, 1), 0.2, tolerance);
    EXPECT_NEAR(analysis::alpha_star_iid(q, p, 2), 1 - 0.8 * 0.8, tolerance);  // the target is certain
    EXPECT_NEAR(analysis::alpha_star_iid(row{1}, row{1}, 3), 1, tolerance);
}

TEST(alpha_star, is_the_mass_of_the_support_when_all_of_it_is_drafted) {
    row const p{0.1, 0.2, 0.3, 0.4};
    row const q{0.5, 0.3, 0, 0.2};
    for (index_t n = 3; n <= 6; ++n) {
        EXPECT_NEAR(analysis::alpha_star_sequential(p, q, n), 0.7, tolerance);
        EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, n), 0.7, tolerance);
    }
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, 3), 0.7, tolerance);
    EXPECT_NEAR(analysis::alpha_star_stratified(p, q, 4, 1), 0.7, tolerance);
}

TEST(alpha_star, of_deterministic_drafts_takes_the_lower_token_of_a_tie) {
    row const p{0.1, 0.2, 0.3, 0.4};
    row const q{0.2, 0.4, 0.2, 0.2};
    EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, 1), 0.2, tolerance);
    EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, 2), 0.3, tolerance);
    EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, 3), 0.6, tolerance);
    EXPECT_NEAR(analysis::alpha_star_deterministic(p, q, 4), 1.0, tolerance);
}

TEST(alpha_star, survives_extreme_rows) {
    // The second token drawn is one of three of tiny mass.
    row const p{0.1, 0.6, 0.2, 0.1};
    row const q{1, 1e-40, 2e-40, 1e-40};
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, 2), 0.65, tolerance);
    EXPECT_NEAR(analysis::alpha_star_sequential(p, q, 2), 0.65, tolerance);  // H = {0, 2, 3}: 0.4 - 0.75
    EXPECT_NEAR(analysis::alpha_star_iid(p, q, 2), 0.1, tolerance);
}

TEST(alpha_star, of_conditional_poisson_of_many_tokens_and_of_tiny_ones) {
    // For equal q it is the mass of a set of half the tokens: those of p = 0 are inside with their hypergeometric
    // probability.
    std::size_t const size = 20000;
    row const q(size, 1.0 / static_cast<double>(size));
    row p(size, 0.0);
    std::size_t const heavy = 500;
    for (std::size_t i = 0; i < heavy; ++i) p[i] = 1.0 / static_cast<double>(heavy);
    for (index_t const n : {2, 100, 300}) {
        double missed = 1;  // no heavy token is drafted
        for (index_t k = 0; k < n; ++k)
            missed *= static_cast<double>(size - heavy - static_cast<std::size_t>(k)) /
                      static_cast<double>(size - static_cast<std::size_t>(k));
        EXPECT_NEAR(analysis::alpha_star_conditional_poisson(p, q, n), 1 - missed, 1e-10) << n;
    }
    // Five tokens of mass and five of almost none, all of them drafted but one.
    row steep{0.2, 0.2, 0.2, 0.2, 0.2, 1e-300, 1e-300, 1e-300, 1e-300, 1e-300};
    row other(10, 0.1);
    double const rate = analysis::alpha_star_conditional_poisson(other, steep, 9);
    EXPECT_NEAR(rate, 1, 1e-12);  // one of five equal ones is missing: any token of the target can be reached
    EXPECT_NEAR(analysis::alpha_star_conditional_poisson(other, steep, 10), 1, 1e-12);
}

TEST(alpha_star, grows_with_the_number_of_drafts_and_bounds_replacement) {
    for (auto const& c : golden_cases()) {
        double last = 0;
        for (index_t n = 1; n <= 4; ++n) {
            double const rate = analysis::alpha_star_iid(c.p, c.q, n);
            EXPECT_GE(rate, last - tolerance);
            last = rate;
            if (n < analysis::detail::support_of(c.q)) {
                EXPECT_GE(analysis::alpha_star_sequential(c.p, c.q, n), rate - tolerance);
            }
        }
    }
}

TEST(alpha_star, refuses_what_is_no_distribution) {
    row const p{0.5, 0.5};
    auto const nan = std::numeric_limits<double>::quiet_NaN();
    auto const all = [&](row const& a, row const& b, index_t n, index_t j) {
        std::vector<std::string> messages{
            refusal([&] { static_cast<void>(analysis::alpha_star_iid(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::alpha_star_sequential(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::alpha_star_conditional_poisson(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::alpha_star_deterministic(a, b, n)); }),
            refusal([&] { static_cast<void>(analysis::alpha_star_stratified(a, b, n, j)); })};
        for (auto const& m : messages) EXPECT_EQ(m, messages.front());
        return messages.front();
    };
    EXPECT_EQ(all({0.5, nan}, p, 1, 1), "p[1] = nan: a probability is finite and not negative");
    EXPECT_EQ(all(p, {1.25, -0.25}, 1, 1), "q[1] = -0.25: a probability is finite and not negative");
    EXPECT_EQ(all(p, {std::numeric_limits<double>::infinity(), 0}, 1, 1),
              "q[0] = inf: a probability is finite and not negative");
    EXPECT_EQ(all({0.5, 0.25}, p, 1, 1), "sum(p) = 0.75: the probabilities of a row sum to 1");
    EXPECT_EQ(all(p, {0.5, 0.25, 0.25}, 1, 1), "q.size = 3: target and draft have one vocabulary");
    EXPECT_EQ(all({}, {}, 1, 1), "p.size = 0: a row has 1 to 2^31 - 4097 entries");
    EXPECT_EQ(all(p, p, 0, 1), "n = 0: one token or more is drafted");
    EXPECT_EQ(refusal([&] { static_cast<void>(analysis::alpha_star_stratified(p, p, 2, 3)); }),
              "j = 3: of n = 2 tokens 1 to n are drawn at random");
    EXPECT_EQ(refusal([&] { static_cast<void>(analysis::alpha_star_stratified(p, p, 2, 0)); }),
              "j = 0: of n = 2 tokens 1 to n are drawn at random");
    EXPECT_EQ(refusal([&] { static_cast<void>(analysis::alpha_star_conditional_poisson(p, p, 3)); }),
              "n = 3: there are fewer tokens to which q gives mass");
}

TEST(alpha_star, takes_rows_that_were_computed_in_single_precision) {
    row const p{0.5, 0.50001};
    EXPECT_NEAR(analysis::alpha_star_iid(p, p, 2), 1, tolerance);
}

}  // namespace
}  // namespace alpha_star_test
