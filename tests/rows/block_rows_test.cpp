// Rows of block drafters that are evaluated as they are read: the bits of rows that were written out, for every group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/low_rank_term.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace block_rows_test {
namespace {

constexpr index_t vocabulary = 9001;  // several chunks, and a last run that is not whole
constexpr index_t rank = 5;

std::vector<float> numbers(std::size_t n, std::uint64_t seed, double scale) {
    test_numbers next(seed);
    std::vector<float> out(n);
    for (float& x : out) x = static_cast<float>(scale * (next() - 0.5));
    return out;
}

/// Two views give the same processed row, draws and residuals, for every chain of parameters.
template <class G, class View>
void expect_same(G const& g, View const& view, row_view<float> const& written) {
    for (index_t i = 0; i < vocabulary; ++i) ASSERT_EQ(view(i), written(i)) << i;
    auto const p_logits = numbers(vocabulary, 77, 6.0);
    auto const p = process_logits(g, row_view<float>(p_logits.data(), vocabulary), sampling_params{}).row;
    for (sampling_params const& w : {sampling_params{},
                                     {.temperature = 0.3F},
                                     {.top_k = 7},
                                     {.top_k = 300},
                                     {.top_p = 0.8F},
                                     {.temperature = 0.0F},
                                     {.min_p = 0.2F}}) {
        auto a = process_logits(g, view, w);
        auto b = process_logits(g, written, w);
        EXPECT_EQ(a.row.mass(), b.row.mass());
        EXPECT_EQ(a.row.largest(), b.row.largest());
        EXPECT_EQ(a.sums.total, b.sums.total);
        for (index_t i = 0; i < vocabulary; ++i) ASSERT_EQ(a.row(i), b.row(i)) << i;
        addressed_source source{addressed_uniforms(3)};
        std::vector<token_id> of_a(4, none), of_b(4, none);
        for (node_id v = 0; v < 20; ++v) {
            auto const drawn = draft::stratified{}(g, a.row, a.sums, source, draw_site{0, v}, span<token_id>(of_a));
            EXPECT_EQ(drawn, draft::stratified{}(g, b.row, b.sums, source, draw_site{0, v}, span<token_id>(of_b)));
            EXPECT_EQ(of_a, of_b);
            span<token_id const> const list(of_a.data(), static_cast<std::size_t>(drawn.count));
            verify::recursive_rejection<law::iid> const verifier;
            auto const x = verifier.decide(g, p, a.row, list, source, draw_site{0, v});
            auto const y = verifier.decide(g, p, b.row, list, source, draw_site{0, v});
            EXPECT_EQ(x.child, y.child);
            EXPECT_EQ(x.token, y.token);
        }
    }
}

template <class T>
void expect_term_as_written() {
    auto const base = numbers(vocabulary, 1, 8.0);
    auto const w1 = numbers(20 * rank, 2, 2.0);
    auto const w2 = numbers(static_cast<std::size_t>(rank) * vocabulary, 3, 2.0);
    std::vector<T> of_token(w1.size()), of_entry(w2.size());
    for (std::size_t i = 0; i < w1.size(); ++i) of_token[i] = T(w1[i]);
    for (std::size_t i = 0; i < w2.size(); ++i) of_entry[i] = T(w2[i]);
    low_rank_term<T> const term{of_token.data(), of_entry.data(), rank};
    auto const view = term(row_view<float>(base.data(), vocabulary), 13);
    static_assert(has_runs<std::remove_cvref_t<decltype(view)>>);
    std::vector<float> written(static_cast<std::size_t>(vocabulary));
    for (index_t i = 0; i < vocabulary; ++i) {
        float x = base[static_cast<std::size_t>(i)];
        for (index_t k = 0; k < rank; ++k)
            x = fp::fma(to_real(of_token[static_cast<std::size_t>(13 * rank + k)]),
                        to_real(of_entry[static_cast<std::size_t>(k * vocabulary + i)]), x);
        written[static_cast<std::size_t>(i)] = x;
    }
    expect_same(host_group{}, view, {written.data(), vocabulary});
    std::vector<float> here(written.size());
    detail::by_runs(view, 0, vocabulary, [&](auto const& run, index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) here[static_cast<std::size_t>(i)] = run(i);
    });
    EXPECT_EQ(here, written);
}

TEST(block_rows, of_a_low_rank_term_are_those_written_out) {
    expect_term_as_written<float>();
    expect_term_as_written<bfloat16>();
}

TEST(block_rows, of_candidates_are_those_written_out) {
    for (std::size_t const count : {1U, 2U, 16U, 500U}) {
        test_numbers next(count);
        std::vector<token_id> tokens;
        while (tokens.size() < count) {
            auto const x = static_cast<token_id>(next() * vocabulary);
            if (std::find(tokens.begin(), tokens.end(), x) == tokens.end()) tokens.push_back(x);
        }
        std::sort(tokens.begin(), tokens.end());
        auto const logits = numbers(count, 5, 8.0);
        std::vector<float> written(static_cast<std::size_t>(vocabulary), minus_infinity<float>);
        for (std::size_t k = 0; k < count; ++k) written[static_cast<std::size_t>(tokens[k])] = logits[k];
        candidate_view<float> const view(tokens, logits.data(), vocabulary);
        static_assert(has_runs<candidate_view<float>>);
        expect_same(host_group{}, view, {written.data(), vocabulary});
    }
}

TEST(block_rows, of_candidates_that_do_not_rise_are_refused) {
    std::vector<float> const logits{0, 1};
    for (std::vector<token_id> const& tokens : {std::vector<token_id>{3, 3}, {4, 2}, {-1, 2}, {2, 9}})
        EXPECT_THROW(candidate_view<float>(tokens, logits.data(), 9), invalid_input);
}

}  // namespace
}  // namespace block_rows_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
