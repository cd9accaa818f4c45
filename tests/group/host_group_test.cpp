// The host group against a scalar reading of the documented order of sums, and its searches against brute force.
#include "multidraft/group/host_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"

namespace host_group_test {
namespace {

using multidraft::chunk_sums;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::none;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::test_numbers;

constexpr host_group g;

// 1 048 576 entries are 256 chunks, all whose sums are kept.
constexpr index_t full = 256 * 4096;
constexpr index_t sizes[] = {1,    2,    15,   16,    17,     63,     64,       255,  256,      257,
                             4095, 4096, 4097, 32000, 128256, 152064, full - 1, full, full + 1, 257 * 4096 + 300};

/// The entries of a vector as a function of the index.
template <class Real>
struct entries {
    Real const* data;
    Real operator()(index_t i) const { return data[i]; }
};
template <class Real>
entries<Real> of(std::vector<Real> const& row) {
    return {row.data()};
}

template <class Real>
std::vector<Real> random_weights(index_t n, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<Real> row(static_cast<std::size_t>(n));
    for (Real& x : row) x = numbers() < 0.2 ? Real(0) : static_cast<Real>(std::exp(20 * numbers() - 18));
    return row;
}

// --- The documented order, one addition after the other --------------------------------------------------------------

/// Lanes of a power of two, l with l + half, half .., 1.
template <class Real>
Real pairwise(std::vector<Real> lanes) {
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) lanes[l] = lanes[l] + lanes[l + half];
    return lanes[0];
}

/// `histogram` terms from `begin` in `lanes` strided lanes; terms beyond the row are 0.
template <class Real>
Real strided_sum(std::vector<Real> const& row, std::size_t begin, std::size_t count, std::size_t lanes) {
    std::vector<Real> lane(lanes, Real(0));
    for (std::size_t k = 0; k < count; ++k)
        if (begin + k < row.size()) lane[k % lanes] = lane[k % lanes] + row[begin + k];
    return pairwise(lane);
}

template <class Real>
std::vector<Real> documented_chunks(std::vector<Real> const& row) {
    std::vector<Real> sums;
    for (std::size_t begin = 0; begin < row.size(); begin += 4096) sums.push_back(strided_sum(row, begin, 4096, 256));
    return sums;
}

template <class Real>
Real in_order(std::vector<Real> const& sums) {
    Real total = 0;
    for (Real const x : sums) total = total + x;
    return total;
}

/// The run into which the fraction u of the total falls, or the last one with mass.
template <class Real>
std::size_t passes(std::vector<Real> const& sums, double& u) {
    std::vector<double> up_to{0.0};
    for (Real const x : sums) up_to.push_back(up_to.back() + static_cast<double>(x));
    double const t = u * up_to.back();
    std::size_t found = sums.size();
    for (std::size_t k = 0; k < sums.size(); ++k) {
        if (!(sums[k] > 0)) continue;
        found = k;
        if (up_to[k + 1] > t) break;
    }
    if (found < sums.size())
        u = std::min((t - up_to[found]) / static_cast<double>(sums[found]), std::nextafter(1.0, 0.0));
    return found;
}

template <class Real>
index_t documented_search(std::vector<Real> const& row, double u) {
    auto const chunks = documented_chunks(row);
    std::size_t begin = passes(chunks, u);
    if (begin == chunks.size()) return none;
    begin *= 4096;
    for (std::size_t const run : {std::size_t{256}, std::size_t{16}, std::size_t{1}}) {
        std::vector<Real> sums;
        for (std::size_t k = 0; k < 16; ++k) sums.push_back(strided_sum(row, begin + k * run, run, run > 1 ? 16U : 1U));
        begin += run * passes(sums, u);
    }
    return static_cast<index_t>(begin);
}

// --- Sums ------------------------------------------------------------------------------------------------------------

template <class Real>
class host_group_of : public testing::Test {};
using reals = testing::Types<float, double>;
TYPED_TEST_SUITE(host_group_of, reals);

TYPED_TEST(host_group_of, sums_in_the_documented_order) {
    using real = TypeParam;
    for (index_t const n : sizes) {
        auto const row = random_weights<real>(n, static_cast<std::uint64_t>(n));
        auto const chunks = documented_chunks(row);
        real const total = in_order(chunks);
        EXPECT_EQ(g.sum(n, of(row)), total) << n;
        auto const sums = g.sum_chunks(n, of(row));
        EXPECT_EQ(sums.total, total) << n;
        if (multidraft::chunks_of(n) <= chunk_sums<real>::capacity) {
            for (std::size_t c = 0; c < chunks.size(); ++c) ASSERT_EQ(sums.values[c], chunks[c]) << n << ' ' << c;
        }
        long double exact = 0;
        for (real const x : row) exact += static_cast<long double>(x);
        EXPECT_NEAR(static_cast<double>(total / static_cast<real>(exact)), 1,
                    static_cast<double>(std::numeric_limits<real>::epsilon()) * 30);
    }
}

TYPED_TEST(host_group_of, sums_signed_terms_in_the_same_order) {
    using real = TypeParam;
    test_numbers numbers(5);
    std::vector<real> row(10001);
    for (real& x : row) x = static_cast<real>(numbers() - 0.5);
    EXPECT_EQ(g.sum(10001, of(row)), in_order(documented_chunks(row)));
}

TYPED_TEST(host_group_of, gives_the_same_bits_wherever_the_row_lies) {
    using real = TypeParam;
    for (index_t const n : {257, 4097, 32000}) {
        auto const row = random_weights<real>(n, 3);
        auto const x = [](real w) { return std::log(w + real(1e-6)); };
        real const total = g.sum(n, of(row));
        auto const logits = [&](real const* data) {
            return g.softmax(
                n, [data, x](index_t i) { return x(data[i]); }, real(0.7));
        };
        auto const sums = logits(row.data());
        std::vector<real> moved(row.size() + 32);
        for (std::size_t shift = 0; shift < 32; ++shift) {
            std::copy(row.begin(), row.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
            ASSERT_EQ(g.sum(n, entries<real>{moved.data() + shift}), total);
            auto const here = logits(moved.data() + shift);
            ASSERT_EQ(here.largest, sums.largest);
            ASSERT_EQ(here.sums.total, sums.sums.total);
        }
    }
}

TYPED_TEST(host_group_of, has_no_terms_in_an_empty_row) {
    using real = TypeParam;
    entries<real> const nothing{nullptr};
    EXPECT_EQ(g.sum(0, nothing), real(0));
    EXPECT_EQ(g.max(0, nothing), -std::numeric_limits<real>::infinity());
    EXPECT_EQ(g.argmax(0, nothing), none);
    auto sums = g.sum_chunks(0, nothing);
    EXPECT_EQ(sums.total, real(0));
    EXPECT_EQ(g.inverse_cdf(sums, 0, nothing, 0.0), none);
    token_id out[2] = {7, 7};
    g.top_k(0, nothing, out);
    EXPECT_EQ(out[0], none);
    EXPECT_EQ(out[1], none);
    EXPECT_EQ(g.softmax(0, nothing, real(1)).sums.total, real(0));
}

// A product that feeds a sum must be rounded first, so that stored and recomputed values are equal.
TYPED_TEST(host_group_of, sums_what_a_function_returns) {
    using real = TypeParam;
    auto const row = random_weights<real>(5000, 8);
    auto const scaled = [data = row.data()](index_t i) { return multidraft::fp::mul(data[i], real(0.3)); };
    std::vector<real> stored;
    for (index_t i = 0; i < 5000; ++i) stored.push_back(scaled(i));
    EXPECT_EQ(g.sum(5000, scaled), g.sum(5000, of(stored)));
}

// --- Maxima ----------------------------------------------------------------------------------------------------------

TYPED_TEST(host_group_of, finds_the_first_of_the_largest) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    for (index_t const n : {1, 2, 63, 64, 65, 4096, 4097, 9000}) {
        auto const size = static_cast<std::size_t>(n);
        std::vector<real> row(size, low);
        EXPECT_EQ(g.max(n, of(row)), low);
        EXPECT_EQ(g.argmax(n, of(row)), 0);
        for (std::size_t const at : {std::size_t{0}, size / 3, size / 2, size - 1}) {
            row.assign(size, real(-2));
            row[at] = real(-1);
            row[size - 1] = real(-1);
            EXPECT_EQ(g.max(n, of(row)), real(-1));
            EXPECT_EQ(g.argmax(n, of(row)), static_cast<index_t>(at)) << n;
        }
        row.assign(size, real(0));
        row[size / 2] = real(-0.0);
        EXPECT_EQ(g.argmax(n, of(row)), 0);  // zeros are equal
    }
}

TYPED_TEST(host_group_of, gives_the_top_in_order_with_ties_to_the_lower_index) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    test_numbers numbers(11);
    for (index_t const n : {1, 2, 7, 255, 256, 257, 700, 1024, 1025, 1100, 5000, 70001, 300000}) {
        for (index_t const levels : {1, 3, 50, 100000}) {  // few levels: many ties
            if (n > 10000 && levels == 50) continue;
            std::vector<real> row;
            for (index_t i = 0; i < n; ++i)
                row.push_back(numbers() < 0.1 ? low : static_cast<real>(numbers.below(levels) - levels / 2));
            std::vector<token_id> order(row.size());
            std::iota(order.begin(), order.end(), 0);
            auto const before = [&](token_id a, token_id b) {
                real const x = row[static_cast<std::size_t>(a)];
                real const y = row[static_cast<std::size_t>(b)];
                return x > y || (x == y && a < b);
            };
            std::sort(order.begin(), order.end(), before);
            for (std::size_t const k :
                 {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{8}, std::size_t{127}, std::size_t{128},
                  std::size_t{129}, row.size(), row.size() + 3}) {
                if (k > 300 && n > 700) continue;
                std::vector<token_id> out(k, 12345);
                g.top_k(n, of(row), out);
                for (std::size_t i = 0; i < k; ++i)
                    ASSERT_EQ(out[i], i < order.size() ? order[i] : none) << n << ' ' << levels << ' ' << k << ' ' << i;
                if (k == 0 || k > 128 || k > row.size()) continue;
                bool const listed = g.top_k_of_logits(n, of(row), out);
                ASSERT_EQ(listed, row[static_cast<std::size_t>(order[0])] > low) << n << ' ' << levels << ' ' << k;
                for (std::size_t i = 0; listed && i < k; ++i)
                    ASSERT_EQ(out[i], order[i]) << n << ' ' << levels << ' ' << k;
            }
        }
    }
}

