// Processed rows of logits against a reference that sorts, and the rows that are refused.
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/remembered_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "support/refusal.hpp"
#include "support/sampling_reference.hpp"

namespace softmax_test {
namespace {

using multidraft::float16;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::process_logits;
using multidraft::row_view;
using multidraft::sampling_params;
using multidraft::token_id;
using multidraft::testing::reference_processing;
using multidraft::testing::refusal;
using multidraft::testing::test_numbers;

constexpr host_group g;

template <class T>
row_view<T> view(std::vector<T> const& row) {
    return {row.data(), static_cast<index_t>(row.size())};
}

std::string print(sampling_params const& w) {
    std::ostringstream out;
    out << "temperature " << w.temperature << " top_k " << w.top_k << " top_p " << w.top_p << " min_p " << w.min_p;
    return out.str();
}

/// The same tokens as the reference keeps, the same probabilities, and chunk sums that agree with them.
template <class Real>
void expect_processing(std::vector<Real> const& logits, sampling_params const& w) {
    auto const n = static_cast<index_t>(logits.size());
    auto const expected = reference_processing(logits, w);
    auto const got = process_logits(g, view(logits), w);
    double const epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
    double const smallest = sizeof(Real) == 4 ? 0x1p-99 : 0x1p-899;  // lighter tokens have weight 0
    long double sum = 0;
    for (index_t i = 0; i < n; ++i) {
        auto const at = static_cast<std::size_t>(i);
        double const p = static_cast<double>(got.row(i));
        ASSERT_EQ(got.row.kept().keeps(logits[at], i), expected.kept[at]) << print(w) << " token " << i << " of " << n;
        // The argument of the exponential is rounded, relative to its size.
        double const argument = expected.probability[at] > 0 ? -std::log(expected.probability[at]) : 0.0;
        ASSERT_NEAR(p, expected.probability[at], (30 + 2 * argument) * epsilon * expected.probability[at] + smallest)
            << print(w) << " token " << i << " of " << n;
        if (!expected.kept[at]) {
            ASSERT_EQ(got.row.weight(i), Real(0));
            ASSERT_EQ(got.row.log_weight(i), -std::numeric_limits<Real>::infinity());
        } else if (got.row.weight(i) > std::numeric_limits<Real>::min()) {
            double const log_weight = static_cast<double>(got.row.log_weight(i));
            ASSERT_NEAR(log_weight, std::log(static_cast<double>(got.row.weight(i))), (3 - 2 * log_weight) * epsilon);
        }
        sum += static_cast<long double>(got.row(i));
    }
    EXPECT_NEAR(static_cast<double>(sum), 1, 30 * epsilon) << print(w);
    EXPECT_EQ(got.row.mass(), got.sums.total);
    EXPECT_EQ(got.row.size(), n);
    auto const weights = g.sum_chunks(n, multidraft::weight_of{got.row});
    EXPECT_NEAR(static_cast<double>(weights.total / got.sums.total), 1, 10 * epsilon);
}

/// Logits with many ties (few levels) or none, some of them minus infinity.
template <class Real>
std::vector<Real> random_logits(index_t n, index_t levels, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<Real> row;
    for (index_t i = 0; i < n; ++i) {
        Real const x = levels > 0 ? static_cast<Real>(numbers.below(levels)) / 2 - Real(3)
                                  : static_cast<Real>(std::log(numbers()) + 10 * numbers());
        row.push_back(numbers() < 0.1 && i > 0 ? -std::numeric_limits<Real>::infinity() : x);
    }
    return row;
}

template <class Real>
class softmax_of : public testing::Test {};
using reals = testing::Types<float, double>;
TYPED_TEST_SUITE(softmax_of, reals);

TYPED_TEST(softmax_of, equals_the_reference_that_sorts) {
    using real = TypeParam;
    std::uint64_t seed = 0;
    for (index_t const n : {1, 2, 5, 40, 300}) {
        for (index_t const levels : {1, 2, 4, 30, 0}) {
            auto const logits = random_logits<real>(n, levels, ++seed);
            for (float const temperature : {0.0F, 0.1F, 0.7F, 1.0F, 3.0F}) {
                for (index_t const top_k : {0, 1, 2, 7, 299, 300, 1000}) {
                    for (float const top_p : {1.0F, 0.95F, 0.5F, 0.3F, 1e-6F}) {
                        for (float const min_p : {0.0F, 0.017F, 0.31F, 1.0F}) {
                            expect_processing(logits, {temperature, top_k, top_p, min_p});
                            if (this->HasFatalFailure()) return;
                        }
                    }
                }
            }
        }
    }
}

TYPED_TEST(softmax_of, equals_the_reference_over_many_chunks) {
    using real = TypeParam;
    for (index_t const levels : {3, 0}) {
        auto const logits = random_logits<real>(20000, levels, 5);
        expect_processing<real>(logits, {});
        expect_processing<real>(logits, {0.6F, 50, 0.9F, 0.05F});
        expect_processing<real>(logits, {1.5F, 10000, 0.7F, 0.0F});
        expect_processing<real>(logits, {1.5F, 0, 0.99F, 0.001F});
        expect_processing<real>(logits, {0.0F, 50, 0.9F, 0.05F});
    }
}

// Tokens that top-p may count as one, and tokens that it just may not: all but a few have in total about the mass that
// may be left out.
TYPED_TEST(softmax_of, cuts_rows_of_light_tokens_where_the_reference_does) {
    using real = TypeParam;
    for (index_t const n : {300, 5000})
        for (float const top_p : {0.3F, 0.9F, 0.999F, 0.9999999F})
            for (double const share : {0.2, 0.9, 0.99, 0.999, 1.0, 1.001, 1.01, 1.1, 3.0})
                for (real const largest : {real(0), real(-7.5), real(4e5)})
                    for (index_t const heavy : {1, 3, 100}) {
                        double const each = (1 - static_cast<double>(top_p)) * share * heavy / n;
                        std::vector<real> row(static_cast<std::size_t>(n), largest + static_cast<real>(std::log(each)));
                        for (index_t i = 0; i < heavy; ++i) row[static_cast<std::size_t>(i * 2)] = largest;
                        for (std::size_t i = 1; i < row.size(); i += 2)
                            row[i] += static_cast<real>(0.001 * static_cast<double>(i % 5));
                        expect_processing<real>(row, {1.0F, 0, top_p, 0.0F});
                        expect_processing<real>(row, {0.25F, 0, top_p, 0.0F});
                        expect_processing<real>(row, {1.0F, n - 20, top_p, 0.0F});
                        if (this->HasFatalFailure()) return;
                    }
}

// Tails so flat that a single token is below rounding: the set is still the smallest that reaches the share, up to the
// rounding of floats.
/// The host group without lists: top-k is found by counting, as in launches.
struct by_counts : host_group {
    static constexpr index_t fast_top_k = 0;
};
static_assert(host_group::fast_top_k > 0 && multidraft::group<by_counts>);

TYPED_TEST(softmax_of, lists_tokens_with_the_bits_of_several_passes) {
    using real = TypeParam;
    test_numbers numbers(29);
    for (index_t const n : {6, 130, 1500, 9000, 70000})
        for (int const levels : {2, 40, 1000000})  // few levels: many ties
            for (sampling_params const& w :
                 {sampling_params{.temperature = 0.7F, .top_k = 1}, sampling_params{.temperature = 0.7F, .top_k = 5},
                  sampling_params{.temperature = 0.3F, .top_k = 50, .top_p = 0.9F},
                  sampling_params{.temperature = 2, .top_k = 128, .top_p = 0.99999F},
                  sampling_params{.temperature = 1, .top_k = 128, .min_p = 0.2F},
                  sampling_params{.temperature = 1, .top_k = 100, .top_p = 0.5F, .min_p = 0.01F},
                  sampling_params{.temperature = 0.1F, .top_p = 0.5F},
                  sampling_params{.temperature = 0.2F, .top_p = 0.9F},
                  sampling_params{.temperature = 0.3F, .top_p = 0.95F, .min_p = 0.05F},
                  sampling_params{.temperature = 0.15F, .top_p = 0.9985F},
                  sampling_params{.temperature = 1, .top_p = 0.3F}}) {
                std::vector<real> logits;
                for (index_t i = 0; i < n; ++i)
                    logits.push_back(numbers() < 0.1
                                         ? -std::numeric_limits<real>::infinity()
                                         : static_cast<real>(8 * static_cast<double>(numbers.below(levels)) / levels));
                row_view<real> const row(logits.data(), n);
                auto const listed = process_logits(host_group{}, row, w);
                auto const in_turn = process_logits(by_counts{}, row, w);
                ASSERT_EQ(listed.row.kept().value, in_turn.row.kept().value) << n << ' ' << levels;
                // Where all equal ones are kept, any later index is the last.
                for (index_t i = 0; i < n; ++i)
                    ASSERT_EQ(listed.row.may_have_mass(i), in_turn.row.may_have_mass(i))
                        << n << ' ' << levels << ' ' << i;
                ASSERT_EQ(listed.row.largest(), in_turn.row.largest());
                ASSERT_EQ(listed.row.mass(), in_turn.row.mass()) << n << ' ' << levels;
                for (index_t c = 0; c < multidraft::kept_sums(n); ++c)
                    ASSERT_EQ(listed.sums.values[c], in_turn.sums.values[c]) << n << ' ' << levels << ' ' << c;
            }
}

// A key of 0 has a number below it that is 0 as well.
TYPED_TEST(softmax_of, cuts_ties_at_0_as_at_any_other_logit) {
    using real = TypeParam;
    for (index_t const n : {300, 1000, 9000})
        for (index_t const larger : {0, 50})
            for (double const base : {0.0, -0.0, 1.0, -1.0, 1e-30}) {
                std::vector<real> logits(static_cast<std::size_t>(n), static_cast<real>(base));
                for (index_t i = 0; i < larger; ++i) logits[static_cast<std::size_t>(5 * i + 1)] += real(1);
                for (sampling_params const& w :
                     {sampling_params{.top_k = 200, .top_p = 0.9F}, sampling_params{.top_k = 100, .top_p = 0.9F},
                      sampling_params{.top_k = 51, .top_p = 0.99F}, sampling_params{.top_k = 250, .top_p = 0.3F}}) {
                    auto const expected = reference_processing(logits, w);
                    auto const check = [&](auto const& by) {
                        auto const got = process_logits(by, view(logits), w);
                        ASSERT_GT(got.row.mass(), real(0)) << print(w);
                        for (index_t i = 0; i < n; ++i)
                            ASSERT_EQ(got.row.may_have_mass(i), expected.kept[static_cast<std::size_t>(i)])
                                << print(w) << " token " << i << " of " << n << ", ties at " << base;
                    };
                    check(g);
                    check(by_counts{});
                    if (this->HasFatalFailure()) return;
                }
            }
}

TYPED_TEST(softmax_of, keeps_a_share_however_flat_the_tail_is) {
    using real = TypeParam;
    struct problem {
        index_t n;
        double tail;
        float top_p;
    };
    for (problem const& each :
         {problem{262144, -21.49, 0.99995F}, problem{1 << 20, -20.11, 0.999F}, problem{262144, -30.0, 0.9999999F},
          problem{262144, -21.49, 0.9998F}, problem{100000, -12.0, 0.7F}, problem{50000, -9.5, 0.99F},
          problem{4097, -40.0, 0.5F}}) {
        test_numbers numbers(3);
        for (int kind = 0; kind < 3; ++kind) {
            std::vector<real> row(static_cast<std::size_t>(each.n), static_cast<real>(each.tail));
            row[static_cast<std::size_t>(each.n) / 3] = 0;
            if (kind > 0)
                for (real& x : row) x += static_cast<real>((kind == 1 ? 0.5 : 6.0) * (x < 0 ? numbers() : 0.0));
            auto const plain = process_logits(g, view(row), {}).row;
            for (index_t const top_k : {0, each.n - each.n / 4}) {
                auto const got = process_logits(g, view(row), {1.0F, top_k, each.top_p, 0.0F});
                long double total = 0;
                long double kept = 0;
                real least = std::numeric_limits<real>::infinity();
                auto const limited = process_logits(g, view(row), {1.0F, top_k, 1.0F, 0.0F}).row;
                for (index_t i = 0; i < each.n; ++i) {
                    auto const weight = static_cast<long double>(plain.weight(i));
                    if (limited.weight(i) > 0 || top_k == 0) total += weight;
                    if (!got.row.kept().keeps(row[static_cast<std::size_t>(i)], i)) continue;
                    kept += weight;
                    least = std::min(least, plain.weight(i));
                }
                auto const wanted = static_cast<long double>(each.top_p) * total;
                long double const rounding = total * 0x1p-30L;
                EXPECT_GE(kept, wanted - rounding) << each.n << ' ' << each.tail << ' ' << each.top_p << ' ' << kind;
                EXPECT_LT(kept - static_cast<long double>(least), wanted + rounding)
                    << each.n << ' ' << each.tail << ' ' << each.top_p << ' ' << kind << ' ' << top_k;
            }
        }
    }
}

TYPED_TEST(softmax_of, keeps_the_lower_tokens_of_a_tie) {
    using real = TypeParam;
    auto const kept = [](std::vector<real> const& logits, sampling_params const& w) {
        auto const row = process_logits(g, view(logits), w).row;
        std::vector<index_t> result;
        for (index_t i = 0; i < row.size(); ++i)
            if (row(i) > 0) result.push_back(i);
        return result;
    };
    using tokens = std::vector<index_t>;
    std::vector<real> const same(4, real(2.5));
    EXPECT_EQ(kept(same, {1.0F, 3, 1.0F, 0.0F}), (tokens{0, 1, 2}));
    EXPECT_EQ(kept(same, {1.0F, 0, 0.5F, 0.0F}), (tokens{0, 1}));
    EXPECT_EQ(kept(same, {1.0F, 0, 0.51F, 0.0F}), (tokens{0, 1, 2}));
    EXPECT_EQ(kept(same, {1.0F, 0, 1e-6F, 0.0F}), (tokens{0}));
    EXPECT_EQ(kept(same, {1.0F, 0, 1.0F, 1.0F}), (tokens{0, 1, 2, 3}));
    EXPECT_EQ(kept(same, {0.0F, 0, 1.0F, 0.0F}), (tokens{0}));
    // Top-k truncates the tie first; top-p applies to the rest of it.
    EXPECT_EQ(kept(same, {1.0F, 2, 0.5F, 0.0F}), (tokens{0}));
    EXPECT_EQ(kept(same, {1.0F, 2, 0.75F, 0.0F}), (tokens{0, 1}));
    EXPECT_EQ(kept(same, {1.0F, 2, 1.0F, 1.0F}), (tokens{0, 1}));
    std::vector<real> const tail{real(0), real(1), real(0), real(0), real(0)};
    EXPECT_EQ(kept(tail, {1.0F, 3, 0.9F, 0.0F}), (tokens{0, 1, 2}));
    EXPECT_EQ(kept(tail, {1.0F, 3, 0.7F, 0.0F}), (tokens{0, 1}));
    EXPECT_EQ(kept(tail, {1.0F, 3, 0.5F, 0.0F}), (tokens{1}));
    // Both zeros are the same logit.
    EXPECT_EQ(kept({real(-0.0), real(0.0), real(-1)}, {1.0F, 1, 1.0F, 0.0F}), (tokens{0}));
    EXPECT_EQ(kept({real(0.0), real(-0.0), real(-1)}, {0.0F, 0, 1.0F, 0.0F}), (tokens{0}));
}

TYPED_TEST(softmax_of, with_one_token_is_temperature_0) {
    using real = TypeParam;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        auto const logits = random_logits<real>(257, seed % 2 == 0 ? 4 : 0, seed);
        auto const greedy = process_logits(g, view(logits), {0.0F, 0, 1.0F, 0.0F});
        for (sampling_params const w : {sampling_params{1.0F, 1, 1.0F, 0.0F}, sampling_params{0.7F, 1, 0.5F, 0.5F},
                                        sampling_params{1.0F, 0, 1e-30F, 0.0F}}) {
            auto const one = process_logits(g, view(logits), w);
            for (index_t i = 0; i < 257; ++i) {
                ASSERT_EQ(one.row(i), greedy.row(i)) << i;
                ASSERT_TRUE(greedy.row(i) == real(0) || greedy.row(i) == real(1));
            }
            ASSERT_EQ(one.sums.total, greedy.sums.total);
        }
    }
}

TYPED_TEST(softmax_of, stays_finite_at_any_temperature) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    std::vector<real> const logits{real(1), real(2), real(2), real(1.99), low, real(-300)};
    for (float const t : {std::numeric_limits<float>::denorm_min(), 1e-38F, 1e-30F, 1e-6F}) {
        auto const row = process_logits(g, view(logits), {t, 0, 1.0F, 0.0F}).row;
        EXPECT_EQ(row(1), real(0.5)) << t;  // the limit shares a tie; temperature 0 itself does not
        EXPECT_EQ(row(2), real(0.5)) << t;
        EXPECT_EQ(row(0) + row(3) + row(4) + row(5), real(0)) << t;
        expect_processing<real>(logits, {t, 3, 0.9F, 0.1F});
    }
    for (float const t : {1e6F, 1e30F, std::numeric_limits<float>::max()}) {
        auto const row = process_logits(g, view(logits), {t, 0, 1.0F, 0.0F}).row;
        for (index_t const i : {0, 1, 2, 3, 5}) EXPECT_NEAR(static_cast<double>(row(i)), 0.2, 1e-4) << t;
        EXPECT_EQ(row(4), real(0));
        EXPECT_EQ(process_logits(g, view(logits), {t, 0, 1.0F, 1e-30F}).row(4), real(0));
    }
    constexpr real most = std::numeric_limits<real>::max();
    expect_processing<real>({most, -most, most, low}, {});
    expect_processing<real>({most, -most, most, low}, {1.0F, 0, 1.0F, 0.5F});
}

