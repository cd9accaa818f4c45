// Laws that cannot be enumerated: samplers and verifiers in float over vocabularies of real size, from logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <set>
#include <vector>

#include "bugs/emission_from_target.hpp"
#include "bugs/merged_duplicates.hpp"
#include "bugs/sequential_as_iid.hpp"
#include "bugs/sorted_children.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/chi_squared.hpp"

namespace laws_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::address;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::draw_site;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::purpose;
using multidraft::row_view;
using multidraft::sampling_params;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::chi_squared;
using multidraft::testing::chi_squared_test;
using multidraft::testing::pooled_law;
using multidraft::testing::test_numbers;
using tokens = std::vector<token_id>;

constexpr index_t small_vocabulary = 32000;
constexpr index_t large_vocabulary = 128256;

void report(char const* what, chi_squared const& result) {
    std::printf("    %-8s chi-squared %.1f, %.0f degrees of freedom, p = %.3g\n", what, result.statistic,
                result.freedom, result.p_value());
}

/// A test of the suite: fails when the statistic exceeds the limit of its share of the failure budget.
void expect_fits(chi_squared_test which, chi_squared const& result) {
    static std::set<chi_squared_test> seen;
    EXPECT_TRUE(seen.insert(which).second) << "each test has its own share of the budget";
    ASSERT_LT(which, chi_squared_test::count);
    report("fits:", result);
    EXPECT_GE(result.p_value(), multidraft::testing::failure_level);
}

/// Power: a wrong variant must fail the same test.
void expect_does_not_fit(chi_squared const& result) {
    report("biased:", result);
    EXPECT_LT(result.p_value(), multidraft::testing::failure_level);
}

// --- Models ----------------------------------------------------------------------------------------------------------

using logits = std::vector<float>;

/// Logits as a language model has them: Zipf's law with noise, the likely tokens anywhere in the vocabulary.
logits zipf_logits(index_t vocabulary, std::uint64_t seed) {
    test_numbers numbers(seed);
    logits row(static_cast<std::size_t>(vocabulary));
    for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = static_cast<float>(-1.2 * std::log(static_cast<double>(i) + 2) + 0.3 * numbers.normal());
    for (std::size_t i = row.size() - 1; i > 0; --i)
        std::swap(row[i], row[static_cast<std::size_t>(numbers.below(static_cast<index_t>(i) + 1))]);
    return row;
}

/// A draft that approximates it.
logits draft_logits(logits row, std::uint64_t seed) {
    test_numbers numbers(seed);
    for (float& x : row) x += static_cast<float>(0.7 * numbers.normal());
    return row;
}

/// The law of a row of logits, computed apart from the library: in double, by sorting.
std::vector<double> law_of(logits const& row, double temperature = 1, std::size_t top_k = 0) {
    auto const most = static_cast<double>(*std::max_element(row.begin(), row.end()));
    double least = -1e300;
    if (top_k > 0) {
        logits sorted = row;
        std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(top_k) - 1, sorted.end(),
                         [](float a, float b) { return a > b; });
        least = static_cast<double>(sorted[top_k - 1]);
    }
    std::vector<double> law(row.size());
    double sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        auto const x = static_cast<double>(row[i]);
        law[i] = x >= least ? std::exp((x - most) / temperature) : 0.0;
        sum += law[i];
    }
    for (double& x : law) x /= sum;
    return law;
}

struct pair_of_rows {
    logits target;
    logits draft;
};

pair_of_rows rows_over(index_t vocabulary) {
    pair_of_rows rows{zipf_logits(vocabulary, 1), {}};
    rows.draft = draft_logits(rows.target, 2);
    return rows;
}

// --- Runs ------------------------------------------------------------------------------------------------------------

/// `runs` draws of n children from one row; children of a run are consecutive.
template <class Sampler>
tokens draw_children(Sampler sampler, logits const& row, std::size_t n, std::int32_t runs, std::uint64_t seed,
                     sampling_params const& w = {}) {
    host_group const g;
    addressed_source source{addressed_uniforms(seed)};
    auto const q = multidraft::process_logits(g, row_view<float>(row.data(), static_cast<index_t>(row.size())), w);
    tokens all(n * static_cast<std::size_t>(runs));
    for (std::int32_t run = 0; run < runs; ++run) {
        auto sums = q.sums;
        auto const drawn = sampler(g, q.row, sums, source, draw_site{run, 0},
                                   span<token_id>(all.data() + n * static_cast<std::size_t>(run), n));
        EXPECT_EQ(static_cast<std::size_t>(drawn.count), n);
    }
    return all;
}

tokens every(tokens const& all, std::size_t n, std::size_t k) {
    tokens chosen;
    for (std::size_t i = k; i < all.size(); i += n) chosen.push_back(all[i]);
    return chosen;
}