TYPED_TEST(host_group_of, lists_no_top_of_rows_with_nan_or_plus_infinity) {
    using real = TypeParam;
    constexpr real infinite = std::numeric_limits<real>::infinity();
    std::vector<token_id> out(5);
    for (index_t const n : {5, 200, 1024, 1025, 5000, 66000}) {
        std::vector<real> row(static_cast<std::size_t>(n), -infinite);
        EXPECT_FALSE(g.top_k_of_logits(n, of(row), out)) << n;
        row[static_cast<std::size_t>(n / 2)] = real(-3);
        EXPECT_TRUE(g.top_k_of_logits(n, of(row), out)) << n;
        for (index_t const at : {0, n / 3, n - 1})
            for (real const fault : {infinite, std::numeric_limits<real>::quiet_NaN()}) {
                std::vector<real> wrong = row;
                wrong[static_cast<std::size_t>(at)] = fault;
                EXPECT_FALSE(g.top_k_of_logits(n, of(wrong), out)) << n << ' ' << at << ' ' << fault;
                g.top_k(n, of(wrong), out);
                for (token_id const t : out) EXPECT_TRUE(t >= 0 && t < n) << n << ' ' << at << ' ' << fault;
            }
    }
}

TYPED_TEST(host_group_of, sums_listed_weights_as_it_sums_rows) {
    using real = TypeParam;
    test_numbers numbers(12);
    for (index_t const n : {3, 300, 4096, 5000, 70001, 1100000}) {
        std::vector<real> row(static_cast<std::size_t>(n), real(0));
        std::vector<token_id> list;
        for (int k = 0; k < 128; ++k) {
            auto const at = static_cast<token_id>(numbers.below(n));
            if (row[static_cast<std::size_t>(at)] != real(0)) continue;
            row[static_cast<std::size_t>(at)] = static_cast<real>(numbers() + 1e-3);
            list.push_back(at);
        }
        auto const sums = g.sum_chunks(n, of(row));
        auto const listed = g.sum_chunks_of(n, of(row), list);
        EXPECT_EQ(listed.total, sums.total) << n;
        for (index_t c = 0; c < multidraft::kept_sums(n); ++c)
            ASSERT_EQ(listed.values[c], sums.values[c]) << n << ' ' << c;
    }
}