TYPED_TEST(softmax_of, gives_probabilities_that_sum_as_they_read) {
    using real = TypeParam;
    auto const logits = random_logits<real>(5000, 0, 3);
    auto const row = process_logits(g, view(logits), {}).row;
    std::vector<real> stored;
    for (index_t i = 0; i < row.size(); ++i) stored.push_back(row(i));
    EXPECT_EQ(g.sum(5000, row), g.sum(5000, [data = stored.data()](index_t i) { return data[i]; }));
    auto const log_weights = [row](index_t i) { return row.kept().keeps(0, i) ? row.log_weight(i) : real(0); };
    for (index_t i = 0; i < row.size(); ++i) stored[static_cast<std::size_t>(i)] = log_weights(i);
    EXPECT_EQ(g.sum(5000, log_weights), g.sum(5000, [data = stored.data()](index_t i) { return data[i]; }));
}

TYPED_TEST(softmax_of, draws_nothing_outside_its_support) {
    using real = TypeParam;
    auto const logits = random_logits<real>(9000, 30, 8);
    auto const got = process_logits(g, view(logits), {0.8F, 40, 0.9F, 0.0F});
    test_numbers numbers(1);
    for (int k = 0; k < 500; ++k) {
        index_t const x = g.inverse_cdf(got.sums, 9000, multidraft::weight_of{got.row}, numbers());
        ASSERT_GT(got.row(x), real(0));
    }
    index_t others = 0;
    for (index_t i = 0; i < 9000; ++i) {
        ASSERT_EQ(got.row.may_have_mass(i), got.row(i) > 0);
        others += got.row.may_have_mass(i) ? 0 : 1;
    }
    EXPECT_GE(others, 9000 - 40);
}

