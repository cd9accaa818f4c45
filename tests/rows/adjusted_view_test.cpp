// Rows with masks and biases have the bits of rows that were changed beforehand.
#include "multidraft/rows/adjusted_view.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/refusal.hpp"

namespace adjusted_view_test {
namespace {

using namespace multidraft;
using multidraft::testing::refusal;
using multidraft::testing::test_numbers;

constexpr host_group g;

/// A row, a mask of some of its tokens in words of some type, and a bias; and the adjusted row.
template <class T, class Word>
struct adjusted_row {
    using real = real_of<T>;
    static constexpr index_t word_bits = 8 * sizeof(Word);

    adjusted_row(index_t n, double share, int biased, std::uint64_t seed) {
        test_numbers numbers(seed);
        auto const minus = -std::numeric_limits<real>::infinity();
        // Bits beyond the vocabulary are set, and must be ignored.
        words.assign(static_cast<std::size_t>((n + word_bits - 1) / word_bits), Word(-1));
        for (index_t i = 0; i < n; ++i) {
            double const u = numbers();
            // Whole words of one kind too.
            bool const whole = i / 64 % 5 == 1 || i / 64 % 5 == 3;
            bool const allowed = i == n / 2 || share >= 1 || (whole ? i / 64 % 5 == 1 : u < share);
            auto x = T(static_cast<float>(6 * (numbers() + numbers() - 1)));
            if (numbers() < 0.2) x = T(1.25F);
            if (numbers() < 0.05 && i != n / 2) x = T(-std::numeric_limits<float>::infinity());
            if (!allowed) {
                if (numbers() < 0.1) x = T(std::numeric_limits<float>::quiet_NaN());
                words[static_cast<std::size_t>(i / word_bits)] =
                    static_cast<Word>(words[static_cast<std::size_t>(i / word_bits)] & ~(Word(1) << i % word_bits));
            }
            entries.push_back(x);
            real y = to_real(x);
            if (numbers() * n < biased) {
                tokens.push_back(i);
                values.push_back(static_cast<float>(4 * (numbers() - 0.5)));
                if (numbers() < 0.1 && i != n / 2) values.back() = -std::numeric_limits<float>::infinity();
                y = y + static_cast<real>(values.back());
            }
            changed.push_back(allowed ? y : minus);
        }
        masked = share < 1;
    }
    [[nodiscard]] adjusted_view<row_view<T>> view() const {
        return {{entries.data(), static_cast<index_t>(entries.size())},
                masked ? token_mask(words) : token_mask(),
                {tokens, values}};
    }
    [[nodiscard]] row_view<real> reference() const { return {changed.data(), static_cast<index_t>(changed.size())}; }