// --- Search ----------------------------------------------------------------------------------------------------------

template <class Real>
index_t brute_force(std::vector<Real> const& row, double t) {
    double running = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
        running += static_cast<double>(row[i]);
        if (running > t) return static_cast<index_t>(i);
    }
    return none;
}

TYPED_TEST(host_group_of, finds_where_the_running_sum_passes_every_integer) {
    using real = TypeParam;
    test_numbers numbers(2);
    for (index_t const n : {1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097, 9000}) {
        std::vector<real> row(static_cast<std::size_t>(n));
        for (real& x : row) x = numbers() < 0.5 ? real(0) : static_cast<real>(numbers.below(4));  // sums are exact
        row[static_cast<std::size_t>(numbers.below(n))] = real(5);
        auto const sums = g.sum_chunks(n, of(row));
        index_t const step = n > 1000 ? 7 : 1;
        for (index_t t = 0; static_cast<real>(t) < sums.total; t += step) {
            // A fraction is rounded: at a border either side is possible.
            index_t const expected = brute_force(row, t);
            for (double const part : {1e-9, 0.5, 1 - 1e-9}) {
                double const u = (static_cast<double>(t) + part) / static_cast<double>(sums.total);
                ASSERT_EQ(g.inverse_cdf(sums, n, of(row), u), expected) << n << ' ' << t;
            }
        }
        auto first = index_t{0};
        while (!(row[static_cast<std::size_t>(first)] > 0)) ++first;
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 0.0), first);
        // A fraction rounded past the end gives the last token with mass.
        auto last = n - 1;
        while (!(row[static_cast<std::size_t>(last)] > 0)) --last;
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 1 - 0x1p-53), last);
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 1.0), last);
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 2.0), last);
    }
}