TYPED_TEST(softmax_of, refuses_rows_that_are_no_distribution) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    constexpr real nan = std::numeric_limits<real>::quiet_NaN();
    for (sampling_params const w :
         {sampling_params{}, sampling_params{0.0F, 0, 1.0F, 0.0F}, sampling_params{0.7F, 2, 0.5F, 0.1F}}) {
        auto const text = [&](std::vector<real> const& row, char const* name) {
            return refusal([&] { static_cast<void>(process_logits(g, view(row), w, name)); });
        };
        EXPECT_EQ(text({real(1), nan, real(2)}, "target"), "target[1] = nan: a logit is a number below plus infinity");
        EXPECT_EQ(text({real(1), real(2), -low}, "draft"), "draft[2] = inf: a logit is a number below plus infinity");
        EXPECT_EQ(text({low, nan}, "x"), "x[1] = nan: a logit is a number below plus infinity");
        std::string const empty = "x.size = 3: a row has at least one token with a logit above minus infinity";
        EXPECT_EQ(text({low, low, low}, "x"), empty);
        EXPECT_EQ(text({}, "x"), "x.size = 0: a row has 1 to 2^31 - 4097 entries");
        std::vector<real> row(5000, real(0));
        row[4999] = nan;
        EXPECT_EQ(text(row, "x"), "x[4999] = nan: a logit is a number below plus infinity");
    }
}

