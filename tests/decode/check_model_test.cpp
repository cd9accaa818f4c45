// `check_model` finds what a model does wrong and the loops cannot see, by models that are wrong in one way each.
#include "multidraft/testing/check_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/testing/check_batched_model.hpp"
#include "support/batched_table_model.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace check_model_test {
namespace {

constexpr std::int32_t vocabulary = 50;
std::vector<token_id> const sentence{3, 1, 4, 1, 5, 9, 2, 6};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A token in a cache, as the model was told to read it.
struct entry {
    token_id token;
    std::int32_t position;
};

/// Logits that depend on all tokens seen, on their order and on the position of the last one.
std::vector<float> row_of(std::vector<entry> const& seen) {
    std::uint64_t h = 1;
    for (entry const& e : seen) h = (h ^ static_cast<std::uint64_t>(e.token + 1)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ static_cast<std::uint64_t>(seen.back().position)) * UINT64_C(0x94d049bb133111eb);
    std::vector<float> row;
    for (std::int32_t x = 0; x < vocabulary; ++x) {
        h = (h ^ (h >> 29)) * UINT64_C(0xbf58476d1ce4e5b9) + 1;
        row.push_back(static_cast<float>(h >> 40) * 0x1p-22F);
    }
    return row;
}

enum class wrong {
    nothing,
    mask,            ///< every token sees all that come before it in the cache
    positions,       ///< by the place in the cache
    keep_order,      ///< the first entries behind the context, and not those that are named
    keep_nothing,    ///< discards nothing
    first_rows,      ///< of a call that asks for fewer than there are tokens
    read_in_pieces,  ///< a call of one token does not see the one before it
    nan,
    constant,
    rounding  ///< rows of large calls differ in the last places
};

class one_wrong_model {
public:
    explicit one_wrong_model(wrong how) : how_(how) {}

    [[nodiscard]] std::int32_t vocabulary() const { return check_model_test::vocabulary; }
    [[nodiscard]] std::int32_t context_limit() const { return 64; }
    [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(cache_.size()); }

    void forward(token_batch const& batch, std::span<float> logits) {
        std::size_t const tokens = batch.tokens.size();
        std::size_t const rows = logits.size() / at(vocabulary());
        std::int32_t const first = length();
        for (std::size_t i = 0; i < tokens; ++i)
            cache_.push_back({batch.tokens[i],
                              how_ == wrong::positions ? first + static_cast<std::int32_t>(i) : batch.positions[i]});
        std::size_t const begin = how_ == wrong::first_rows ? 0 : tokens - rows;
        for (std::size_t r = 0; r < rows; ++r) {
            auto const i = static_cast<std::int32_t>(begin + r);
            auto row = row_of(seen_by(batch, first, i));
            if (how_ == wrong::nan && first == 3) row[7] = std::numeric_limits<float>::quiet_NaN();
            if (how_ == wrong::constant) row.assign(row.size(), 0.0F);
            if (how_ == wrong::rounding) row[0] += 1e-5F * static_cast<float>(tokens);
            std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(r * row.size()));
        }
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        if (how_ == wrong::keep_nothing) return;
        std::vector<entry> kept(cache_.begin(), cache_.begin() + context);
        for (std::size_t k = 0; k < entries.size(); ++k)
            kept.push_back(cache_.at(at(context) + (how_ == wrong::keep_order ? k : at(entries[k]))));
        cache_ = kept;
    }

private:
    /// What token i of a call sees, itself last.
    [[nodiscard]] std::vector<entry> seen_by(token_batch const& batch, std::int32_t first, std::int32_t i) const {
        std::vector<entry> seen;
        for (std::int32_t e = 0; e <= first + i; ++e) {
            bool const is_seen =
                e < batch.context || how_ == wrong::mask || batch.mask.causal() || batch.mask(i, e - batch.context);
            bool const is_missed = how_ == wrong::read_in_pieces && batch.tokens.size() == 1 && e == first - 1;
            if (is_seen && !is_missed) seen.push_back(cache_[at(e)]);
        }
        return seen;
    }

