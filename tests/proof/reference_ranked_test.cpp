// Ranked verification and its trees: exact laws and rates against golden values, the drawing code against the exact
// laws.
#include "reference/ranked.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "reference/exact_ranked_law.hpp"
#include "reference/nested_ranked_block.hpp"
#include "reference/ranked_block.hpp"
#include "support/chi_squared.hpp"
#include "support/golden.hpp"
#include "support/tree_cases.hpp"

namespace reference_ranked_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;
using multidraft::index_t;
using multidraft::probabilities;
using multidraft::span;
using multidraft::token_id;
using row = std::vector<double>;

probabilities<double> view(row const& r) { return {r.data(), static_cast<index_t>(r.size())}; }

template <class Sampler>
multidraft::testing::reference::ranked_node node_of(row const& p, row const& q, index_t n, double pooled = 0) {
    multidraft::draft::certain_selection const chosen(Sampler{}, q, n);
    return {view(p), view(q), span<token_id const>(chosen.tokens), chosen.draws, {}, pooled};
}

TEST(reference_ranked, acceptance_is_the_bound_of_its_law) {
    for (auto const& c : golden_cases()) {
        EXPECT_NEAR(node_of<draft::iid>(c.p, c.q, c.n).acceptance(), c.alpha_star("iid"), 1e-9);
        auto const node = node_of<draft::stratified>(c.p, c.q, c.n);
        EXPECT_NEAR(node.acceptance(),
                    node.draws() > 0 ? multidraft::analysis::alpha_star_stratified(
                                           c.p, c.q, node.certain() + node.draws(), node.draws())
                                     : multidraft::analysis::alpha_star_deterministic(c.p, c.q, node.certain()),
                    1e-9);
    }
}

// The candidate's law is that of the sets; that of the selected child is a distribution and keeps the target's mass
// where possible.
TEST(reference_ranked, laws_are_distributions) {
    for (kind const k : all_kinds) {
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            auto const models = random_models(k, 6, 0, seed);
            for (index_t n = 1; n <= 6; ++n) {
                auto const node = node_of<draft::stratified>(models.target[0], models.draft[0], n);
                ASSERT_TRUE(node.valid()) << name_of(k);
                double candidate = 0;
                double picked = 0;
                for (token_id x = 0; x < 6; ++x) {
                    EXPECT_GE(node.law(x), 0);
                    candidate += node.candidate_law(x);
                    picked += node.law(x);
                }
                EXPECT_NEAR(candidate, node.draws() > 0 ? 1 : 0, 1e-12) << name_of(k);
                // Where all children are certain and have no mass under the target, no child is selected.
                EXPECT_NEAR(picked, node.draws() == 0 && node.acceptance() == 0 ? 0 : 1, 1e-12) << name_of(k);
            }
        }
    }
}

template <class Sampler, bool Nested>
void expect_golden(char const* method) {
    for (auto const& c : golden_trees()) {
        auto const found = law_of_ranked_step<Nested>(Sampler{}, c.children, c.models);
        EXPECT_NEAR(found.mean_accepted, c.mean_accepted(method), 1e-9) << method;
        EXPECT_LT(total_variation(found.law, law_of_target(c.models.target, c.children.size() + 1)), 1e-12) << method;
    }
}

TEST(reference_ranked, trees_accept_what_the_independent_program_says) {
    expect_golden<draft::iid, false>("ranked_block/iid");
    expect_golden<draft::stratified, false>("ranked_block/stratified");
    expect_golden<draft::iid, true>("nested_ranked_block/iid");
    expect_golden<draft::stratified, true>("nested_ranked_block/stratified");
}

template <class Sampler, bool Nested>
void expect_exact(std::vector<tree_case> const& cases) {
    for (tree_case const& t : cases)
        for (kind const k : all_kinds)
            for (std::uint64_t seed = 1; seed <= 3; ++seed) {
                auto const models = random_models(k, t.vocabulary, static_cast<int>(t.children.size()), seed + 90);
                auto const found = law_of_ranked_step<Nested>(Sampler{}, t.children, models);
                EXPECT_LT(total_variation(found.law, law_of_target(models.target, t.children.size() + 1)), 1e-12)
                    << print(t.children) << ", V = " << t.vocabulary << ", " << name_of(k) << ", seed " << seed;
            }
}

TEST(reference_ranked, trees_are_lossless_for_models_of_every_kind) {
    std::vector<tree_case> const cases{{{1}, 3},    {{2}, 4},    {{3}, 3},    {{6}, 3},    {{2, 1}, 3},   {{2, 2}, 4},
                                       {{3, 1}, 4}, {{1, 3}, 3}, {{4, 2}, 5}, {{5, 3}, 2}, {{2, 2, 2}, 3}};
    expect_exact<draft::iid, false>(cases);
    expect_exact<draft::stratified, false>(cases);
    expect_exact<draft::iid, true>(cases);
    expect_exact<draft::stratified, true>(cases);
}

TEST(reference_ranked, nested_comes_close_to_the_limit) {
    double reached = 0;
    double limit = 0;
    for (auto const& c : golden_trees()) {
        double const here = law_of_ranked_step<true>(draft::stratified{}, c.children, c.models).mean_accepted;
        EXPECT_LE(here, c.limit("stratified") + 1e-7);
        EXPECT_GT(here, 0.93 * c.limit("stratified"));
        reached += here;
        limit += c.limit("stratified");
    }
    RecordProperty("percent_of_limit", std::to_string(100 * reached / limit));
    EXPECT_GT(reached, 0.97 * limit);
}

// --- The code that draws ---------------------------------------------------------------------------------------------

