// Conditional Poisson sampling, several draft models, typical acceptance: exact laws at one node and on trees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/lossy/typical_acceptance.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/proved_methods.hpp"
#include "support/tree_cases.hpp"

namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;
using multidraft::drafted;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::node_id;
using multidraft::none;
using multidraft::place;
using multidraft::probabilities;
using multidraft::purpose;
using multidraft::span;
using multidraft::token_id;
using multidraft::tree_view;
using multidraft::weight_of;

// --- Conditional Poisson sampling ------------------------------------------------------------------------------------

TEST(conditional_poisson, draws_sets_in_proportion_to_their_products) {
    host_group const g;
    for (kind const k : all_kinds) {
        // 40 tokens: beyond the listed ones too.
        for (index_t const vocabulary : {1, 2, 5, 6, 40}) {
            auto const models = random_models(k, vocabulary, 0, 3);
            auto const& q = models.draft[0];
            auto const support = static_cast<int>(std::count_if(q.begin(), q.end(), [](double x) { return x > 0; }));
            for (int n = 1; n <= (vocabulary > 6 ? 2 : 4); ++n) {
                std::map<std::vector<token_id>, double> found;
                multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
                    probabilities<double> const row(q.data(), vocabulary);
                    auto sums = g.weigh(vocabulary, weight_of{row});
                    std::vector<token_id> out(static_cast<std::size_t>(n), none);
                    auto const drawn =
                        draft::conditional_poisson{}(g, row, sums, source, place{0, 0}, span<token_id>(out));
                    ASSERT_EQ(drawn.count, std::min(n, support)) << name_of(k);
                    out.resize(static_cast<std::size_t>(drawn.count));
                    found[out] += source.probability();
                });
                double total = 0;
                auto const product = [&](std::vector<token_id> const& s) {
                    double value = 1;
                    for (token_id const x : s) value *= q[static_cast<std::size_t>(x)];
                    return value;
                };
                for (auto const& [set, chance] : found) total += product(set);
                for (auto const& [set, chance] : found) {
                    EXPECT_TRUE(std::adjacent_find(set.begin(), set.end()) == set.end());
                    EXPECT_NEAR(chance, product(set) / total, 1e-12)
                        << name_of(k) << ", V " << vocabulary << ", n " << n;
                }
                // All sets are there, but those of a chance that the coins of doubles do not know.
                if (k == kind::steep_draft || k == kind::steep) continue;
                double sets = 1;
                for (int i = 0; i < std::min(n, support); ++i) sets = sets * (support - i) / (i + 1);
                EXPECT_EQ(static_cast<double>(found.size()), std::round(sets)) << name_of(k);
            }
        }
    }
}

TEST(lossless, naive_verification_of_conditional_poisson_drafts) {
    expect_lossless_trees<draft::conditional_poisson, verify::naive<law::conditional_poisson>>(
        {{{1}, 3}, {{2}, 4}, {{3}, 4}, {{2, 1}, 3}, {{2, 2}, 3}});
}

// --- Several draft models --------------------------------------------------------------------------------------------

/// Three draft models' rows at the root and at its children, by child.
struct rows_of_three {
    std::vector<small_model const*> models;
    std::vector<std::size_t> contexts;
    index_t vocabulary;

    [[nodiscard]] index_t size() const { return vocabulary; }
    [[nodiscard]] index_t rows() const { return static_cast<index_t>(contexts.size()); }
    template <class G>
    [[nodiscard]] probabilities<double> operator()(G const&, node_id node, index_t child) const {
        auto const& model = *models[static_cast<std::size_t>(child) % models.size()];
        return {model[contexts[static_cast<std::size_t>(node)]].data(), vocabulary};
    }
};

