// Gumbel-max lists: the output law, the acceptance rate, and independence of the text from the draft model.
#include "multidraft/verify/shared_randomness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "bugs/race_of_fewer_lists.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/topology.hpp"
#include "support/chi_squared.hpp"
#include "support/proved_methods.hpp"

namespace {

namespace draft = multidraft::draft;
namespace verify = multidraft::verify;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::index_t;
using multidraft::node_id;
using multidraft::probabilities;
using multidraft::token_id;
using multidraft::testing::test_numbers;
using row = std::vector<double>;

constexpr index_t vocabulary = 6;

row random_row(std::uint64_t seed) {
    test_numbers numbers(seed);
    return multidraft::testing::random_row(vocabulary, numbers, [](index_t) { return true; });
}

/// Rows by the token before: a model of order one.
struct bigrams {
    std::vector<row> rows_of;
    explicit bigrams(std::uint64_t seed) {
        for (index_t x = 0; x < vocabulary; ++x)
            rows_of.push_back(random_row(seed * 100 + static_cast<std::uint64_t>(x)));
    }
    [[nodiscard]] row const& after(token_id x) const { return rows_of[static_cast<std::size_t>(x)]; }
};

/// The target's rows at the nodes of a tree.
struct rows_of_tree {
    bigrams const& model;
    std::vector<token_id> const& tokens;
    [[nodiscard]] index_t rows() const { return static_cast<index_t>(tokens.size()); }
    [[nodiscard]] index_t size() const { return vocabulary; }
    template <class G>
    probabilities<double> operator()(G const&, node_id v) const {
        return {model.after(tokens[static_cast<std::size_t>(v)]).data(), vocabulary};
    }
};

/// A text of `length` tokens after token 0, decoded with trees of `children`; `accepted` counts drafted tokens.
std::vector<token_id> decode(bigrams const& target, bigrams const& drafter, std::vector<int> const& children,
                             verify::shared_randomness verifier, std::uint64_t seed, std::size_t length,
                             std::int64_t* accepted = nullptr) {
    multidraft::host_group const g;
    addressed_source const source{addressed_uniforms(seed)};
    std::vector<token_id> text{0};
    while (text.size() <= length) {
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        std::vector<node_id> parents{multidraft::none};
        std::vector<token_id> tokens{text.back()};
        std::size_t begin = 0;
        std::int32_t level = 0;
        for (int const n : children) {
            std::size_t const end = tokens.size();
            for (std::size_t v = begin; v < end; ++v) {
                std::vector<token_id> drawn(static_cast<std::size_t>(n));
                probabilities<double> const q(drafter.after(tokens[v]).data(), vocabulary);
                auto sums = g.sum_chunks(vocabulary, multidraft::weight_of{q});
                (void)draft::shared_randomness{}(g, q, sums, source,
                                                 multidraft::draw_site{position + level, static_cast<node_id>(v)},
                                                 multidraft::span<token_id>(drawn));
                for (token_id const x : drawn) {
                    parents.push_back(static_cast<node_id>(v));
                    tokens.push_back(x);
                }
            }
            begin = end;
            ++level;
        }
        std::vector<node_id> path(children.size() + 1);
        auto const v = verifier(
            g, multidraft::drafted<multidraft::law::shared_randomness>{multidraft::tree_view{parents, tokens}},
            multidraft::target_rows(rows_of_tree{target, tokens}), multidraft::draft_rows(verify::no_draft_rows{}),
            source, position, multidraft::span<node_id>(path));
        for (std::int32_t k = 0; k < v.accepted; ++k)
            text.push_back(tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(k)])]);
        text.push_back(v.next);
        if (accepted) *accepted += v.accepted;
    }
    text.resize(length + 1);
    return text;
}

// --- The acceptance rate of one node, exactly ------------------------------------------------------------------------

/// P(the target's token is among K drafts). Given that i wins the target's race at time s through one list, that list
/// drafts i unless one of its other tokens is early enough, and another list, whose noise of i is s + e, drafts it with
/// the piecewise exponential integral over e below; the integral over s is a sum over `points`.
double acceptance(row const& p, row const& q, int lists, int points = 4000) {
    double total = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        double in_the_list = 0;
        for (std::size_t j = 0; j < p.size(); ++j)
            if (j != i) in_the_list += std::max(q[j] / q[i] - p[j] / p[i], 0.0);
        double sum = 0;
        for (int k = 0; k < points; ++k) {
            double const u = (k + 0.5) / points;
            double const s = -std::log(u) * p[i] / lists;
            // Integral over e of exp(-e - sum over j of ((s + e) q_j/q_i - s p_j/p_i)+), in pieces.
            std::vector<std::pair<double, std::size_t>> begins;
            for (std::size_t j = 0; j < p.size(); ++j)
                if (j != i && q[j] > 0) begins.push_back({std::max(s * (p[j] / p[i]) / (q[j] / q[i]) - s, 0.0), j});
            std::sort(begins.begin(), begins.end());
            double other = 0;
            double slope = 1;
            double offset = 0;
            double from = 0;
            for (std::size_t piece = 0; piece <= begins.size(); ++piece) {
                bool const last = piece == begins.size();
                double const to = last ? 0 : begins[piece].first;
                other += (std::exp(-slope * from - offset) - (last ? 0.0 : std::exp(-slope * to - offset))) / slope;
                if (last) break;
                std::size_t const j = begins[piece].second;
                slope += q[j] / q[i];
                offset += s * (q[j] / q[i] - p[j] / p[i]);
                from = to;
            }
            sum += 1 - (1 - std::exp(-s * in_the_list)) * std::pow(1 - other, lists - 1);
        }
        total += p[i] * sum / points;
    }
    return total;
}