TYPED_TEST(host_group_of, searches_in_the_documented_order) {
    using real = TypeParam;
    test_numbers numbers(4);
    for (index_t const n : {1, 16, 300, 4095, 4097, 32000}) {
        auto const row = random_weights<real>(n, static_cast<std::uint64_t>(n) + 9);
        auto const sums = g.sum_chunks(n, of(row));
        if (!(sums.total > 0)) continue;
        for (int k = 0; k < 300; ++k) {
            // Near the ends too, and exactly at sums where rounding decides.
            double u = k % 3 == 0 ? numbers() : (k % 3 == 1 ? 1 - 1e-7 * numbers() : 1e-7 * numbers());
            if (k % 5 == 0) u = static_cast<double>(g.sum(numbers.below(n), of(row))) / static_cast<double>(sums.total);
            index_t const found = g.inverse_cdf(sums, n, of(row), u);
            ASSERT_EQ(found, documented_search(row, u)) << n << ' ' << u;
            ASSERT_GT(row[static_cast<std::size_t>(found)], real(0));
        }
    }
}

TYPED_TEST(host_group_of, never_finds_a_token_without_weight) {
    using real = TypeParam;
    for (index_t const n : {1, 17, 257, 5000, 70000}) {
        std::vector<real> row(static_cast<std::size_t>(n), real(0));
        auto sums = g.sum_chunks(n, of(row));
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 0.0), none);
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 1.0), none);
        for (index_t const at : {0, n / 3, n / 2, n - 1}) {
            row.assign(row.size(), real(0));
            row[static_cast<std::size_t>(at)] = std::numeric_limits<real>::denorm_min();
            sums = g.sum_chunks(n, of(row));
            for (double const u : {0.0, 0.5, 1 - 0x1p-53, 1.0, 1.5})
                EXPECT_EQ(g.inverse_cdf(sums, n, of(row), u), at) << n << ' ' << u;
        }
    }
}

TYPED_TEST(host_group_of, takes_tokens_out) {
    using real = TypeParam;
    test_numbers numbers(6);
    for (index_t const n : {5, 300, 4097, 20000}) {
        std::vector<real> row(static_cast<std::size_t>(n));
        for (real& x : row) x = static_cast<real>(1 + numbers.below(3));
        auto sums = g.sum_chunks(n, of(row));
        std::vector<real> left = row;
        std::vector<token_id> taken;
        for (int k = 0; k < 5; ++k) {
            double const t = std::floor(numbers() * static_cast<double>(sums.total)) + 0.5;
            index_t const found = g.inverse_cdf(sums, n, of(row), t / static_cast<double>(sums.total), taken);
            ASSERT_EQ(found, brute_force(left, t)) << n << ' ' << k;
            left[static_cast<std::size_t>(found)] = real(0);
            taken.push_back(found);
            g.update_chunk(sums, n, of(row), taken, found);
            auto const fresh = g.sum_chunks(n, of(left));
            ASSERT_EQ(sums.total, fresh.total);
            for (index_t c = 0; c < multidraft::chunks_of(n); ++c) ASSERT_EQ(sums.values[c], fresh.values[c]);
        }
        if (n == 5) {
            EXPECT_EQ(sums.total, real(0));
            EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 0.0, taken), none);
        }
    }
}

TYPED_TEST(host_group_of, reweighs_to_the_bits_of_a_fresh_sum) {
    using real = TypeParam;
    auto row = random_weights<real>(30000, 77);
    auto sums = g.sum_chunks(30000, of(row));
    for (index_t const changed : {0, 4095, 4096, 29999, 12345}) {
        row[static_cast<std::size_t>(changed)] = real(0.123);
        g.update_chunk(sums, 30000, of(row), {}, changed);
        auto const fresh = g.sum_chunks(30000, of(row));
        EXPECT_EQ(sums.total, fresh.total);
        for (index_t c = 0; c < multidraft::chunks_of(30000); ++c) ASSERT_EQ(sums.values[c], fresh.values[c]);
    }
}