/// The law of two levels' texts: `children` tokens a node, each from its own model.
template <class Verifier>
void expect_lossless_of_several(shape const& children, index_t vocabulary, kind k, std::uint64_t seed) {
    auto const depth = static_cast<int>(children.size());
    auto const one = random_models(k, vocabulary, depth, seed);
    auto const two = random_models(kind::plain, vocabulary, depth, seed + 500);
    auto const three = random_models(kind::no_mass, vocabulary, depth, seed + 900);
    host_group const g;
    std::map<text, double> emitted;
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        std::vector<node_id> parents{none};
        std::vector<token_id> tokens{0};
        rows_of_three rows{{&one.draft, &two.draft, &three.draft}, {0}, vocabulary};
        rows_of_nodes target(vocabulary);
        target.push_back(one.target[0]);
        std::size_t begin = 0;
        for (int const n : children) {
            std::size_t const end = parents.size();
            for (std::size_t v = begin; v < end; ++v)
                for (index_t c = 0; c < n; ++c) {
                    auto const q = rows(g, static_cast<node_id>(v), c);
                    auto const sums = g.weigh(vocabulary, weight_of{q});
                    token_id const x = source.pick(g, sums, vocabulary, weight_of{q}, {},
                                                   place{0, static_cast<node_id>(v)}(purpose::draft, c));
                    parents.push_back(static_cast<node_id>(v));
                    tokens.push_back(x);
                    rows.contexts.push_back(one.target.after(rows.contexts[v], x));
                    target.push_back(one.target[rows.contexts.back()]);
                }
            begin = end;
        }
        std::vector<node_id> path(children.size());
        auto const v = Verifier{}(g, drafted<law::independent>{tree_view{parents, tokens}}, target, rows, source, 0,
                                  span<node_id>(path));
        text out;
        for (int d = 0; d < v.accepted; ++d)
            out.push_back(tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(d)])]);
        out.push_back(v.next);
        emitted[out] += source.probability();
    });
    std::map<text, double> whole;
    for (auto const& [sequence, chance] : emitted) {
        text prefix = sequence;
        std::size_t context = 0;
        for (token_id const x : prefix) context = one.target.after(context, x);
        multidraft::testing::detail::complete(one.target, prefix, context, children.size() + 1, chance, whole);
    }
    EXPECT_LT(total_variation(whole, law_of_target(one.target, children.size() + 1)), 1e-12)
        << print(children) << ", V = " << vocabulary << ", " << name_of(k) << ", seed " << seed;
}

template <class Verifier>
void expect_lossless_of_several() {
    for (kind const k : all_kinds)
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            expect_lossless_of_several<Verifier>({1}, 3, k, seed);
            expect_lossless_of_several<Verifier>({2}, 4, k, seed);
            expect_lossless_of_several<Verifier>({3}, 4, k, seed);
            expect_lossless_of_several<Verifier>({2, 1}, 3, k, seed);
            expect_lossless_of_several<Verifier>({2, 2}, 2, k, seed);
        }
}

// --- Typical acceptance ----------------------------------------------------------------------------------------------

TEST(lossy, typical_acceptance_is_not_the_target) {
    for (shape const& children : std::vector<shape>{{2}, {3}, {2, 1}, {2, 2}}) {
        double mean = 0;
        double accepted = 0;
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            auto const models = random_models(kind::plain, 4, static_cast<int>(children.size()), seed);
            auto const found =
                law_of_step(draft::top_n{}, verify::lossy::typical_acceptance<law::deterministic>{}, children, models);
            double const tv = total_variation(found.law, law_of_target(models.target, children.size() + 1));
            EXPECT_GE(tv, 0);
            mean += tv / 10;
            accepted += found.mean_accepted / 10;
        }
        std::printf("    %-4s total variation %.3f, accepted %.2f\n", print(children).c_str(), mean, accepted);
        EXPECT_GT(mean, 0.05);
    }
    // At temperature 0 it accepts what greedy decoding says.
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        auto const models = random_models(kind::greedy, 4, 2, seed);
        EXPECT_LT((distance_from_target(draft::top_n{}, verify::lossy::typical_acceptance<law::deterministic>{}, {2, 1},
                                        models)),
                  1e-12);
    }
    EXPECT_THROW((verify::lossy::typical_acceptance<law::deterministic>(0.0F, 0.3F)), multidraft::invalid_input);
    EXPECT_THROW((verify::lossy::typical_acceptance<law::deterministic>(0.1F, 1.5F)), multidraft::invalid_input);
}

}  // namespace

template <>
void multidraft::testing::prove_otherwise<multidraft::methods::multi_round_independent>() {
    expect_lossless_of_several<multidraft::methods::multi_round_independent::verifier>();
}
template <>
void multidraft::testing::prove_otherwise<multidraft::methods::naive_independent>() {
    expect_lossless_of_several<multidraft::methods::naive_independent::verifier>();
}

TEST(lossless, several_draft_models) {
    multidraft::testing::prove_otherwise<multidraft::methods::multi_round_independent>();
    multidraft::testing::prove_otherwise<multidraft::methods::naive_independent>();
}