TEST(shared_randomness, rates_in_closed_form_agree) {
    row const p = random_row(1);
    row const q = random_row(2);
    double one = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        double rate = 0;
        for (std::size_t j = 0; j < p.size(); ++j) rate += std::max(q[j] / q[i], p[j] / p[i]);
        one += 1 / rate;
    }
    EXPECT_NEAR(acceptance(p, q, 1), one, 1e-5);
    EXPECT_NEAR(acceptance(p, p, 1), 1, 1e-9);
    EXPECT_LT(one, [&] {
        double overlap = 0;
        for (std::size_t i = 0; i < p.size(); ++i) overlap += std::min(p[i], q[i]);
        return overlap;
    }());
}

TEST(shared_randomness, accepts_at_the_rate_of_the_races) {
    constexpr int runs = 60000;
    multidraft::host_group const g;
    for (int lists = 1; lists <= 3; ++lists) {
        row const p = random_row(3);
        row const q = random_row(4);
        std::vector<node_id> parents(static_cast<std::size_t>(lists) + 1, 0);
        parents[0] = multidraft::none;
        probabilities<double> const draft_row(q.data(), vocabulary);
        std::vector<double> both(p);
        for (int k = 0; k < lists; ++k) both.insert(both.end(), p.begin(), p.end());
        multidraft::probability_rows<double> const target(both.data(), lists + 1, vocabulary);
        std::int64_t accepted = 0;
        std::vector<double> first(p.size(), 0.0);    // of the first emitted token
        std::vector<double> drafted(p.size(), 0.0);  // of the last drafted one
        for (int run = 0; run < runs; ++run) {
            addressed_source const source{addressed_uniforms(static_cast<std::uint64_t>(run), 7)};
            std::vector<token_id> tokens(static_cast<std::size_t>(lists) + 1, 0);
            auto sums = g.sum_chunks(vocabulary, multidraft::weight_of{draft_row});
            (void)draft::shared_randomness{}(g, draft_row, sums, source, multidraft::draw_site{5, 0},
                                             multidraft::span<token_id>(tokens).subspan(1));
            std::vector<node_id> path(1);
            auto const v = verify::shared_randomness{}(
                g, multidraft::drafted<multidraft::law::shared_randomness>{multidraft::tree_view{parents, tokens}},
                multidraft::target_rows(target), multidraft::draft_rows(verify::no_draft_rows{}), source, 5,
                multidraft::span<node_id>(path));
            accepted += v.accepted;
            token_id const x = v.accepted > 0 ? tokens[static_cast<std::size_t>(path[0])] : v.next;
            first[static_cast<std::size_t>(x)] += 1;
            drafted[static_cast<std::size_t>(tokens.back())] += 1;
        }
        double const rate = static_cast<double>(accepted) / runs;
        double const expected = acceptance(p, q, lists);
        double const sigma = std::sqrt(expected * (1 - expected) / runs);
        std::printf("    %d lists: accepted %.4f, by integration %.4f (%.1f sigma)\n", lists, rate, expected,
                    std::abs(rate - expected) / sigma);
        EXPECT_LT(std::abs(rate - expected), 5 * sigma);
        double emitted_statistic = 0;
        double drafted_statistic = 0;
        for (std::size_t i = 0; i < p.size(); ++i) {
            emitted_statistic += std::pow(first[i] - runs * p[i], 2) / (runs * p[i]);
            drafted_statistic += std::pow(drafted[i] - runs * q[i], 2) / (runs * q[i]);
        }
        double const freedom = static_cast<double>(p.size()) - 1;
        EXPECT_GE(multidraft::testing::upper_gamma(freedom / 2, emitted_statistic / 2), 1e-7);
        EXPECT_GE(multidraft::testing::upper_gamma(freedom / 2, drafted_statistic / 2), 1e-7);
    }
}

// --- Texts -----------------------------------------------------------------------------------------------------------

TEST(shared_randomness, no_draft_model_and_no_tree_changes_a_token) {
    bigrams const target(11);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        verify::shared_randomness const verifier(3);
        auto const alone = decode(target, target, {}, verifier, seed, 60);
        for (std::uint64_t drafter = 20; drafter < 24; ++drafter) {
            for (std::vector<int> const& children :
                 std::vector<std::vector<int>>{{1}, {1, 1, 1}, {3}, {3, 2, 1}, {2, 2}}) {
                EXPECT_EQ(decode(target, bigrams(drafter), children, verifier, seed, 60), alone);
            }
        }
    }
}

