// Stratified drafts: the certainty rule, and the exact law of the sampler.
#include "multidraft/draft/stratified.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/random/enumerating.hpp"
#include "support/exact_law.hpp"

namespace {

namespace draft = multidraft::draft;
using multidraft::certain_children;
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
        double left = 1;
        for (token_id const x : order) {
            double const top = q[static_cast<std::size_t>(x)];
            if (draws == 1 || !(top > 0) || draws * top < theta * left) break;
            certain.push_back(x);
            rest[static_cast<std::size_t>(x)] = 0;
            left -= top;
            --draws;
        }
        double const sum = std::accumulate(rest.begin(), rest.end(), 0.0);
        if (sum > 0)
            for (double& x : rest) x /= sum;
        else
            draws = 0;
    }
};

template <class Sampler>
std::map<tokens, double> law_of(Sampler sampler, row const& q, index_t n) {
    std::map<tokens, double> law;
    multidraft::host_group const g;
    multidraft::enumerate([&](multidraft::enumerating_source& source) {
        tokens out(static_cast<std::size_t>(n), -7);
        auto sums = g.weigh(static_cast<index_t>(q.size()), multidraft::weight_of{view(q)});
        index_t const drawn = sampler(g, view(q), sums, source, {0, 0}, span<token_id>(out));
        out.resize(static_cast<std::size_t>(drawn));
        law[out] += source.probability();
    });
    return law;
}

template <class Sampler>
void expect_law(Sampler sampler, row const& q, index_t n, double theta) {
    definition const wanted(q, n, theta);
    auto const law = law_of(sampler, q, n);
    double total = 0;
    for (auto const& [children, chance] : law) {
        ASSERT_EQ(children.size(), wanted.certain.size() + static_cast<std::size_t>(wanted.draws));
        ASSERT_TRUE(std::equal(wanted.certain.begin(), wanted.certain.end(), children.begin()));
        double expected = 1;
        for (std::size_t k = wanted.certain.size(); k < children.size(); ++k)
            expected *= wanted.rest[static_cast<std::size_t>(children[k])];
        EXPECT_NEAR(chance, expected, 1e-12);
        total += chance;
        // The verifier's question, from the children alone.
        auto const m = static_cast<index_t>(children.size());
        index_t const certain = certain_children(view(q), span<token_id const>(children), m, theta);
        if (m == n)
            EXPECT_EQ(certain, static_cast<index_t>(wanted.certain.size()));
        else
            EXPECT_EQ(certain, m - 1);  // the whole support: one draw from one token is certain too
    }
    EXPECT_NEAR(total, 1, 1e-12);
}

TEST(stratified, draws_its_law) {
    for (kind const k : multidraft::testing::all_kinds)
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            auto const models = multidraft::testing::random_models(k, 4, 0, seed);
            for (index_t n = 1; n <= 6; ++n) {
                expect_law(draft::stratified{}, models.draft[0], n, 0.7);
                expect_law(draft::stratified_by<1000>{}, models.draft[0], n, 1.0);
                expect_law(draft::stratified_by<50>{}, models.draft[0], n, 0.05);
            }
        }
}

TEST(stratified, takes_ties_by_the_token) {
    row const q{0.25, 0.25, 0.25, 0.25};
    EXPECT_EQ(law_of(draft::stratified{}, q, 4).size(), 1U);
    EXPECT_EQ(law_of(draft::stratified{}, q, 4).begin()->first, (tokens{0, 1, 2, 3}));
    EXPECT_EQ(law_of(draft::stratified{}, q, 9).begin()->first, (tokens{0, 1, 2, 3}));
    EXPECT_EQ(law_of(draft::stratified{}, row{0, 1, 0}, 3).begin()->first, (tokens{1}));
}

}  // namespace