TYPED_TEST(host_group_of, searches_rows_of_more_chunks_than_sums_are_kept_of) {
    using real = TypeParam;
    index_t const n = 258 * 4096 + 11;
    std::vector<real> row(static_cast<std::size_t>(n), real(0));
    std::vector<token_id> const places{3, 4096, 5000, full - 1, full, n - 1};
    for (token_id const x : places) row[static_cast<std::size_t>(x)] = real(2);
    auto sums = g.sum_chunks(n, of(row));
    ASSERT_EQ(sums.total, real(12));
    for (int t = 0; t < 12; ++t)
        EXPECT_EQ(g.inverse_cdf(sums, n, of(row), (t + 0.5) / 12), places[static_cast<std::size_t>(t / 2)]);
    EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 0.0), 3);
    EXPECT_EQ(g.inverse_cdf(sums, n, of(row), 1.0), n - 1);
    std::vector<token_id> const taken{full - 1, n - 1};
    g.update_chunk(sums, n, of(row), span<token_id const>(taken).first(1), full - 1);
    EXPECT_EQ(sums.total, real(10));
    g.update_chunk(sums, n, of(row), taken, n - 1);
    ASSERT_EQ(sums.total, real(8));
    token_id const left[] = {3, 4096, 5000, full};
    for (int t = 0; t < 8; ++t) EXPECT_EQ(g.inverse_cdf(sums, n, of(row), (t + 0.5) / 8, taken), left[t / 2]);

    auto const random = random_weights<real>(n, 1);
    auto const random_sums = g.sum_chunks(n, of(random));
    for (double const u : {0.0, 0.3, 0.9999, 1 - 0x1p-53})
        EXPECT_EQ(g.inverse_cdf(random_sums, n, of(random), u), documented_search(random, u));
}

// --- Softmax ---------------------------------------------------------------------------------------------------------

template <class Real>
void expect_softmax(std::vector<Real> const& row, Real scale) {
    auto const n = static_cast<index_t>(row.size());
    auto const sums = g.softmax(n, of(row), scale);
    long double largest = -HUGE_VALL;
    for (Real const x : row) largest = std::max(largest, static_cast<long double>(x));
    long double total = 0;
    for (Real const x : row) {
        auto const low = static_cast<long double>(x) - largest;
        if (x > -std::numeric_limits<Real>::infinity()) total += std::exp(low * static_cast<long double>(scale));
    }
    ASSERT_EQ(static_cast<long double>(sums.largest), largest);
    // The argument of an exponential is rounded, relative to its size, which matters only where the weight does.
    auto const tolerance = static_cast<double>(std::numeric_limits<Real>::epsilon()) * 40;
    ASSERT_NEAR(static_cast<double>(static_cast<long double>(sums.sums.total) / total), 1, tolerance)
        << n << ' ' << scale;
    if (multidraft::chunks_of(n) > chunk_sums<Real>::capacity) return;
    for (index_t c = 0; c < multidraft::chunks_of(n); ++c) {
        long double here = 0;
        for (index_t i = c * 4096; i < std::min(n, (c + 1) * 4096); ++i) {
            auto const x = static_cast<long double>(row[static_cast<std::size_t>(i)]);
            if (x > -HUGE_VALL) here += std::exp((x - largest) * static_cast<long double>(scale));
        }
        ASSERT_NEAR(static_cast<double>(static_cast<long double>(sums.sums.values[c]) - here), 0,
                    static_cast<double>(here) * tolerance + 1e-40);
    }
}

TYPED_TEST(host_group_of, normalises_logits) {
    using real = TypeParam;
    test_numbers numbers(21);
    for (index_t const n : sizes) {
        std::vector<real> row;
        for (index_t i = 0; i < n; ++i) row.push_back(static_cast<real>(16 * numbers() - 8 + 3 * std::sin(i / 3000.0)));
        for (double const scale : {1.0, 0.1, 3.0}) expect_softmax(row, static_cast<real>(scale));
        for (std::size_t i = 0; i < row.size(); i += 3)
            if (i != row.size() / 2) row[i] = -std::numeric_limits<real>::infinity();
        if (n > 1) expect_softmax(row, real(1));
    }
}

TYPED_TEST(host_group_of, normalises_logits_of_all_sizes) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    constexpr real most = std::numeric_limits<real>::max();
    std::vector<real> row{real(1), real(1), real(0.999), real(-50), low, real(1)};
    EXPECT_EQ(g.softmax(6, of(row), most).sums.total, real(3));  // a temperature of 0, all but
    EXPECT_EQ(g.softmax(6, of(row), std::numeric_limits<real>::denorm_min()).sums.total, real(5));  // nearly uniform
    row = {most, -most, most};
    EXPECT_EQ(g.softmax(3, of(row), real(1)).sums.total, real(2));
    row = {-most, low, -most};
    EXPECT_EQ(g.softmax(3, of(row), real(1)).sums.total, real(2));
    row.assign(5000, low);  // a first chunk without mass
    row[4999] = real(-1000);
    row[4998] = real(-1000);
    auto const sums = g.softmax(5000, of(row), real(1));
    EXPECT_EQ(sums.sums.values[0], real(0));
    EXPECT_EQ(sums.sums.values[1], real(2));
    EXPECT_EQ(sums.sums.total, real(2));
    EXPECT_EQ(sums.largest, real(-1000));
}