    std::vector<T> entries;
    std::vector<real> changed;
    std::vector<Word> words;
    std::vector<token_id> tokens;
    std::vector<float> values;
    bool masked = true;
};

template <class Real>
bool same_bits(Real a, Real b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The processed rows, entry by entry, and the draws from them.
template <class View, class Real>
void expect_equal(View const& row, row_view<Real> const& reference, sampling_params const& w) {
    index_t const n = row.size();
    auto const got = process_logits(g, row, w);
    auto const expected = process_logits(g, reference, w);
    ASSERT_TRUE(same_bits(got.row.mass(), expected.row.mass()));
    ASSERT_TRUE(same_bits(got.row.largest(), expected.row.largest()));
    ASSERT_TRUE(same_bits(got.row.kept().value, expected.row.kept().value));
    ASSERT_EQ(got.row.kept().last, expected.row.kept().last);
    for (index_t c = 0; c < chunks_of(n); ++c) ASSERT_TRUE(same_bits(got.sums.values[c], expected.sums.values[c]));
    for (index_t i = 0; i < n; ++i) {
        ASSERT_TRUE(same_bits(got.row(i), expected.row(i))) << i << " of " << n;
        ASSERT_TRUE(same_bits(got.row.order(i), expected.row.order(i))) << i << " of " << n;
    }
    for (double const u : {0.0, 0.3, 0.77, 1 - 0x1p-53})
        ASSERT_EQ(g.inverse_cdf(got.sums, n, weight_of{got.row}, u),
                  g.inverse_cdf(expected.sums, n, weight_of{expected.row}, u));
    std::vector<token_id> a(static_cast<std::size_t>(n < 40 ? n : 40)), b(a.size());
    g.top_k(n, order_of{got.row}, span<token_id>(a));
    g.top_k(n, order_of{expected.row}, span<token_id>(b));
    ASSERT_EQ(a, b);
    ASSERT_EQ(g.argmax(n, order_of{got.row}), g.argmax(n, order_of{expected.row}));
    // A residual of two such rows, and of one such row and a plain one.
    auto const flat = process_logits(g, reference, sampling_params{.temperature = 2.0F}).row;
    auto const sums = g.sum_chunks(n, verify::residual{flat, got.row, Real(1)});
    auto const wanted = g.sum_chunks(n, verify::residual{flat, expected.row, Real(1)});
    ASSERT_TRUE(same_bits(sums.total, wanted.total));
    auto const own = process_logits(g, row, sampling_params{.temperature = 2.0F}).row;
    ASSERT_TRUE(same_bits(g.sum(n, verify::residual{own, got.row, Real(1)}), wanted.total));
    ASSERT_EQ(g.inverse_cdf(sums, n, verify::residual{own, got.row, Real(1)}, 0.4),
              g.inverse_cdf(wanted, n, verify::residual{flat, expected.row, Real(1)}, 0.4));
}

template <class T, class Word>
void all_rows(std::vector<index_t> const& sizes) {
    std::uint64_t seed = 0;
    for (index_t const n : sizes) {
        for (double const share : {0.0, 0.03, 0.5, 0.98, 1.0}) {
            for (int const biased : {0, 3, 200}) {
                adjusted_row<T, Word> const row(n, share, biased, ++seed);
                for (sampling_params const& w :
                     {sampling_params{}, sampling_params{.temperature = 0.0F},
                      sampling_params{.temperature = 0.6F, .top_k = 7}, sampling_params{.top_k = 300},
                      sampling_params{.temperature = 1.5F, .top_p = 0.9F}, sampling_params{.top_k = 200, .top_p = 0.5F},
                      sampling_params{.min_p = 0.1F},
                      sampling_params{.temperature = 0.7F, .top_k = 20, .top_p = 0.8F, .min_p = 0.01F}}) {
                    expect_equal(row.view(), row.reference(), w);
                    if (::testing::Test::HasFatalFailure()) {
                        ADD_FAILURE() << "V = " << n << ", allowed " << share << ", biased " << biased
                                      << ", temperature " << w.temperature << ", top-k " << w.top_k << ", top-p "
                                      << w.top_p;
                        return;
                    }
                }
            }
        }
    }
}

std::vector<index_t> const small = {1, 2, 31, 32, 33, 63, 64, 65, 127, 200, 257, 320, 4095, 4096, 4097};

TEST(adjusted_view, has_the_bits_of_a_row_changed_beforehand) {
    all_rows<float, std::uint32_t>(small);
    all_rows<float, std::uint64_t>({9001, 20011});
}
TEST(adjusted_view, of_half) { all_rows<float16, std::int32_t>({33, 100, 4500}); }
TEST(adjusted_view, of_bfloat16) { all_rows<bfloat16, std::uint64_t>({33, 100, 4500}); }
TEST(adjusted_view, of_double) { all_rows<double, std::int64_t>({33, 100, 4500}); }

TEST(adjusted_view, of_more_chunks_than_sums_are_kept_of) {
    adjusted_row<float, std::uint32_t> const row(257 * 4096 + 301, 0.6, 5000, 3);
    auto const got = process_logits(g, row.view(), sampling_params{});
    auto const expected = process_logits(g, row.reference(), sampling_params{});
    EXPECT_TRUE(same_bits(got.row.mass(), expected.row.mass()));
    EXPECT_EQ(g.inverse_cdf(got.sums, row.view().size(), weight_of{got.row}, 0.9),
              g.inverse_cdf(expected.sums, row.view().size(), weight_of{expected.row}, 0.9));
}

TEST(token_mask, reads_words_of_any_integer_alike) {
    std::uint64_t const wide[2] = {0x8000000100000003U, 0x5U};
    std::uint32_t narrow[4];
    std::memcpy(narrow, wide, sizeof wide);
    std::int32_t signed_words[4];
    std::memcpy(signed_words, wide, sizeof wide);
    for (index_t i = 0; i < 128; ++i) {
        bool const expected = (wide[i / 64] >> i % 64 & 1U) != 0;
        EXPECT_EQ(token_mask(wide)(i), expected);
        EXPECT_EQ(token_mask(narrow)(i), expected);
        EXPECT_EQ(token_mask(signed_words)(i), expected);
        EXPECT_TRUE(token_mask()(i));
    }
    EXPECT_EQ(token_mask(narrow).bits(0, 64), wide[0]);
    EXPECT_EQ(token_mask(narrow).bits(64, 67), ~std::uint64_t{7} | 5U);
    EXPECT_EQ(token_mask(narrow).tokens(), 128);
    EXPECT_EQ(token_mask(wide, 1).tokens(), 64);
    // A stride in words of its own type; a single mask serves all rows.
    EXPECT_EQ(token_masks(wide, 1)(1).bits(0, 64), wide[1]);
    EXPECT_EQ(token_masks(narrow, 2)(1).bits(0, 64), wide[1]);
    EXPECT_EQ(token_masks(narrow, 2).masks(), 2);
    EXPECT_EQ(token_masks(narrow, 2).tokens(), 64);
    EXPECT_TRUE(token_masks(narrow, 2).has(1) && !token_masks(narrow, 2).has(2) && !token_masks(narrow, 2).has(-1));
    EXPECT_EQ(token_masks(narrow, 4)(1).bits(0, 64), wide[0]);
    EXPECT_TRUE(token_masks(narrow, 4).has(7));
    EXPECT_TRUE(token_masks()(5).empty());
}

// The words end with the vocabulary's: a row may not be read beyond.
TEST(token_mask, reads_no_word_beyond_the_last) {
    for (index_t const n : {1, 32, 33, 64, 65, 96, 97, 4096 + 32}) {
        std::vector<std::uint32_t> const words(static_cast<std::size_t>((n + 31) / 32), ~0U);
        std::vector<float> const row(static_cast<std::size_t>(n), 0.5F);
        auto const exact = std::vector<std::uint32_t>(words);  // found by the address sanitizer
        adjusted_view<row_view<float>> const view({row.data(), n}, token_mask(exact));
        EXPECT_EQ(process_logits(g, view, sampling_params{}).row.mass(), static_cast<float>(n));
    }
}

class adjusted_logit_rows : public ::testing::Test {
protected:
    std::vector<float> logits = std::vector<float>(3 * 40, 0.5F);
    rows_view<float> rows{logits.data(), 3, 40};
    std::vector<std::uint32_t> words{~0U, ~0U, 0, 0, ~0U, 0};
    std::vector<token_id> tokens{3, 39, 0};
    std::vector<float> values{1, 2, 3};
    std::vector<std::int64_t> offsets{0, 2, 2, 3};
};

TEST_F(adjusted_logit_rows, have_the_mask_and_the_bias_of_their_node) {
    logit_rows const all(rows, sampling_params{}, {.allowed = {words, 2}, .bias = {tokens, values, offsets}});
    EXPECT_EQ(all.rows(), 3);
    EXPECT_EQ(all.size(), 40);
    EXPECT_EQ(all.view(0)(39), 2.5F);
    EXPECT_EQ(all.view(0)(0), 0.5F);
    EXPECT_EQ(all.view(2)(0), 3.5F);
    EXPECT_EQ(all.view(2)(32), -std::numeric_limits<float>::infinity());
    EXPECT_GT(all(g, 0)(39), all(g, 0)(38));
    EXPECT_EQ(all(g, 2)(33), 0.0F);
    // One bias for all rows.
    logit_rows const one(rows, sampling_params{},
                         {.bias = {span<token_id const>(tokens).first(2), span<float const>(values).first(2)}});
    for (node_id v = 0; v < 3; ++v) EXPECT_EQ(one.view(v)(3), 1.5F);
    // None: the plain rows.
    logit_rows const none(rows, sampling_params{}, {});
    logit_rows const plain(rows, sampling_params{});
    static_assert(std::is_same_v<decltype(plain), logit_rows<float> const>);
    EXPECT_EQ(none(g, 1).mass(), plain(g, 1).mass());
}

TEST_F(adjusted_logit_rows, share_masks_and_biases_by_index) {
    std::vector<std::int64_t> masks{2, 0, -1};
    std::vector<std::int64_t> biases{-1, 0, 2};
    auto const make = [&] {
        return logit_rows(rows, sampling_params{},
                          {.allowed = {words, 2},
                           .allowed_of = masks.data(),
                           .bias = {tokens, values, offsets},
                           .bias_of = biases.data()});
    };
    auto const shared = make();
    logit_rows const plain(rows, sampling_params{});
    EXPECT_EQ(shared.view(0)(32), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(shared.view(0)(3), plain.view(0)(3));
    EXPECT_EQ(shared.view(2)(32), plain.view(2)(32));
    EXPECT_EQ(shared.view(2)(0), 3.5F);
    masks[1] = 3;
    EXPECT_EQ(refusal([&] { static_cast<void>(make()); }),
              "allowed_of[1] = 3: the mask of a node is one of those there are");
    masks[1] = 0;
    biases[2] = 3;
    EXPECT_EQ(refusal([&] { static_cast<void>(make()); }),
              "bias_of[2] = 3: the bias of a node is one of those there are");
}

TEST_F(adjusted_logit_rows, have_masks_that_are_long_enough) {
    auto const make = [&](token_masks const& allowed) {
        return refusal([&] { static_cast<void>(logit_rows(rows, sampling_params{}, {.allowed = allowed})); });
    };
    EXPECT_EQ(make({words, 1}), "allowed.tokens = 32: a mask has a bit for each of the 40 tokens");
    EXPECT_EQ(make({words.data(), 2, 2}), "allowed.masks = 2: there is a mask for each of the 3 rows");
    EXPECT_EQ(refusal([&] { static_cast<void>(adjusted_view(rows(0), token_mask(words.data(), 1))); }),
              "allowed.tokens = 32: a mask has a bit for each of the 40 tokens");
    static_cast<void>(logit_rows(rows, sampling_params{}, {.allowed = {words.data(), 1, 2}}));  // one for all
    // Whether a vector that stayed empty has reserved memory makes no difference.
    std::vector<std::uint32_t> none_yet;
    for (std::size_t const reserved : {0U, 4U}) {
        none_yet.reserve(reserved);
        EXPECT_EQ(make({none_yet, 2}), "allowed.masks = 0: there is a mask for each of the 3 rows");
        EXPECT_EQ(refusal([&] { static_cast<void>(adjusted_view(rows(0), token_mask(none_yet))); }),
                  "allowed.tokens = 0: a mask has a bit for each of the 40 tokens");
    }
    EXPECT_EQ(make({}), "nothing was thrown");
}

TEST_F(adjusted_logit_rows, have_a_bias_whose_tokens_rise) {
    auto const make = [&](std::vector<token_id> const& of_tokens, std::vector<float> const& by) {
        return refusal([&] { static_cast<void>(adjusted_view(rows(0), {}, {of_tokens, by})); });
    };
    EXPECT_EQ(make({1, 4}, {1, 1}), "nothing was thrown");
    EXPECT_EQ(make({4, 1}, {1, 1}), "bias.tokens[1] = 1: the tokens of a row's bias are of the vocabulary and rise");
    EXPECT_EQ(make({4, 4}, {1, 1}), "bias.tokens[1] = 4: the tokens of a row's bias are of the vocabulary and rise");
    EXPECT_EQ(make({4, 40}, {1, 1}), "bias.tokens[1] = 40: the tokens of a row's bias are of the vocabulary and rise");
    EXPECT_EQ(make({-1}, {1}), "bias.tokens[0] = -1: the tokens of a row's bias are of the vocabulary and rise");
    EXPECT_EQ(make({1, 4}, {1}), "bias.values.size = 1: there is one value a token: 2");
}

TEST_F(adjusted_logit_rows, of_which_every_token_is_forbidden_are_refused_by_name) {
    logit_rows const all(rows, sampling_params{}, {.allowed = {words, 2}});
    verify::detail::named_rows const named(all, "target");
    EXPECT_EQ(refusal([&] { static_cast<void>(named(g, 1)); }),
              "target row of node 1.allowed = 0: a mask allows at least one token");
    for (float const temperature : {0.0F, 1.0F}) {
        logit_rows const other(rows, sampling_params{.temperature = temperature}, {.allowed = {words, 2}});
        EXPECT_EQ(refusal([&] { static_cast<void>(other.with_sums(g, 1)); }),
                  "logits.allowed = 0: a mask allows at least one token");
    }
    // Those that are allowed have no mass.
    for (std::size_t i = 0; i < 32; ++i) logits[80 + i] = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(refusal([&] { static_cast<void>(named(g, 2)); }),
              "target row of node 2.size = 40: a row has at least one token with a logit above minus infinity");
    values[0] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(refusal([&] {
                  static_cast<void>(logit_rows(rows, sampling_params{}, {.bias = {tokens, values, offsets}})(g, 0));
              }),
              "logits[3] = inf: a logit is a number below plus infinity");
}

TEST_F(adjusted_logit_rows, refuse_a_bias_of_other_rows) {
    auto const make = [&] {
        return refusal([&] {
            static_cast<void>(logit_rows(rows, sampling_params{}, {.bias = {tokens, values, offsets}}));
        });
    };
    EXPECT_EQ(make(), "nothing was thrown");
    tokens[1] = 40;
    EXPECT_EQ(make(), "bias.tokens[1] = 40: the tokens of a row's bias are of the vocabulary and rise");
    tokens[1] = 3;
    EXPECT_EQ(make(), "bias.tokens[1] = 3: the tokens of a row's bias are of the vocabulary and rise");
    tokens = {3, 39, -1};
    EXPECT_EQ(make(), "bias.tokens[2] = -1: the tokens of a row's bias are of the vocabulary and rise");
    tokens = {3, 39, 0};
    offsets = {0, 2, 1, 3};
    EXPECT_EQ(make(), "bias.offsets[2] = 1: offsets do not fall, and lie within the tokens");
    offsets = {0, 2, 2, 4};
    EXPECT_EQ(make(), "bias.offsets[3] = 4: offsets do not fall, and lie within the tokens");
    offsets = {0, 2, 3};
    EXPECT_EQ(make(), "bias.offsets.size = 3: there is one offset a row and one more: 4");
    offsets = {0, 2, 2, 3};
    values.pop_back();
    EXPECT_EQ(make(), "bias.values.size = 2: there is one value a token: 3");
}

}  // namespace
}  // namespace adjusted_view_test