TEST(shared_randomness, accepts_all_of_its_own_drafts_when_the_models_agree) {
    bigrams const target(11);
    std::int64_t accepted = 0;
    static_cast<void>(decode(target, target, {1, 1, 1}, verify::shared_randomness(1), 3, 100, &accepted));
    EXPECT_GE(accepted, 75);  // three of every four tokens
    std::int64_t with_lists = 0;
    static_cast<void>(decode(target, target, {3, 3}, verify::shared_randomness(3), 3, 99, &with_lists));
    EXPECT_GE(with_lists, 66);
}

/// Chi-squared of the pairs of tokens two to three of a text, whose first step is speculative.
template <class Decode>
double p_value_of_pairs(bigrams const& target, int runs, Decode const& decoded) {
    std::vector<double> count(vocabulary * vocabulary, 0.0);
    for (int run = 0; run < runs; ++run) {
        auto const text = decoded(static_cast<std::uint64_t>(run));
        count[static_cast<std::size_t>(text[1] * vocabulary + text[2])] += 1;
    }
    double statistic = 0;
    for (token_id x = 0; x < vocabulary; ++x) {
        for (token_id y = 0; y < vocabulary; ++y) {
            double const expected =
                runs * target.after(0)[static_cast<std::size_t>(x)] * target.after(x)[static_cast<std::size_t>(y)];
            statistic += std::pow(count[static_cast<std::size_t>(x * vocabulary + y)] - expected, 2) / expected;
        }
    }
    return multidraft::testing::upper_gamma((vocabulary * vocabulary - 1) / 2.0, statistic / 2);
}

void expect_law_of_target() {
    bigrams const target(11);
    bigrams const drafter(12);
    for (std::vector<int> const& children : std::vector<std::vector<int>>{{1, 1}, {3}, {2, 2}, {3, 1}}) {
        for (int const lists : {0, 3}) {
            double const p_value = p_value_of_pairs(target, 20000, [&](std::uint64_t seed) {
                return decode(target, drafter, children, verify::shared_randomness(lists), seed, 2);
            });
            EXPECT_GE(p_value, 1e-7) << lists << " lists";
        }
    }
}

// Which noise the target uses may not depend on the noise.
TEST(shared_randomness, bugs_are_caught) {
    bigrams const target(11);
    bigrams const drafter(12);
    multidraft::host_group const g;
    double const p_value = p_value_of_pairs(target, 20000, [&](std::uint64_t seed) {
        addressed_source const source{addressed_uniforms(seed)};
        std::vector<token_id> text{0};
        for (std::int32_t position = 0; position < 2; ++position) {
            std::vector<token_id> tokens(4, text.back());
            probabilities<double> const q(drafter.after(text.back()).data(), vocabulary);
            auto sums = g.sum_chunks(vocabulary, multidraft::weight_of{q});
            (void)draft::shared_randomness{}(g, q, sums, source, multidraft::draw_site{position, 0},
                                             multidraft::span<token_id>(tokens).subspan(1));
            std::vector<node_id> const parents{multidraft::none, 0, 0, 0};
            std::vector<node_id> path(1);
            text.push_back(
                multidraft::bugs::race_of_fewer_lists{}(
                    g, multidraft::drafted<multidraft::law::shared_randomness>{multidraft::tree_view{parents, tokens}},
                    multidraft::target_rows(rows_of_tree{target, tokens}),
                    multidraft::draft_rows(verify::no_draft_rows{}), source, position, multidraft::span<node_id>(path))
                    .next);
        }
        return text;
    });
    EXPECT_LT(p_value, 1e-7);
}

// --- Bad input -------------------------------------------------------------------------------------------------------

TEST(shared_randomness, refuses_what_it_cannot_use) {
    EXPECT_THROW(verify::shared_randomness(-1), multidraft::invalid_input);
    std::vector<double> const nothing(4, 0.0);
    std::vector<double> const nan(4, std::numeric_limits<double>::quiet_NaN());
    std::vector<node_id> const parents{multidraft::none, 0};
    std::vector<token_id> const tokens{0, 1};
    std::vector<node_id> path(1);
    addressed_source source{addressed_uniforms(1)};
    for (auto const* values : {&nothing, &nan}) {
        EXPECT_THROW(
            verify::shared_randomness{}(
                multidraft::host_group{},
                multidraft::drafted<multidraft::law::shared_randomness>{multidraft::tree_view{parents, tokens}},
                multidraft::target_rows(multidraft::probability_rows<double>(values->data(), 2, 2)),
                multidraft::draft_rows(verify::no_draft_rows{}), source, 0, multidraft::span<node_id>(path)),
            multidraft::invalid_input);
    }
}

}  // namespace

template <>
void multidraft::testing::prove_otherwise<multidraft::methods::shared_randomness>() {
    expect_law_of_target();
}

TEST(shared_randomness, texts_have_the_targets_law) {
    multidraft::testing::prove_otherwise<multidraft::methods::shared_randomness>();
}