TYPED_TEST(host_group_of, has_no_mass_in_a_row_of_minus_infinities) {
    using real = TypeParam;
    constexpr real low = -std::numeric_limits<real>::infinity();
    for (index_t const n : {1, 300, 4096, 4097, 257 * 4096}) {
        std::vector<real> const row(static_cast<std::size_t>(n), low);
        auto const sums = g.softmax(n, of(row), real(1));
        EXPECT_EQ(sums.largest, low);
        EXPECT_EQ(sums.sums.total, real(0));
    }
}

TYPED_TEST(host_group_of, shows_nan_and_infinity_in_the_total) {
    using real = TypeParam;
    for (real const bad : {std::numeric_limits<real>::quiet_NaN(), std::numeric_limits<real>::infinity()}) {
        for (index_t const n : {1, 255, 4096, 9000, full + 5000}) {
            for (index_t const at : {0, n / 2, n - 1}) {
                std::vector<real> row(static_cast<std::size_t>(n), real(0.5));
                row[static_cast<std::size_t>(at)] = bad;
                real const total = g.softmax(n, of(row), real(1)).sums.total;
                EXPECT_NE(total, total) << bad << ' ' << n << ' ' << at;
                // Even where the rest has no mass.
                row.assign(row.size(), -std::numeric_limits<real>::infinity());
                row[static_cast<std::size_t>(at)] = bad;
                real const alone = g.softmax(n, of(row), real(1)).sums.total;
                EXPECT_NE(alone, alone) << bad << ' ' << n << ' ' << at;
            }
        }
    }
}

TYPED_TEST(host_group_of, carries_the_largest_over_blocks_of_chunks) {
    using real = TypeParam;
    index_t const n = 513 * 4096;
    std::vector<real> row(static_cast<std::size_t>(n), -std::numeric_limits<real>::infinity());
    auto const expect = [&](real total, real largest) {
        auto const sums = g.softmax(n, of(row), real(1));
        EXPECT_NEAR(static_cast<double>(sums.sums.total), static_cast<double>(total), 1e-5);
        EXPECT_EQ(sums.largest, largest);
    };
    row[10] = real(1);
    expect(real(1), real(1));
    row[full + 10] = real(3);  // larger in the second block
    expect(real(1 + std::exp(-2.0)), real(3));
    row[2 * full + 10] = real(2);  // smaller in the third
    expect(real(1 + std::exp(-2.0) + std::exp(-1.0)), real(3));
    row[10] = -std::numeric_limits<real>::infinity();  // a first block without mass
    expect(real(1 + std::exp(-1.0)), real(3));
}

// --- Counting --------------------------------------------------------------------------------------------------------

TEST(host_group, counts_masses_in_bins) {
    test_numbers numbers(31);
    for (double const in_bin_0 : {0.0, 0.05, 0.5, 0.95, 1.0})
        for (double const skipped : {0.0, 0.3, 0.95})
            for (index_t const n : {0, 1, 255, 256, 257, 5000}) {
                std::vector<index_t> bin;
                std::vector<std::int32_t> mass;
                std::vector<std::uint64_t> expected(7, 0);
                for (index_t i = 0; i < n; ++i) {
                    bin.push_back(numbers() < in_bin_0 ? 0 : numbers.below(7));
                    if (numbers() < skipped)
                        bin.back() = numbers() < 0.5 ? -1 - numbers.below(3) : 7 + numbers.below(3);
                    mass.push_back(numbers() < 0.1 ? std::numeric_limits<std::int32_t>::max() : numbers.below(100));
                    if (bin.back() >= 0 && bin.back() < 7)
                        expected[static_cast<std::size_t>(bin.back())] += static_cast<std::uint64_t>(mass.back());
                }
                std::vector<std::uint64_t> bins(7, 99);
                g.histogram(n, entries<index_t>{bin.data()}, entries<std::int32_t>{mass.data()}, bins);
                EXPECT_EQ(bins, expected) << in_bin_0 << ", skipped " << skipped << " of " << n;
            }
    std::vector<std::uint64_t> no_bins;
    index_t const zero = 0;
    g.histogram(1, entries<index_t>{&zero}, entries<std::int32_t>{&zero}, no_bins);
}

/// Bins, masses and a second mass of an entry.
struct pairs {
    std::vector<multidraft::binned_pair> const* all;
    multidraft::binned_pair operator()(index_t i) const { return (*all)[static_cast<std::size_t>(i)]; }
};

/// Weights most of which are 0, by a function with `may_be_nonzero`.
struct some_weights {
    std::vector<float> const* values;
    float operator()(index_t i) const { return (*values)[static_cast<std::size_t>(i)]; }
};
struct sparse_weights : some_weights {
    bool may_be_nonzero(index_t i) const { return (*this)(i) > 0; }
};

