// The exact laws of draws and whole steps from float rows of real vocabularies, over every uniform there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bugs/narrow_uniforms.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/scripted.hpp"
#include "support/uniform_counts.hpp"

namespace float_draws_test {
namespace {

using multidraft::address;
using multidraft::chunk_sums;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::row_view;
using multidraft::sampling_params;
using multidraft::span;
using multidraft::bugs::narrow_uniforms;
using multidraft::testing::count_uniforms;
using multidraft::testing::first_uniform;
using multidraft::testing::scripted_source;
using multidraft::testing::test_numbers;
using multidraft::testing::uniform_at;
using multidraft::testing::uniforms;
using law = std::vector<long double>;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;  // sanitizers make the large rows take minutes
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

constexpr host_group g;
constexpr double close_enough = 1e-6;         ///< in total variation
constexpr long double least_mass = 0x1p-40L;  ///< a token of that mass or more can be drawn

enum class row_kind { flat, steep, peak_and_tail };
constexpr row_kind all_kinds[] = {row_kind::flat, row_kind::steep, row_kind::peak_and_tail};

char const* name_of(row_kind kind) {
    return kind == row_kind::flat ? "N(0, 1)" : (kind == row_kind::steep ? "2.5 N(0, 1)" : "peak and tail");
}

std::vector<float> logits_of(row_kind kind, index_t v, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<float> x(static_cast<std::size_t>(v));
    for (float& here : x) here = static_cast<float>((kind == row_kind::steep ? 2.5 : 1.0) * numbers.normal());
    // All other tokens have a share of 0.3 % together.
    if (kind == row_kind::peak_and_tail) x[1000] = 18.0F + std::log(static_cast<float>(v) / 128256.0F);
    return x;
}

template <class Entries>
law normalised(Entries const& entries) {
    law result(entries.begin(), entries.end());
    long double sum = 0;
    for (long double const x : result) sum += x;
    for (long double& x : result) x /= sum;
    return result;
}

law softmax_of(std::vector<float> const& logits) {
    auto const largest = static_cast<long double>(*std::max_element(logits.begin(), logits.end()));
    law result;
    for (float const x : logits) result.push_back(std::exp(static_cast<long double>(x) - largest));
    return normalised(result);
}

double total_variation(law const& a, law const& b) {
    long double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
    return static_cast<double>(sum / 2);
}

/// Weights that are stored.
struct stored {
    std::vector<float> const* values;
    float operator()(index_t i) const { return (*values)[static_cast<std::size_t>(i)]; }
};

/// A source whose next draw has this uniform.
class one_uniform : public scripted_source {
public:
    explicit one_uniform(double u) : scripted_source(span<double const>(&uniform_, 1)), uniform_(u) {}

private:
    double uniform_;
};

/// The law of a categorical draw from weights that are computed, over all uniforms.
template <class Source, class W>
law law_of_categorical(chunk_sums<float> const& sums, index_t n, W const& w) {
    std::vector<float> values;
    for (index_t i = 0; i < n; ++i) values.push_back(w(i));
    stored const same{&values};
    auto const pick = [&](double u) {
        Source source(u);
        return source.categorical(g, sums, n, same, {}, address{});
    };
    law result;
    for (std::int64_t const k : count_uniforms(n, pick, same))
        result.push_back(std::ldexp(static_cast<long double>(k), -53));
    return result;
}

/// The probability of a Bernoulli draw, over all uniforms.
template <class Source>
long double law_of_coin(float numerator, float denominator) {
    double const ratio = static_cast<double>(numerator) / static_cast<double>(denominator);
    auto const fails = [&](std::int64_t k) {
        return !Source(uniform_at(k)).bernoulli(address{}, numerator, denominator);
    };
    auto const k = first_uniform(0, uniforms, static_cast<std::int64_t>(std::min(ratio, 1.0) * 0x1p53), fails);
    return std::ldexp(static_cast<long double>(k), -53);
}

/// How a law differs from the expected one, among tokens of 2^-40 and more.
struct difference {
    double total_variation;
    double relative = 0;  ///< the largest of a token
    index_t never = 0;    ///< tokens that no uniform gives
};

difference compare(law const& got, law const& wanted) {
    difference d{total_variation(got, wanted)};
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (wanted[i] < least_mass) continue;
        d.never += got[i] > 0 ? 0 : 1;
        d.relative = std::max(d.relative, static_cast<double>(std::abs(got[i] / wanted[i] - 1)));
    }
    return d;
}

void expect_equal(law const& got, law const& wanted, std::string const& what) {
    difference const d = compare(got, wanted);
    EXPECT_LT(d.total_variation, close_enough) << what;
    EXPECT_LT(d.relative, 1e-3) << what;
    EXPECT_EQ(d.never, 0) << what;
}

/// The law of a draw from a row of logits, and those it should have.
struct drawn_row {
    law got;
    law of_weights;
    law of_logits;
};

template <class Source>
drawn_row draw_from(row_kind kind, index_t v) {
    auto const logits = logits_of(kind, v, 1);
    auto const p = multidraft::process_logits(g, row_view<float>(logits.data(), v), sampling_params{});
    std::vector<float> weights;
    for (index_t i = 0; i < v; ++i) weights.push_back(p.row.weight(i));
    return {law_of_categorical<Source>(p.sums, v, multidraft::weight_of{p.row}), normalised(weights),
            softmax_of(logits)};
}

TEST(float_draws, follow_the_law_of_the_row) {
    for (index_t const v : {32'000, 128'256, 262'144}) {
        if (sanitized && v > 32'000) break;
        for (row_kind const kind : all_kinds) {
            std::string const what = std::to_string(v) + " logits, " + name_of(kind);
            drawn_row const row = draw_from<one_uniform>(kind, v);
            expect_equal(row.got, row.of_weights, what);
            expect_equal(row.got, row.of_logits, what + ", in long double");
        }
    }
}

/// The law of a step: one candidate drawn from the draft, the decision on it, and the draw from the residual. From
/// logits of the target and of the draft.
law law_of_step(std::vector<float> const& x, std::vector<float> const& y) {
    auto const v = static_cast<index_t>(x.size());
    auto const p = multidraft::process_logits(g, row_view<float>(x.data(), v), sampling_params{});
    auto const q = multidraft::process_logits(g, row_view<float>(y.data(), v), sampling_params{});
    multidraft::verify::residual const r{p.row, q.row, 1.0F};
    law emitted = law_of_categorical<one_uniform>(q.sums, v, multidraft::weight_of{q.row});
    long double accepted = 0;
    for (index_t i = 0; i < v; ++i) {
        auto& here = emitted[static_cast<std::size_t>(i)];
        here *= law_of_coin<one_uniform>(p.row(i), q.row(i));
        accepted += here;
    }
    law const left = law_of_categorical<one_uniform>(g.sum_chunks(v, r), v, r);
    for (std::size_t i = 0; i < emitted.size(); ++i) emitted[i] += (1 - accepted) * left[i];
    return emitted;
}

TEST(float_draws, make_a_step_follow_the_target) {
    index_t const v = sanitized ? 32'000 : 128'256;
    for (row_kind const kind : {row_kind::flat, row_kind::steep}) {
        auto const x = logits_of(kind, v, 2);
        auto y = x;
        test_numbers numbers(3);
        for (float& here : y) here += static_cast<float>(0.7 * numbers.normal());
        expect_equal(law_of_step(x, y), softmax_of(x), name_of(kind));
    }
}

// The worst rows for a normaliser: the sums of all chunks but one are below half a unit in the last place of the total,
// and are lost. The step is then off by as many times 2^-24 as the row has chunks, at most.
TEST(float_draws, lose_no_more_than_a_unit_for_each_chunk) {
    for (index_t const v : {32'000, sanitized ? 64'000 : 128'256}) {
        std::vector<float> x(static_cast<std::size_t>(v), -40.0F);
        x[0] = 0;
        x[1] = -8;
        std::vector<float> y(static_cast<std::size_t>(v), -25.0F);
        y[0] = 0;
        difference const d = compare(law_of_step(x, y), softmax_of(x));
        double const bound = multidraft::chunks_of(v) * 0x1p-24;
        std::printf("    V = %d: total variation %.3g, bound %.3g\n", v, static_cast<double>(d.total_variation), bound);
        EXPECT_LT(static_cast<double>(d.total_variation), bound);
        EXPECT_GT(static_cast<double>(d.total_variation), bound / 16) << "the row is not the worst";
    }
}

TEST(float_draws, by_24_bits_are_caught) {
    for (row_kind const kind : {row_kind::steep, row_kind::peak_and_tail}) {
        drawn_row const row = draw_from<narrow_uniforms>(kind, 32'000);
        difference const d = compare(row.got, row.of_weights);
        EXPECT_GT(d.total_variation, 100 * close_enough) << name_of(kind);
        EXPECT_GT(d.relative, 0.01) << name_of(kind);
        EXPECT_GT(d.never, 1000) << name_of(kind);
    }
    EXPECT_EQ(law_of_coin<narrow_uniforms>(0x1p-30F, 1.0F), 0x1p-24L);
}

// Rows whose sums have the worst rounding, in different directions in different parts.
TEST(float_draws, follow_rows_that_round_badly) {
    index_t const v = 16 * 4096;
    auto const expect_row = [](char const* what, auto weight) {
        std::vector<float> row;
        for (index_t i = 0; i < v; ++i) row.push_back(weight(i));
        stored const w{&row};
        expect_equal(law_of_categorical<one_uniform>(g.sum_chunks(v, w), v, w), normalised(row), what);
    };
    // A number added to 1 vanishes below 2^-24, and becomes 2^-23 above.
    auto const little = [](bool less) { return less ? 0x1p-24F * 0.99F : 0x1p-24F * 1.01F; };
    expect_row("chunks", [&](index_t i) { return i / 256 % 16 == 0 ? 1.0F : little(i / 4096 % 2 != 0); });
    expect_row("runs", [&](index_t i) { return i % 256 < 16 ? 1.0F : little(i / 256 % 2 != 0); });
    expect_row("short runs", [&](index_t i) { return i % 16 == 0 ? 1.0F : little(i / 16 % 2 != 0); });
    expect_row("one in a run", [](index_t i) { return i % 256 == 0 ? 1.0F : 0x1p-25F; });
    expect_row("ulps", [](index_t i) { return i / 4096 % 2 != 0 ? 1.0F + 0x1p-23F : 1.0F + 3 * 0x1p-23F; });
    test_numbers numbers(5);
    expect_row("all sizes", [&](index_t) { return static_cast<float>(std::exp(8 * numbers.normal())); });
}

// A token of little mass beside all others in a run of 16, a run of 256, a chunk; in a run or chunk of its own; before
// and behind them.
TEST(float_draws, reach_tokens_of_little_mass_wherever_they_are) {
    index_t const v = 262'144;
    struct places {
        index_t large;
        index_t small;
    };
    for (float const small : {0x1p-30F, 0x1p-40F, 0x1p-45F})
        for (places const at :
             {places{5000, 5001}, places{5001, 5000}, places{4096, 4111}, places{4096, 4112}, places{4096, 4351},
              places{4096, 8191}, places{8191, 4096}, places{0, v - 1}, places{v - 1, 0}, places{0, 4096}}) {
            std::vector<float> row(static_cast<std::size_t>(v), 0.0F);
            row[static_cast<std::size_t>(at.large)] = 1;
            row[static_cast<std::size_t>(at.small)] = small;
            stored const w{&row};
            law const got = law_of_categorical<one_uniform>(g.sum_chunks(v, w), v, w);
            law const wanted = normalised(row);
            for (index_t const i : {at.large, at.small}) {
                auto const k = static_cast<std::size_t>(i);
                EXPECT_NEAR(static_cast<double>(got[k] / wanted[k]), 1.0, 0x1p-51 / static_cast<double>(small))
                    << i << " where 1 is at " << at.large << " and " << small << " at " << at.small;
            }
        }
}

// A rare run of a rare run of a rare chunk: tokens of 2^-42 to 2^-39.
TEST(float_draws, keep_their_grain_in_rare_runs) {
    index_t const v = 262'144;
    index_t const begin = 40 * 4096;
    test_numbers numbers(7);
    std::vector<float> row;
    for (index_t i = 0; i < v; ++i) {
        bool const chunk = i >= begin && i < begin + 4096;
        bool const run = chunk && (i - begin) / 256 == 3;
        bool const short_run = run && (i - begin) % 256 / 16 == 2;
        float const rare = (chunk ? 0x1p-16F : 1.0F) * (run ? 0x1p-4F : 1.0F) * (short_run ? 0x1p-2F : 1.0F);
        row.push_back(static_cast<float>(0.1 + numbers()) * rare);
    }
    stored const w{&row};
    law const got = law_of_categorical<one_uniform>(g.sum_chunks(v, w), v, w);
    law const wanted = normalised(row);
    expect_equal(got, wanted, "rare");
    for (std::size_t i = static_cast<std::size_t>(begin) + 3 * 256 + 32;
         i < static_cast<std::size_t>(begin) + 3 * 256 + 48; ++i)
        EXPECT_NEAR(static_cast<double>(got[i] / wanted[i]), 1.0, 2e-3) << i << " of mass " << wanted[i];
}

TEST(float_draws, have_coins_of_every_probability) {
    for (float const scale : {1.0F, 0x1p-20F, 0.3F, 0x1p-100F})
        for (int power = 0; power <= 45; ++power) {
            long double const got = law_of_coin<one_uniform>(std::ldexp(scale, -power), scale);
            EXPECT_NEAR(static_cast<double>(std::ldexp(got, power)), 1.0, std::ldexp(1.0, power - 53))
                << scale << " 2^-" << power;
        }
    test_numbers numbers(11);
    for (int k = 0; k < 10'000; ++k) {
        auto const denominator = static_cast<float>(std::exp(-20 * numbers()));
        auto const numerator = static_cast<float>(std::exp(-20 * numbers())) * denominator;
        long double const wanted = static_cast<long double>(numerator) / static_cast<long double>(denominator);
        long double const got = law_of_coin<one_uniform>(numerator, denominator);
        EXPECT_NEAR(static_cast<double>(got), static_cast<double>(std::min(1.0L, wanted)), 0x1p-52);
    }
    EXPECT_EQ(law_of_coin<one_uniform>(0.0F, 1.0F), 0);
    EXPECT_EQ(law_of_coin<one_uniform>(1.0F, 1.0F), 1);
    EXPECT_EQ(law_of_coin<one_uniform>(2.0F, 1.0F), 1);
}

}  // namespace
}  // namespace float_draws_test
