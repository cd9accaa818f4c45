// Stratified drafts: the certainty rule, and the exact law of the sampler.
#include "multidraft/draft/stratified.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"

namespace stratified_test {
namespace {

namespace draft = multidraft::draft;
using multidraft::index_t;
using multidraft::probabilities;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::kind;
using row = std::vector<double>;
using tokens = std::vector<token_id>;

probabilities<double> view(row const& q) { return {q.data(), static_cast<index_t>(q.size())}; }

/// The law by its definition: the rule on the sorted row, then independent draws from what is left.
struct definition {
    tokens certain;
    row rest;  ///< the law of one draw; empty when nothing is left
    index_t draws;

    definition(row const& q, index_t n, double theta) : rest(q), draws(n) {
        tokens order(q.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](token_id a, token_id b) {
            return q[static_cast<std::size_t>(a)] > q[static_cast<std::size_t>(b)];
        });
        for (token_id const x : order) {
            double const left = std::accumulate(rest.begin(), rest.end(), 0.0);
            double const top = q[static_cast<std::size_t>(x)];
            if (draws == 1 || !(top > 0) || draws * top < theta * left) break;
            certain.push_back(x);
            rest[static_cast<std::size_t>(x)] = 0;
            --draws;
        }
        double const sum = std::accumulate(rest.begin(), rest.end(), 0.0);
        if (sum > 0)
            for (double& x : rest) x /= sum;
        else
            draws = 0;
    }
};

struct drawn_law {
    std::map<tokens, double> law;
    index_t certain = 0;
};

template <class Sampler>
drawn_law law_of(Sampler sampler, row const& q, index_t n) {
    drawn_law result;
    multidraft::host_group const g;
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        tokens out(static_cast<std::size_t>(n), -7);
        auto sums = g.sum_chunks(static_cast<index_t>(q.size()), multidraft::weight_of{view(q)});
        auto const drawn = sampler(g, view(q), sums, source, {0, 0}, span<token_id>(out));
        out.resize(static_cast<std::size_t>(drawn.count));
        result.law[out] += source.probability();
        result.certain = drawn.certain;
    });
    return result;
}

template <class Sampler>
void expect_law(Sampler sampler, row const& q, index_t n, double theta) {
    definition const wanted(q, n, theta);
    auto const found = law_of(sampler, q, n);
    EXPECT_EQ(found.certain, static_cast<index_t>(wanted.certain.size()));
    double total = 0;
    for (auto const& [children, chance] : found.law) {
        ASSERT_EQ(children.size(), wanted.certain.size() + static_cast<std::size_t>(wanted.draws));
        ASSERT_TRUE(std::equal(wanted.certain.begin(), wanted.certain.end(), children.begin()));
        double expected = 1;
        for (std::size_t k = wanted.certain.size(); k < children.size(); ++k)
            expected *= wanted.rest[static_cast<std::size_t>(children[k])];
        EXPECT_NEAR(chance, expected, 1e-12);
        total += chance;
    }
    EXPECT_NEAR(total, 1, 1e-12);
}

TEST(stratified, draws_its_law) {
    for (kind const k : multidraft::testing::all_kinds)
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            auto const models = multidraft::testing::random_models(k, 4, 0, seed);
            for (index_t n = 1; n <= 6; ++n) {
                SCOPED_TRACE(std::string(multidraft::testing::name_of(k)) + " " + std::to_string(n));
                for (double const theta : {0.7, 1.0, 0.05, 0.0})
                    expect_law(draft::stratified{theta}, models.draft[0], n, theta);
                // All but one with certainty.
                expect_law(draft::top_then_one{}, models.draft[0], n, 0.0);
            }
        }
}

TEST(stratified, takes_ties_by_the_token) {
    row const q{0.25, 0.25, 0.25, 0.25};
    for (index_t const n : {4, 9}) {
        auto const found = law_of(draft::stratified{}, q, n);
        EXPECT_EQ(found.law.size(), 1U);
        EXPECT_EQ(found.law.begin()->first, (tokens{0, 1, 2, 3}));
    }
    auto const one = law_of(draft::stratified{}, row{0, 1, 0}, 3);
    EXPECT_EQ(one.law.begin()->first, (tokens{1}));
    EXPECT_EQ(one.certain, 1);
}

TEST(stratified, has_a_threshold_in_0_to_1) {
    row const q{0.5, 0.5};
    for (double const theta : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_THROW(law_of(draft::stratified{theta}, q, 2), multidraft::invalid_input);
}

multidraft::drawn_children drawn_of(std::vector<float> const& q, tokens& out) {
    multidraft::host_group const g;
    probabilities<float> const draft_row(q.data(), static_cast<index_t>(q.size()));
    auto sums = g.sum_chunks(draft_row.size(), multidraft::weight_of{draft_row});
    multidraft::addressed_source source;
    return draft::stratified{}(g, draft_row, sums, source, {0, 0}, span<token_id>(out));
}

// The mass outside the certain tokens is too small to draw from: the others are certain too.
TEST(stratified, takes_what_cannot_be_drawn_with_certainty) {
    using multidraft::drawn_children;
    tokens out(3);
    EXPECT_EQ(drawn_of({1.0F, 1e-40F, 2e-41F}, out), (drawn_children{3, 3}));
    EXPECT_EQ(out, (tokens{0, 1, 2}));
    EXPECT_EQ(drawn_of({1.0F, 1e-41F, 2e-40F}, out), (drawn_children{3, 3}));
    EXPECT_EQ(out, (tokens{0, 2, 1}));
    EXPECT_EQ(drawn_of({1.0F, 2e-30F, 1e-30F}, out), (drawn_children{3, 2}));
    EXPECT_EQ(drawn_of({1.0F, 0.0F, 0.0F}, out), (drawn_children{1, 1}));
    EXPECT_EQ(drawn_of({0.75F, 0.25F, 0.0F}, out), (drawn_children{2, 2}));
    EXPECT_EQ(drawn_of({0.5F, 0.25F, 0.25F}, out), (drawn_children{3, 2}));
    EXPECT_EQ(drawn_of({0.0F, 0.0F, 0.0F}, out), (drawn_children{0, 0}));
    tokens nothing;
    EXPECT_EQ(drawn_of({0.5F, 0.25F, 0.25F}, nothing), (drawn_children{0, 0}));
    // A row whose remaining mass, as a difference from 1, is lost in rounding: the rule sums it.
    tokens four(4);
    EXPECT_EQ(drawn_of({0x1.fffffep-1F, 1.79e-8F, 1.79e-8F}, four), (drawn_children{3, 3}));
}

}  // namespace
}  // namespace stratified_test