TEST(logit_rows, process_the_row_that_is_asked_for) {
    std::vector<float> const logits{0, 1, 2, 3, 9, 9, 3, 2, 1, 0, 9, 9, 5, 5, 5, 5};
    multidraft::rows_view<float> const rows(logits.data(), 3, 4, 6);
    sampling_params const w{0.5F, 3, 1.0F, 0.0F};
    multidraft::logit_rows<float> const distributions(rows, w);
    EXPECT_EQ(distributions.rows(), 3);
    EXPECT_EQ(distributions.size(), 4);
    for (multidraft::node_id node = 0; node < 3; ++node) {
        auto const expected = process_logits(g, rows(node), w).row;
        auto const got = distributions(g, node);
        for (index_t i = 0; i < 4; ++i) EXPECT_EQ(got(i), expected(i)) << node << ' ' << i;
    }
    EXPECT_EQ(distributions(g, 2)(3), 0.0F);  // the lower tokens of a tie
}

TEST(softmax_row, of_a_row_longer_than_a_row_may_be_is_refused) {
    float const entry = 0.5F;
    for (index_t const n : {multidraft::max_row_size + 1, std::numeric_limits<index_t>::max(), 0, -3}) {
        row_view<float, multidraft::strided> const row(&entry, n, multidraft::strided{0});
        for (sampling_params const& w :
             {sampling_params{}, sampling_params{.temperature = 0.0F}, sampling_params{.top_k = 5, .top_p = 0.9F}}) {
            try {
                static_cast<void>(process_logits(host_group{}, row, w, "row"));
                ADD_FAILURE() << n;
            } catch (invalid_input const& e) {
                EXPECT_EQ(e.argument(), "row.size");
                EXPECT_EQ(e.value(), std::to_string(n));
            }
        }
    }
}

TEST(prepared_rows, are_those_that_were_processed_before) {
    std::vector<float> const logits{0, 1, 2, 3};
    using row = multidraft::softmax_row<row_view<float>>;
    std::vector<row> const rows{process_logits(g, view(logits), {}).row,
                                process_logits(g, view(logits), {0.0F, 0, 1.0F, 0.0F}).row};
    multidraft::prepared_rows<multidraft::softmax_row<row_view<float>>> const distributions(rows, 4);
    EXPECT_EQ(distributions.rows(), 2);
    EXPECT_EQ(distributions.size(), 4);
    EXPECT_EQ(distributions(g, 1)(3), 1.0F);
    EXPECT_EQ(distributions(g, 0)(2), rows[0](2));
}

TEST(softmax_row, moves_to_a_copy_of_its_logits) {
    std::vector<float> const logits{0, 1, 2, 3};
    auto row = process_logits(g, view(logits), {1.0F, 2, 1.0F, 0.0F}).row;
    auto const before = row;
    std::vector<float> const copy = logits;
    row.move_to(view(copy));
    for (index_t i = 0; i < 4; ++i) EXPECT_EQ(row(i), before(i));
}

}  // namespace
}  // namespace softmax_test
