// The sources of real runs and of edges: how a uniform decides Bernoulli and categorical draws, and how often.
#include "multidraft/random/source.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "support/scripted.hpp"

namespace source_test {
namespace {

using multidraft::address;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::draw_site;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::none;
using multidraft::purpose;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::scripted_source;

static_assert(multidraft::draw_source<addressed_source> && multidraft::draw_source<scripted_source>);

constexpr host_group g;

address at(index_t index) { return {5, 1, purpose::test, index}; }

template <class Real>
struct entries {
    Real const* data;
    Real operator()(index_t i) const { return data[i]; }
};

template <class Real, class Source>
index_t categorical(Source& source, std::vector<Real> const& row, index_t index) {
    entries<Real> const w{row.data()};
    auto const n = static_cast<index_t>(row.size());
    return source.categorical(g, g.sum_chunks(n, w), n, w, {}, at(index));
}

template <class Real>
class source_of : public testing::Test {};
using reals = testing::Types<float, double>;
TYPED_TEST_SUITE(source_of, reals);

// Five standard errors of 40 000 draws; the seed is fixed.
TYPED_TEST(source_of, draws_coins_as_often_as_it_should) {
    using real = TypeParam;
    addressed_source const source(addressed_uniforms(2024, 3));
    int const n = 40000;
    index_t index = 0;
    for (double const chance : {0.001, 0.3, 0.5, 0.97}) {
        int count = 0;
        for (int k = 0; k < n; ++k)
            count += source.bernoulli(at(index++), static_cast<real>(chance * 0.7), real(0.7)) ? 1 : 0;
        EXPECT_NEAR(count, n * chance, 5 * std::sqrt(n * chance * (1 - chance))) << chance;
    }
    for (int k = 0; k < 1000; ++k) {
        EXPECT_FALSE(source.bernoulli(at(k), real(0), real(1)));
        EXPECT_FALSE(source.bernoulli(at(k), real(0), real(0)));
        EXPECT_TRUE(source.bernoulli(at(k), real(0.5), real(0.5)));
        EXPECT_TRUE(source.bernoulli(at(k), real(2), real(0.5)));
    }
}

TYPED_TEST(source_of, draws_tokens_as_often_as_it_should) {
    using real = TypeParam;
    addressed_source source(addressed_uniforms(77));
    std::vector<real> const row{real(1), real(0), real(4), real(0.5), real(2.5)};
    std::vector<int> count(row.size(), 0);
    int const n = 40000;
    for (int k = 0; k < n; ++k) ++count[static_cast<std::size_t>(categorical(source, row, k))];
    for (std::size_t i = 0; i < row.size(); ++i) {
        double const p = static_cast<double>(row[i]) / 8;
        EXPECT_NEAR(count[i], n * p, 5 * std::sqrt(n * p * (1 - p))) << i;
    }
    EXPECT_EQ(count[1], 0);
}

TYPED_TEST(source_of, gives_an_address_one_answer) {
    using real = TypeParam;
    addressed_source a(addressed_uniforms(9));
    addressed_source b(addressed_uniforms(9));
    std::vector<real> const row(1000, real(1));
    int same_as_other_seed = 0;
    addressed_source other(addressed_uniforms(10));
    for (index_t k = 0; k < 200; ++k) {
        index_t const x = categorical(a, row, k);
        categorical(b, row, 1000 + k);  // draws between do not matter
        EXPECT_EQ(categorical(b, row, k), x);
        same_as_other_seed += categorical(other, row, k) == x ? 1 : 0;
    }
    EXPECT_LT(same_as_other_seed, 5);
    EXPECT_EQ(a.uniforms().seed(), 9U);
}

// All 53 bits of an address's uniform decide, for floats too.
TYPED_TEST(source_of, decides_by_the_double_of_an_address) {
    using real = TypeParam;
    addressed_source source(addressed_uniforms(31, 2));
    std::vector<real> const row(100000, real(1e-5));
    for (index_t k = 0; k < 300; ++k) {
        double const u = source.uniforms().template uniform<double>(at(k));
        std::vector<double> const script{u, u};
        scripted_source same(script);
        EXPECT_EQ(categorical(source, row, k), categorical(same, row, 0));
        auto const close = static_cast<real>(u);  // a float is as often above it as below
        EXPECT_EQ(source.bernoulli(at(k), close, real(1)), u < static_cast<double>(close));
        EXPECT_EQ(same.bernoulli(at(0), close, real(1)), u < static_cast<double>(close));
    }
}

TYPED_TEST(source_of, decides_strictly_at_the_ends) {
    using real = TypeParam;
    double const last = 1 - 0x1p-53;
    std::vector<double> const uniforms{0, 0, last, last, last, 0.5, 0.5};
    scripted_source source(uniforms);
    EXPECT_FALSE(source.bernoulli(at(0), real(0), real(1)));  // u = 0: no mass, never
    EXPECT_TRUE(source.bernoulli(at(0), std::numeric_limits<real>::denorm_min(), real(1)));
    EXPECT_TRUE(source.bernoulli(at(0), real(1), real(1)));  // the last u: certain, always
    EXPECT_FALSE(source.bernoulli(at(0), real(1) - real(0x1p-23), real(1)));
    EXPECT_FALSE(source.bernoulli(at(0), std::nextafter(real(1), real(0)), real(1)));
    EXPECT_FALSE(source.bernoulli(at(0), real(0.5), real(1)));
    EXPECT_TRUE(source.bernoulli(at(0), real(0.75), real(1)));
    EXPECT_EQ(source.used(), 7U);
}

TYPED_TEST(source_of, picks_tokens_with_mass_at_the_ends) {
    using real = TypeParam;
    std::vector<double> const uniforms{0, 1 - 0x1p-24, 0, 1 - 0x1p-53, 0.5, 0.25};
    scripted_source source(uniforms);
    std::vector<real> const row{0, 0, real(0.25), real(0.75), 0};
    EXPECT_EQ(categorical(source, row, 0), 2);
    EXPECT_EQ(categorical(source, row, 0), 3);
    std::vector<real> const large(300000, std::numeric_limits<real>::min());
    EXPECT_EQ(categorical(source, large, 0), 0);
    EXPECT_EQ(categorical(source, large, 0), 299999);
    EXPECT_EQ(categorical(source, row, 0), 3);
    EXPECT_EQ(categorical(source, row, 0), 3);  // u * total = 0.25 is passed by the next token only
    EXPECT_EQ(source.used(), 6U);
}

TEST(scripted_source, ends_with_its_script) {
    std::vector<double> const uniforms{0.5};
    scripted_source source(uniforms);
    EXPECT_EQ(source.used(), 0U);
    EXPECT_TRUE(source.bernoulli(at(0), 0.75, 1.0));
    try {
        static_cast<void>(source.bernoulli(at(0), 0.75, 1.0));
        FAIL();
    } catch (invalid_input const& error) {
        EXPECT_STREQ(error.what(), "uniforms.size = 1: the script of uniforms has ended");
    }
}

TEST(place, addresses_the_draws_of_a_node) {
    constexpr draw_site site{17, 4};
    static_assert(site(purpose::residual, 3) == address{17, 4, purpose::residual, 3});
    EXPECT_NE(site(purpose::draft, 3), site(purpose::acceptance, 3));
}

}  // namespace
}  // namespace source_test