/// The law of the second child given the first, for the most likely first children.
chi_squared second_given_first(tokens const& pairs, std::vector<double> const& law) {
    std::vector<token_id> order(law.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<token_id>(i);
    std::partial_sort(order.begin(), order.begin() + 4, order.end(), [&](token_id a, token_id b) {
        return law[static_cast<std::size_t>(a)] > law[static_cast<std::size_t>(b)];
    });
    chi_squared result;
    for (std::size_t h = 0; h < 4; ++h) {
        tokens seconds;
        for (std::size_t i = 0; i < pairs.size(); i += 2)
            if (pairs[i] == order[h]) seconds.push_back(pairs[i + 1]);
        if (seconds.size() < 100) break;
        std::vector<double> rest = law;
        rest[static_cast<std::size_t>(order[h])] = 0;
        result += pooled_law(rest, static_cast<double>(seconds.size())).test(seconds);
    }
    EXPECT_GT(result.freedom, 0);
    return result;
}

struct outcome {
    tokens emitted;
    std::uint64_t accepted = 0;
};

/// `runs` decisions at one node: n children are drawn, then verified.
template <class Sampler, class Verifier>
outcome emit(Sampler sampler, Verifier const& verifier, pair_of_rows const& rows, std::size_t n, std::int32_t runs,
             std::uint64_t seed, sampling_params const& w = {}) {
    host_group const g;
    addressed_source source{addressed_uniforms(seed)};
    auto const vocabulary = static_cast<index_t>(rows.target.size());
    auto const p = multidraft::process_logits(g, row_view<float>(rows.target.data(), vocabulary), w);
    auto const q = multidraft::process_logits(g, row_view<float>(rows.draft.data(), vocabulary), w);
    outcome result;
    result.emitted.reserve(static_cast<std::size_t>(runs));
    tokens children(n);
    for (std::int32_t run = 0; run < runs; ++run) {
        auto sums = q.sums;
        draw_site const site{run, 0};
        auto const drawn = sampler(g, q.row, sums, source, site, span<token_id>(children));
        auto const v =
            verifier.decide(g, p.row, q.row,
                            span<token_id const>(children.data(), static_cast<std::size_t>(drawn.count)), source, site);
        result.emitted.push_back(v.token);
        result.accepted += v.child != multidraft::none ? 1U : 0U;
    }
    return result;
}

chi_squared against(std::vector<double> const& law, tokens const& drawn) {
    return pooled_law(law, static_cast<double>(drawn.size())).test(drawn);
}

// --- Tests of the tests ----------------------------------------------------------------------------------------------

TEST(chi_squared, has_the_tails_of_the_tables) {
    using multidraft::testing::upper_gamma;
    EXPECT_NEAR((chi_squared{3.841458820694124, 1}.p_value()), 0.05, 1e-12);
    EXPECT_NEAR((chi_squared{18.307038053275146, 10}.p_value()), 0.05, 1e-12);
    EXPECT_NEAR((chi_squared{149.44925277903886, 100}.p_value()), 0.001, 1e-13);
    EXPECT_NEAR((chi_squared{2 * std::log(1e9), 2}.p_value()), 1e-9, 1e-20);  // exp(-x / 2)
    EXPECT_NEAR((chi_squared{1000, 1000}.p_value()), 0.49405, 1e-4);
    EXPECT_EQ(upper_gamma(3, 0), 1.0);
    EXPECT_EQ(upper_gamma(3, std::numeric_limits<double>::infinity()), 0.0);
    for (double const a : {0.5, 3.0, 40.0}) EXPECT_NEAR(upper_gamma(a, a + 1 - 1e-9), upper_gamma(a, a + 1), 1e-8);
}

TEST(pooled_law, keeps_likely_tokens_apart_and_has_enough_in_every_bin) {
    std::vector<double> law{0.3, 0.0, 0.3, 0.2, 0.1, 0.04, 0.03, 0.02, 0.01};
    pooled_law const pooled(law, 200);
    EXPECT_EQ(pooled.bins(), 6U);  // 0, 2, 3, 4 alone, 5 + 6 and what is left, and the empty one
    EXPECT_EQ(pooled(5), pooled(8));
    EXPECT_EQ(pooled(1), 5U);
    EXPECT_TRUE(std::isinf(pooled.test({1, 0}).statistic)) << "a token of no mass was drawn";
}

// --- Samplers --------------------------------------------------------------------------------------------------------

TEST(iid, has_its_law_at_32k) {
    auto const rows = rows_over(small_vocabulary);
    auto const q = law_of(rows.draft);
    tokens const pairs = draw_children(draft::iid{}, rows.draft, 2, 100000, 101);
    tokens const first = every(pairs, 2, 0);
    expect_fits(chi_squared_test::iid_first_32k, against(q, first));
    expect_fits(chi_squared_test::iid_second_32k, against(q, every(pairs, 2, 1)));

    // Independence: the pairs of bins of about one sixteenth each.
    pooled_law const coarse(q, 160);
    std::vector<std::uint64_t> counts(coarse.bins() * coarse.bins());
    std::vector<double> share(coarse.bins());
    for (std::size_t x = 0; x < q.size(); ++x) share[coarse(static_cast<token_id>(x))] += q[x];
    for (std::size_t i = 0; i < pairs.size(); i += 2) ++counts[coarse(pairs[i]) * coarse.bins() + coarse(pairs[i + 1])];
    std::vector<double> expected(counts.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = share[i / coarse.bins()] * share[i % coarse.bins()] * static_cast<double>(first.size());
    expect_fits(chi_squared_test::iid_pairs_32k, multidraft::testing::compare(counts, expected));

    // Power: a temperature that is off by 2 %.
    expect_does_not_fit(
        against(q, draw_children(draft::iid{}, rows.draft, 1, 100000, 102, sampling_params{.temperature = 1.02F})));
}

TEST(iid, has_its_law_at_128k) {
    auto const rows = rows_over(large_vocabulary);
    expect_fits(chi_squared_test::iid_first_128k,
                against(law_of(rows.draft), draw_children(draft::iid{}, rows.draft, 1, 100000, 103)));
}

TEST(sequential, has_its_law_at_32k) {
    auto const rows = rows_over(small_vocabulary);
    auto const q = law_of(rows.draft);
    tokens const pairs = draw_children(draft::sequential{}, rows.draft, 2, 100000, 104);
    expect_fits(chi_squared_test::sequential_first_32k, against(q, every(pairs, 2, 0)));
    expect_fits(chi_squared_test::sequential_second_32k, second_given_first(pairs, q));
    // Power: with replacement; and in the order of probability.
    expect_does_not_fit(second_given_first(draw_children(draft::iid{}, rows.draft, 2, 20000, 105), q));
    expect_does_not_fit(against(q, every(draw_children(bugs::sorted_children{}, rows.draft, 2, 20000, 106), 2, 0)));
}

TEST(sequential, has_its_law_at_128k) {
    auto const rows = rows_over(large_vocabulary);
    auto const q = law_of(rows.draft);
    tokens const pairs = draw_children(draft::sequential{}, rows.draft, 2, 60000, 107);
    expect_fits(chi_squared_test::sequential_first_128k, against(q, every(pairs, 2, 0)));
    expect_fits(chi_squared_test::sequential_second_128k, second_given_first(pairs, q));
}

TEST(gumbel_top_k, has_the_law_of_sequential_at_32k) {
    auto const rows = rows_over(small_vocabulary);
    auto const q = law_of(rows.draft);
    tokens const pairs = draw_children(draft::gumbel_top_k{}, rows.draft, 2, 5000, 108);
    expect_fits(chi_squared_test::gumbel_first_32k, against(q, every(pairs, 2, 0)));
    expect_fits(chi_squared_test::gumbel_second_32k, second_given_first(pairs, q));
}

TEST(gumbel_top_k, has_the_law_of_sequential_at_128k) {
    auto const rows = rows_over(large_vocabulary);
    auto const q = law_of(rows.draft);
    tokens const pairs = draw_children(draft::gumbel_top_k{}, rows.draft, 2, 1500, 109);
    expect_fits(chi_squared_test::gumbel_first_128k, against(q, every(pairs, 2, 0)));
    expect_fits(chi_squared_test::gumbel_second_128k, second_given_first(pairs, q));
}

// --- Emitted tokens --------------------------------------------------------------------------------------------------

constexpr std::size_t children = 3;

TEST(emitted, is_the_target_at_32k) {
    auto const rows = rows_over(small_vocabulary);
    auto const p = law_of(rows.target);
    expect_fits(
        chi_squared_test::emitted_recursive_iid_32k,
        against(p, emit(draft::iid{}, verify::recursive_rejection<law::iid>{}, rows, children, 20000, 201).emitted));
    expect_fits(
        chi_squared_test::emitted_recursive_sequential_32k,
        against(p, emit(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, rows, children, 20000, 202)
                       .emitted));
    expect_fits(chi_squared_test::emitted_recursive_gumbel_32k,
                against(p, emit(draft::gumbel_top_k{}, verify::recursive_rejection<law::sequential>{}, rows, children,
                                3000, 203)
                               .emitted));
    expect_fits(
        chi_squared_test::emitted_naive_32k,
        against(p, emit(draft::sequential{}, verify::naive<law::sequential>{}, rows, children, 20000, 204).emitted));
}

TEST(emitted, is_the_processed_target_at_32k) {
    auto const rows = rows_over(small_vocabulary);
    sampling_params const w{.temperature = 0.8F, .top_k = 40};
    auto const run =
        emit(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, rows, children, 30000, 205, w);
    expect_fits(chi_squared_test::emitted_recursive_processed_32k,
                against(law_of(rows.target, static_cast<double>(w.temperature), 40), run.emitted));
}

TEST(emitted, is_the_target_at_128k) {
    auto const rows = rows_over(large_vocabulary);
    auto const p = law_of(rows.target);
    expect_fits(
        chi_squared_test::emitted_recursive_iid_128k,
        against(p, emit(draft::iid{}, verify::recursive_rejection<law::iid>{}, rows, children, 10000, 206).emitted));
    expect_fits(
        chi_squared_test::emitted_recursive_sequential_128k,
        against(p, emit(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, rows, children, 10000, 207)
                       .emitted));
    expect_fits(
        chi_squared_test::emitted_naive_128k,
        against(p, emit(draft::sequential{}, verify::naive<law::sequential>{}, rows, children, 10000, 208).emitted));
}

TEST(emitted, is_not_the_target_when_the_verifier_is_wrong) {
    auto const rows = rows_over(small_vocabulary);
    sampling_params const w{.temperature =
                                0.6F};  // peaked rows: the last two bugs need candidates that are drawn twice
    auto const p = law_of(rows.target, static_cast<double>(w.temperature));
    std::int32_t const runs = 15000;
    expect_does_not_fit(
        against(p, emit(draft::iid{}, bugs::emission_from_target<law::iid>{}, rows, children, runs, 209, w).emitted));
    expect_does_not_fit(
        against(p, emit(draft::sequential{}, bugs::sequential_as_iid{}, rows, children, runs, 210, w).emitted));
    expect_does_not_fit(
        against(p, emit(draft::iid{}, bugs::merged_duplicates{}, rows, children, runs, 211, w).emitted));
}

TEST(accepted, as_often_as_the_rows_overlap) {
    auto const rows = rows_over(small_vocabulary);
    auto const p = law_of(rows.target);
    auto const q = law_of(rows.draft);
    double overlap = 0;
    for (std::size_t i = 0; i < p.size(); ++i) overlap += std::min(p[i], q[i]);
    std::int32_t const runs = 20000;
    auto const run = emit(draft::iid{}, verify::speculative_sampling<law::iid>{}, rows, 1, runs, 212);
    expect_fits(chi_squared_test::accepted_one_32k,
                multidraft::testing::compare({run.accepted, static_cast<std::uint64_t>(runs) - run.accepted},
                                             {overlap * runs, (1 - overlap) * runs}));
}

// --- Streams ---------------------------------------------------------------------------------------------------------

/// Pairs of uniforms, two of every position, in 32 x 32 cells.
template <class First, class Second>
chi_squared independence(First first, Second second) {
    constexpr std::size_t cells = 32;
    std::int32_t const runs = 400000;
    std::vector<std::uint64_t> counts(cells * cells);
    for (std::int32_t position = 0; position < runs; ++position) {
        auto const a = static_cast<std::size_t>(first(position) * 32.0F);
        auto const b = static_cast<std::size_t>(second(position) * 32.0F);
        ++counts[a * cells + b];
    }
    return multidraft::testing::compare(
        counts, std::vector<double>(counts.size(), static_cast<double>(runs) / static_cast<double>(cells * cells)));
}

TEST(streams, of_different_addresses_are_independent) {
    addressed_uniforms const uniforms(301);
    addressed_uniforms const other_request(301, 1);
    auto const stream = [](addressed_uniforms const& u, purpose use, multidraft::node_id node = 0, index_t index = 0,
                           std::int32_t shift = 0) {
        return [=](std::int32_t position) { return u.uniform<float>(address{position + shift, node, use, index}); };
    };
    auto const drafting = stream(uniforms, purpose::draft);
    auto const accepting = stream(uniforms, purpose::acceptance);
    auto const emitting = stream(uniforms, purpose::residual);
    expect_fits(chi_squared_test::streams_draft_acceptance, independence(drafting, accepting));
    expect_fits(chi_squared_test::streams_draft_residual, independence(drafting, emitting));
    expect_fits(chi_squared_test::streams_acceptance_residual, independence(accepting, emitting));
    expect_fits(chi_squared_test::streams_two_candidates,
                independence(accepting, stream(uniforms, purpose::acceptance, 0, 1)));
    expect_fits(chi_squared_test::streams_parent_and_child,
                independence(accepting, stream(uniforms, purpose::acceptance, 1)));
    expect_fits(chi_squared_test::streams_two_positions,
                independence(accepting, stream(uniforms, purpose::acceptance, 0, 0, 1)));
    expect_fits(chi_squared_test::streams_two_requests,
                independence(accepting, stream(other_request, purpose::acceptance)));
    // Power: one stream for two purposes.
    expect_does_not_fit(independence(drafting, drafting));
}

}  // namespace
}  // namespace laws_test