    std::vector<entry> cache_;
    wrong how_;
};

std::string fault_of(wrong how) {
    one_wrong_model model(how);
    return check_model(model, sentence).fault;
}

bool begins(std::string const& whole, std::string const& with) { return whole.substr(0, with.size()) == with; }

TEST(check_model, finds_nothing_in_a_right_model) {
    one_wrong_model model(wrong::nothing);
    model_report const report = check_model(model, sentence);
    EXPECT_EQ(report.fault, "");
    EXPECT_EQ(report.distance, 0);
    EXPECT_TRUE(report.same_bits);
    EXPECT_EQ(model.length(), 0);
    table_model<double> table(20, random_conditional(20, 5));
    EXPECT_EQ(check_model(table, sentence).fault, "");
}

TEST(check_model, finds_each_fault_and_says_where_it_shows) {
    EXPECT_TRUE(begins(fault_of(wrong::mask),
                       "the row of node 2 of a tree differs from that of the same tokens read as a text by 0."))
        << fault_of(wrong::mask);
    EXPECT_TRUE(begins(fault_of(wrong::positions), "the row of node 2 of a tree differs"))
        << fault_of(wrong::positions);
    EXPECT_TRUE(begins(fault_of(wrong::keep_order), "the row of the token after a kept path differs"))
        << fault_of(wrong::keep_order);
    EXPECT_TRUE(begins(fault_of(wrong::first_rows), "the row of the last of two tokens, asked for alone differs"))
        << fault_of(wrong::first_rows);
    EXPECT_TRUE(begins(fault_of(wrong::read_in_pieces), "the row after 2 tokens that are read one by one differs"))
        << fault_of(wrong::read_in_pieces);
    EXPECT_EQ(fault_of(wrong::nan),
              "the row after 4 tokens that are read one by one is no distribution: a logit is NaN or infinite, or all "
              "are minus infinity");
    EXPECT_EQ(fault_of(wrong::constant),
              "rows after different tokens differ by 0.000000 at most, so that a wrong one is not seen: take another "
              "text, or a smaller tolerance");
    one_wrong_model model(wrong::keep_nothing);
    model.forward(token_batch{sentence, std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, 0, {}}, {});
    EXPECT_EQ(check_model(model, sentence).fault, "the cache has 8 entries after keep(0, {}), and not 0");
}

TEST(check_model, measures_rounding) {
    one_wrong_model model(wrong::rounding);
    model_report const report = check_model(model, sentence);
    EXPECT_EQ(report.fault, "");
    EXPECT_FALSE(report.same_bits);
    EXPECT_GT(report.distance, 0);
    EXPECT_LT(report.distance, 1e-4);
    EXPECT_NE(check_model(model, sentence, 0.0).fault, "");
}

TEST(check_model, refuses_texts_that_show_nothing) {
    one_wrong_model model(wrong::nothing);
    auto const refused = [&](std::vector<token_id> const& tokens, double tolerance = 0.01) {
        return refusal([&] { static_cast<void>(check_model(model, tokens, tolerance)); });
    };
    EXPECT_EQ(refused({1, 2, 3}), "tokens.size = 3: a model is checked with 4 tokens or more");
    EXPECT_EQ(refused(std::vector<token_id>(61, 1)),
              "tokens.size = 61: the model has 64 positions, and 4 are for a tree");
    EXPECT_EQ(refused({1, 2, 3, 50}), "tokens[3] = 50: a token is in the vocabulary, 50");
    EXPECT_NE(refused(sentence, -1.0).find("a total variation lies in [0, 1]"), std::string::npos);
}

// --- Models of many sequences ----------------------------------------------------------------------------------------

enum class wrong_batch {
    nothing,
    mask,
    sequences,  ///< by the number of the request, and not by `sequence_of`
    entries,    ///< appended, and not written where they belong
    neighbours  ///< a request sees the cache of the one before it
};