TEST(host_group, skips_what_does_not_count_without_a_trace) {
    test_numbers numbers(31);
    for (double const some : {0.0, 0.0005, 0.01, 0.5, 1.0})
        for (index_t const n : {1, 63, 64, 65, 255, 256, 257, 4096, 4097, 9000, 1200000}) {
            std::vector<float> values(static_cast<std::size_t>(n), 0.0F);
            for (float& v : values)
                if (numbers() < some) v = static_cast<float>(numbers());
            some_weights const all{&values};
            sparse_weights const few{{&values}};
            EXPECT_EQ(g.sum(n, few), g.sum(n, all));
            auto expected = g.sum_chunks(n, all);
            auto found = g.sum_chunks(n, few);
            ASSERT_EQ(found.total, expected.total);
            for (double const u : {0.0, 0.3, 0.999})
                EXPECT_EQ(g.inverse_cdf(found, n, few, u), g.inverse_cdf(expected, n, all, u));
            index_t const changed = g.inverse_cdf(expected, n, all, 0.5);
            if (changed == multidraft::none) continue;
            values[static_cast<std::size_t>(changed)] = 0;
            g.update_chunk(expected, n, all, {}, changed);
            g.update_chunk(found, n, few, {}, changed);
            EXPECT_EQ(found.total, expected.total) << some << ", " << n << " entries";
        }
}

/// A row with so many candidates, and the same written out.
struct short_row {
    std::vector<token_id> tokens;
    std::vector<float> logits;
    std::vector<float> written;

    short_row(index_t n, std::size_t candidates, std::uint64_t seed)
        : written(static_cast<std::size_t>(n), multidraft::minus_infinity<float>) {
        test_numbers numbers(seed);
        for (index_t i = 0; i < n; ++i) tokens.push_back(i);
        while (tokens.size() > candidates)
            tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(numbers() * static_cast<double>(tokens.size())));
        for (token_id const x : tokens) {
            // Some are equal, and some have no mass.
            double const u = numbers();
            logits.push_back(u < 0.1 ? multidraft::minus_infinity<float> : std::floor(static_cast<float>(u) * 40) / 4);
            written[static_cast<std::size_t>(x)] = logits.back();
        }
    }
    [[nodiscard]] multidraft::candidate_view<float> view() const {
        return {tokens, logits.data(), static_cast<index_t>(written.size())};
    }
};

TEST(host_group, finds_the_largest_of_candidates_as_of_whole_rows) {
    std::uint64_t seed = 40;
    for (index_t const n : {1, 40, 64, 200, 5000, 9000})
        for (std::size_t const count : {std::size_t{1}, std::size_t{7}, std::size_t{39}}) {
            short_row const row(n, count, ++seed);
            entries<float> const all{row.written.data()};
            for (std::size_t k = 1; k <= 50 && k <= row.written.size(); ++k) {
                std::vector<token_id> expected(k), found(k);
                g.top_k(n, all, span<token_id>(expected));
                g.top_k(n, row.view(), span<token_id>(found));
                ASSERT_EQ(found, expected) << n << " entries, " << count << " candidates, " << k << " of them";
            }
        }
}

TEST(host_group, sums_candidates_as_whole_rows_to_the_bit) {
    std::uint64_t seed = 80;
    for (index_t const n : {1, 63, 255, 256, 300, 4096, 4097, 9000, 20000})
        for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{30}, std::size_t{200}})
            for (float const scale : {1.0F, 1.4F}) {
                short_row row(n, count, ++seed);
                auto const compare = [&] {
                    auto const expected = g.softmax(n, entries<float>{row.written.data()}, scale);
                    auto const found = g.softmax(n, row.view(), scale);
                    ASSERT_EQ(found.largest, expected.largest);
                    ASSERT_EQ(std::isnan(found.sums.total), std::isnan(expected.sums.total));
                    ASSERT_TRUE(std::isnan(expected.sums.total) || found.sums.total == expected.sums.total);
                    for (index_t c = 0; c < (n + 4095) / 4096; ++c)
                        ASSERT_TRUE(found.sums.values[c] == expected.sums.values[c] ||
                                    std::isnan(expected.sums.values[c]))
                            << n << " entries, " << count << " candidates, chunk " << c;
                };
                compare();
                if (row.logits.empty()) continue;
                row.logits.back() = std::numeric_limits<float>::quiet_NaN();
                row.written[static_cast<std::size_t>(row.tokens.back())] = row.logits.back();
                compare();
            }
}

