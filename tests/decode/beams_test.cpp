// Stochastic beams: the law of the kept sequences, by chi-squared against its exact formula, and of the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "decode/text_laws.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/stochastic_beam_drafter.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/chi_squared.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace beams_test {
namespace {

using testing::chi_squared_test;
using testing::conditional;
using testing::random_conditional;
using testing::table_model;

constexpr std::int32_t vocabulary = 3;
constexpr std::uint64_t runs = 60000;

using outcome = std::vector<token_id>;

/// The p-value of counts against a law, every outcome a category.
double p_value(std::map<outcome, std::uint64_t> const& counts, std::map<outcome, double> const& law) {
    std::vector<std::uint64_t> n;
    std::vector<double> expected;
    std::uint64_t total = 0;
    for (auto const& [what, count] : counts) total += count;
    for (auto const& [what, chance] : law) {
        n.push_back(counts.contains(what) ? counts.at(what) : 0);
        expected.push_back(chance * static_cast<double>(total));
    }
    for (auto const& [what, count] : counts) EXPECT_TRUE(law.contains(what)) << "an outcome of probability 0";
    return testing::compare(n, expected).p_value();
}

void expect_fits(chi_squared_test which, std::map<outcome, std::uint64_t> const& counts,
                 std::map<outcome, double> const& law) {
    EXPECT_LT(which, chi_squared_test::count);
    EXPECT_GT(p_value(counts, law), testing::failure_level);
}

/// The sequences of the last level in the order of the beam: the tokens of the first, then of the second.
outcome kept(stochastic_beam_drafter<table_model<double>> const& drafter, std::int32_t depth) {
    tree_view const tree = drafter.tree().tree;
    outcome result;
    for (node_id v = 1; v < tree.size(); ++v) {
        if (tree.depth(v) != depth) continue;
        outcome path;
        for (node_id u = v; u > 0; u = tree.parents[static_cast<std::size_t>(u)])
            path.push_back(tree.tokens[static_cast<std::size_t>(u)]);
        result.insert(result.end(), path.rbegin(), path.rend());
    }
    return result;
}

/// The law of an unordered pair of sequences of two tokens drawn without replacement, each in proportion to its
/// probability to a power.
std::map<outcome, double> law_of_pairs(conditional const& q, std::vector<token_id> const& text, double power) {
    std::vector<std::pair<outcome, double>> sequences;
    double total = 0;
    for (token_id a = 0; a < vocabulary; ++a)
        for (token_id b = 0; b < vocabulary; ++b) {
            std::vector<token_id> longer = text;
            longer.push_back(a);
            double const joint = q(text)[static_cast<std::size_t>(a)] * q(longer)[static_cast<std::size_t>(b)];
            sequences.push_back({{a, b}, std::pow(joint, power)});
            total += sequences.back().second;
        }
    std::map<outcome, double> pairs;
    for (auto const& [first, p] : sequences)
        for (auto const& [second, r] : sequences) {
            if (first == second) continue;
            outcome both = std::min(first, second);
            outcome const& other = std::max(first, second);
            both.insert(both.end(), other.begin(), other.end());
            pairs[both] += p / total * r / (total - p);
        }
    return pairs;
}

TEST(StochasticBeam, DrawsWholeSequencesWithoutReplacement) {
    auto const q = random_conditional(vocabulary, 12);
    table_model<double> draft(vocabulary, q);
    std::vector<token_id> const text{1, 2};
    std::map<outcome, std::uint64_t> counts;
    stochastic_beam_drafter drafter(draft, {2, 2});
    host_group const g;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        generation_metrics m;
        drafter.reset();
        drafter.grow(g, text, 2, sampling_params{}, source, m);
        outcome found = kept(drafter, 2);
        outcome const first(found.begin(), found.begin() + 2);
        outcome const second(found.begin() + 2, found.end());
        outcome both = std::min(first, second);
        outcome const& other = std::max(first, second);
        both.insert(both.end(), other.begin(), other.end());
        ++counts[both];
    }
    expect_fits(chi_squared_test::stochastic_beam_pairs, counts, law_of_pairs(q, text, 1));
    EXPECT_LT(p_value(counts, law_of_pairs(q, text, 1.1)), testing::failure_level) << "power";
}