class one_wrong_batched_model {
public:
    explicit one_wrong_batched_model(wrong_batch how) : how_(how) {}

    [[nodiscard]] std::int32_t vocabulary() const { return check_model_test::vocabulary; }
    [[nodiscard]] std::int32_t context_limit() const { return 64; }
    [[nodiscard]] std::int32_t sequences() const { return static_cast<std::int32_t>(caches_.size()); }

    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits) {
        std::vector<std::size_t> place(in.size());
        for (std::size_t k = 0; k < in.size(); ++k) {
            auto& cache = cache_of(in.requests[k], sequence_of);
            place[k] = how_ == wrong_batch::entries ? cache.size() : at(in.entries[k]);
            if (place[k] >= cache.size()) cache.resize(place[k] + 1);
            cache[place[k]] = {in.tokens[k], in.positions[k]};
        }
        std::int64_t const words = in.mask_words();
        std::vector<std::uint64_t> mask(in.size() * at(words));
        in.write_mask(mask);
        auto out = logits.begin();
        for (std::int64_t const k : in.scored) {
            std::int32_t const request = in.requests[at(k)];
            auto const& cache = cache_of(request, sequence_of);
            std::int32_t const first = in.first_entries[at(request)];
            std::vector<entry> seen(cache.begin(), cache.begin() + first);
            if (how_ == wrong_batch::neighbours && request > 0) seen = cache_of(request - 1, sequence_of);
            for (std::int64_t j = 0; first + j <= in.entries[at(k)]; ++j)
                if (how_ == wrong_batch::mask || (mask[at(k * words + j / 64)] >> (j % 64) & 1U) != 0)
                    seen.push_back(cache.at(at(first + j)));
            auto const row = row_of(seen);
            out = std::copy(row.begin(), row.end(), out);
        }
    }

    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
        auto& cache = caches_.at(at(sequence));
        cache.resize(std::max(cache.size(), at(context)));
        std::vector<entry> kept(cache.begin(), cache.begin() + context);
        for (std::int32_t const e : entries)
            kept.push_back(at(context + e) < cache.size() ? cache[at(context + e)] : entry{});
        if (how_ != wrong_batch::entries || context == 0) cache = kept;
    }

private:
    std::vector<entry>& cache_of(std::int32_t request, std::span<std::int32_t const> sequence_of) {
        return caches_.at(at(how_ == wrong_batch::sequences ? request : sequence_of[at(request)]));
    }

    std::vector<std::vector<entry>> caches_ = std::vector<std::vector<entry>>(3);
    wrong_batch how_;
};

TEST(check_model, finds_nothing_in_a_right_model_of_many_sequences) {
    one_wrong_batched_model model(wrong_batch::nothing);
    model_report const report = check_model(model, sentence);
    EXPECT_EQ(report.fault, "");
    EXPECT_EQ(report.distance, 0);
    EXPECT_TRUE(report.same_bits);
    for (std::int32_t const sequences : {1, 2, 5}) {
        batched_table_model<double> table(20, random_conditional(20, 5), sequences);
        EXPECT_EQ(check_model(table, sentence).fault, "") << sequences;
    }
}

TEST(check_model, finds_each_fault_of_a_model_of_many_sequences) {
    auto const fault = [](wrong_batch how) {
        one_wrong_batched_model model(how);
        return check_model(model, sentence).fault;
    };
    EXPECT_TRUE(begins(fault(wrong_batch::mask), "the row of node 2 of a tree, request 0 of 2 differs"))
        << fault(wrong_batch::mask);
    EXPECT_TRUE(begins(fault(wrong_batch::neighbours), "the row of node 0 of a tree, request 1 of 2 differs"))
        << fault(wrong_batch::neighbours);
    EXPECT_NE(fault(wrong_batch::sequences), "");
    EXPECT_NE(fault(wrong_batch::entries), "");
}

}  // namespace
}  // namespace check_model_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