TEST(host_group, counts_pairs_in_bins) {
    test_numbers numbers(32);
    auto const mass = [&] {
        return numbers() < 0.1 ? std::numeric_limits<std::int32_t>::max() : std::int32_t(numbers.below(100));
    };
    for (index_t const bins : {1, 7, 258, 264, 265, 1000})
        for (index_t const n : {0, 1, 3, 255, 256, 257, 5000}) {
            std::vector<multidraft::binned_pair> entries;
            std::vector<std::uint64_t> expected(2 * static_cast<std::size_t>(bins), 0);
            for (index_t i = 0; i < n; ++i) {
                // Often that of the entry before; below 0 and beyond the end: skipped.
                index_t const bin = i > 0 && numbers() < 0.5 ? entries.back().bin : numbers.below(bins + 4) - 2;
                entries.push_back({bin, mass(), mass()});
                if (bin < 0 || bin >= bins) continue;
                auto const at = 2 * static_cast<std::size_t>(bin);
                expected[at] += static_cast<std::uint64_t>(entries.back().first);
                expected[at + 1] += static_cast<std::uint64_t>(entries.back().second);
            }
            if (n > 2) {
                entries[1].bin = std::numeric_limits<index_t>::max();
                entries[2].bin = std::numeric_limits<index_t>::min();
                std::fill(expected.begin(), expected.end(), 0);
                for (auto const& e : entries) {
                    if (e.bin < 0 || e.bin >= bins) continue;
                    expected[2 * static_cast<std::size_t>(e.bin)] += static_cast<std::uint64_t>(e.first);
                    expected[2 * static_cast<std::size_t>(e.bin) + 1] += static_cast<std::uint64_t>(e.second);
                }
            }
            std::vector<std::uint64_t> counted(expected.size(), 99);
            g.histogram_pairs(n, pairs{&entries}, counted);
            EXPECT_EQ(counted, expected) << bins << " bins, " << n << " entries";
        }
}

/// Only entries in a bin count, which is tested first.
struct listed_pairs {
    std::vector<multidraft::binned_pair> const* entries;
    bool may_be_nonzero(index_t i) const { return (*entries)[static_cast<std::size_t>(i)].bin >= 0; }
    multidraft::binned_pair operator()(index_t i) const { return (*entries)[static_cast<std::size_t>(i)]; }
};

TEST(host_group, counts_few_pairs_in_bins) {
    test_numbers numbers(33);
    // From none to all; and rows that change from few to many on the way.
    for (double const some : {0.0, 0.002, 0.1, 0.24, 0.26, 1.0})
        for (bool const changes : {false, true})
            for (index_t const n : {0, 1, 7, 8, 255, 256, 257, 511, 513, 5000, 20000}) {
                std::vector<multidraft::binned_pair> entries;
                for (index_t i = 0; i < n; ++i) {
                    double const here = changes && i / 1000 % 2 == 1 ? 1 - some : some;
                    entries.push_back({numbers() < here ? numbers.below(40) : multidraft::none,
                                       std::int32_t(numbers.below(100)), std::int32_t(numbers.below(1 << 30))});
                }
                std::vector<std::uint64_t> expected(80, 1);
                std::vector<std::uint64_t> counted(80, 2);
                g.histogram_pairs(n, pairs{&entries}, expected);
                g.histogram_pairs(n, listed_pairs{&entries}, counted);
                EXPECT_EQ(counted, expected) << some << ", " << n << " entries";
            }
}

// A function with one value: such a row would not fit into memory.
TEST(host_group, refuses_rows_longer_than_a_row_may_be) {
    auto const one = [](index_t) { return 1.0F; };
    token_id out[2] = {};
    std::uint64_t bins[4] = {};
    for (index_t const n : {multidraft::max_row_size + 1, std::numeric_limits<index_t>::max()}) {
        EXPECT_THROW(static_cast<void>(g.sum(n, one)), multidraft::invalid_input);
        EXPECT_THROW(static_cast<void>(g.max(n, one)), multidraft::invalid_input);
        EXPECT_THROW(static_cast<void>(g.argmax(n, one)), multidraft::invalid_input);
        EXPECT_THROW(g.top_k(n, one, span<token_id>(out)), multidraft::invalid_input);
        EXPECT_THROW(static_cast<void>(g.sum_chunks(n, one)), multidraft::invalid_input);
        EXPECT_THROW(static_cast<void>(g.softmax(n, one, 1.0F)), multidraft::invalid_input);
        EXPECT_THROW(g.histogram(
                         n, [](index_t) { return 0; }, [](index_t) { return 1; }, span<std::uint64_t>(bins)),
                     multidraft::invalid_input);
        EXPECT_THROW(g.histogram_pairs(
                         n,
                         [](index_t) {
                             return multidraft::binned_pair{0, 1, 1};
                         },
                         span<std::uint64_t>(bins)),
                     multidraft::invalid_input);
    }
}

TEST(host_group, leads) { EXPECT_TRUE(g.leader()); }

}  // namespace
}  // namespace host_group_test