/// Runs steps with addressed draws and compares the output law with the target's, and the accepted tokens with their
/// exact mean.
template <class Sampler, class Verifier>
void expect_drawn(shape const& children, model_pair const& models, double mean_accepted, int steps, std::uint64_t seed,
                  Verifier verifier = {}) {
    small_step<Sampler, Verifier> step(Sampler{}, verifier, models);
    auto const wanted = law_of_target(models.target, 1);
    std::map<text, double> counts;
    double accepted = 0;
    double squares = 0;
    std::map<text, double> pairs;
    for (int k = 0; k < steps; ++k) {
        multidraft::addressed_source source{multidraft::addressed_uniforms(seed, static_cast<std::uint32_t>(k))};
        text out;
        auto const a = static_cast<double>(step(children, 0, 0, source, out));
        accepted += a;
        squares += a * a;
        ++counts[text(out.begin(), out.begin() + 1)];
        if (out.size() == 1) {
            // Completed with the target's own conditionals, as later steps would.
            multidraft::host_group const g;
            auto const& next = models.target[models.target.after(0, out[0])];
            auto const r = view(next);
            auto const sums = g.sum_chunks(r.size(), multidraft::weight_of{r});
            out.push_back(source.categorical(g, sums, r.size(), multidraft::weight_of{r}, {},
                                             {1000, 0, multidraft::purpose::test, 0}));
        }
        ++pairs[text(out.begin(), out.begin() + 2)];
    }
    auto const test = [&](std::map<text, double> const& seen, std::map<text, double> const& law_wanted) {
        double statistic = 0;
        double others = 0;
        double expected_others = 0;
        int cells = 0;
        for (auto const& [sequence, chance] : law_wanted) {
            double const expected = chance * steps;
            auto const found = seen.find(sequence);
            double const count = found == seen.end() ? 0.0 : found->second;
            if (expected < 10) {
                others += count;
                expected_others += expected;
                continue;
            }
            statistic += (count - expected) * (count - expected) / expected;
            ++cells;
        }
        if (expected_others >= 10) {
            statistic += (others - expected_others) * (others - expected_others) / expected_others;
            ++cells;
        }
        // Wilson and Hilferty: a chi-squared variable as a normal one. 5.2 deviations: one failure in 10^7.
        double const freedom = std::max(1, cells - 1);
        double const deviations =
            (std::cbrt(statistic / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
        EXPECT_LT(deviations, 5.2) << print(children) << ": " << statistic << " with " << freedom;
    };
    test(counts, wanted);
    test(pairs, law_of_target(models.target, 2));
    double const mean = accepted / steps;
    double const error = std::sqrt(std::max(squares / steps - mean * mean, 1e-12) / steps);
    EXPECT_NEAR(mean, mean_accepted, 5.2 * error + 1e-9) << print(children);
}

TEST(reference_ranked, drawn_nodes_have_the_law_of_the_target) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const models = random_models(kind::plain, 6, 1, seed + 30);
        for (int const n : {1, 2, 4}) {
            expect_drawn<draft::stratified, multidraft::testing::reference::ranked<law::stratified>>(
                {n}, models, node_of<draft::stratified>(models.target[0], models.draft[0], n).acceptance(), 20000,
                seed);
            expect_drawn<draft::iid, multidraft::testing::reference::ranked<law::iid>>(
                {n}, models, node_of<draft::iid>(models.target[0], models.draft[0], n).acceptance(), 20000, seed + 9);
        }
    }
}

template <class Sampler, template <class> class Verifier, bool Nested>
void expect_drawn_trees(std::uint64_t seed) {
    using tree_law = typename Sampler::law;
    for (tree_case const& t : std::vector<tree_case>{{{2, 2}, 3}, {{3, 2}, 4}, {{2, 2, 1}, 3}, {{3, 1, 2}, 3}}) {
        auto const models = random_models(kind::plain, t.vocabulary, static_cast<int>(t.children.size()), seed);
        expect_drawn<Sampler, Verifier<tree_law>>(
            t.children, models, law_of_ranked_step<Nested>(Sampler{}, t.children, models).mean_accepted, 20000, seed);
        ++seed;
    }
}

TEST(reference_ranked, drawn_trees_have_the_law_of_the_target) {
    expect_drawn_trees<draft::stratified, multidraft::testing::reference::ranked_block, false>(51);
    expect_drawn_trees<draft::iid, multidraft::testing::reference::ranked_block, false>(61);
    expect_drawn_trees<draft::stratified, multidraft::testing::reference::nested_ranked_block, true>(71);
    expect_drawn_trees<draft::iid, multidraft::testing::reference::nested_ranked_block, true>(81);
}

// Pooling loses a little acceptance and nothing else.
TEST(reference_ranked, pooled_tokens_lose_at_most_their_mass) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        auto const models = random_models(kind::plain, 200, 0, seed);
        auto const& p = models.target[0];
        auto const& q = models.draft[0];
        for (double const pooled : {1e-4, 1e-3, 1e-2}) {
            double mass = 0;
            for (double const x : q) mass += x < pooled ? x : 0;
            auto const whole = node_of<draft::iid>(p, q, 3);
            auto const less = node_of<draft::iid>(p, q, 3, pooled);
            EXPECT_LE(less.acceptance(), whole.acceptance() + 1e-12);
            EXPECT_GE(less.acceptance(), whole.acceptance() - 3 * mass);
            double sum = 0;
            for (token_id x = 0; x < 200; ++x) sum += less.law(x);
            EXPECT_NEAR(sum, 1, 1e-12);
        }
    }
}

}  // namespace
}  // namespace reference_ranked_test