TEST(StochasticBeam, OrdersTheChildrenOfANodeAsTheyWereDrawn) {
    auto const q = random_conditional(vocabulary, 12);
    table_model<double> draft(vocabulary, q);
    std::vector<token_id> const text{1, 2};
    auto const row = q(text);
    std::map<outcome, double> law;
    for (token_id a = 0; a < vocabulary; ++a)
        for (token_id b = 0; b < vocabulary; ++b) {
            if (a == b) continue;
            double const first = row[static_cast<std::size_t>(a)];
            law[{a, b}] = first * row[static_cast<std::size_t>(b)] / (1 - first);
        }
    std::map<outcome, std::uint64_t> counts;
    stochastic_beam_drafter drafter(draft, {2});
    host_group const g;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
        addressed_source source{addressed_uniforms(seed, 1)};
        generation_metrics m;
        drafter.reset();
        drafter.grow(g, text, 1, sampling_params{}, source, m);
        ++counts[kept(drafter, 1)];
    }
    expect_fits(chi_squared_test::stochastic_beam_order, counts, law);
}

TEST(StochasticBeam, TextsHaveTheLawOfTheTarget) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    table_model<double> draft(vocabulary, random_conditional(vocabulary, 12));
    std::vector<token_id> const prompt{1, 2};
    generation_options options;
    options.max_tokens = 3;
    auto loop =
        make_speculative<verify::recursive_rejection<law::sequential>>(target, stochastic_beam_drafter(draft, {2, 3}));
    std::map<outcome, std::uint64_t> counts;
    for (std::uint64_t seed = 0; seed < runs; ++seed) {
        options.seed = seed;
        ++counts[loop(prompt, options).tokens];
    }
    expect_fits(chi_squared_test::stochastic_beam_text, counts,
                testing::true_law(p, vocabulary, prompt, 3, options.sampling));
}

TEST(StochasticBeam, IsStableWhereProbabilitiesAreNot) {
    // Sequences of probability 1e-300 and less, and remaining masses that double cannot distinguish from 0.
    std::vector<double> const row{1.0 - 1e-16, 1e-200, 1e-308, 0.0};
    host_group const g;
    probabilities<double> const q(row.data(), 4);
    auto sums = g.sum_chunks(4, weight_of{q});
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        std::vector<draft::beam> const beams{{0, -700.0, -650.0}, {1, -1e5, -1e5 + 3}};
        std::vector<chunk_sums_of<host_group, double>> row_sums{sums, sums};
        std::vector<double> next(2);
        std::vector<token_id> taken(2 * 5);
        std::vector<index_t> counts(2);
        std::vector<draft::beam_step> steps(5);
        index_t const kept = draft::stochastic_beam_level(
            g, span<draft::beam const>(beams),
            [&](index_t) { return q; }, [&](index_t i) -> auto& { return row_sums[static_cast<std::size_t>(i)]; },
            [](index_t i) {
                return draw_site{0, i};
            },
            source, span<double>(next), span<token_id>(taken), span<index_t>(counts), span<draft::beam_step>(steps));
        ASSERT_EQ(kept, 5);
        EXPECT_EQ(steps[0].from, 0);
        EXPECT_EQ(steps[0].score, -650.0) << "the first child has its parent's score";
        for (std::size_t k = 0; k < 5; ++k) {
            EXPECT_TRUE(std::isfinite(steps[k].score));
            EXPECT_NE(steps[k].token, 3) << "no mass";
            if (k > 0) {
                EXPECT_LE(steps[k].score, steps[k - 1].score);
            }
        }
    }
    EXPECT_EQ(draft::log_add(-std::numeric_limits<double>::infinity(), -3.0), -3.0);
    EXPECT_EQ(draft::log_add(-3.0, -std::numeric_limits<double>::infinity()), -3.0);
    EXPECT_NEAR(draft::log_add(-1e5, -1e5), -1e5 + std::log(2.0), 1e-9);
}

}  // namespace
}  // namespace beams_test
}  // namespace multidraft
