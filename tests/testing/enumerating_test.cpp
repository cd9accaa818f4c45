// The enumerating source: every branch once, its probability, and the misuse that it detects.
#include "multidraft/testing/enumerating.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"

namespace enumerating_test {
namespace {

using multidraft::address;
using multidraft::chunk_sums;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::none;
using multidraft::purpose;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::enumerate;
using multidraft::testing::enumerating_source;

static_assert(multidraft::draw_source<enumerating_source>);

constexpr host_group g;

address at(index_t index) { return {0, 0, purpose::test, index}; }

struct entries {
    double const* data;
    double operator()(index_t i) const { return data[i]; }
};

index_t categorical(enumerating_source& source, std::vector<double> const& row, index_t index,
                    span<token_id const> taken = {}) {
    entries const w{row.data()};
    auto const n = static_cast<index_t>(row.size());
    return source.categorical(g, g.sum_chunks(n, w), n, w, taken, at(index));
}

TEST(enumerating_source, takes_every_branch_once) {
    std::map<std::string, double> seen;
    auto const branches = enumerate([&](enumerating_source& source) {
        std::string branch;
        if (source.bernoulli(at(0), 1.0, 4.0)) {
            branch = "yes";
            branch += std::to_string(categorical(source, {3, 0, 5}, 1));
        } else {
            branch = "no";
            branch += std::to_string(categorical(source, {1, 1, 2}, 2));
            branch += source.bernoulli(at(1), 1.0F, 2.0F) ? "+" : "-";
        }
        EXPECT_TRUE(seen.emplace(branch, source.probability()).second) << branch;
    });
    std::map<std::string, double> const expected{{"yes0", 0.25 * 0.375}, {"yes2", 0.25 * 0.625}, {"no0+", 0.09375},
                                                 {"no0-", 0.09375},      {"no1+", 0.09375},      {"no1-", 0.09375},
                                                 {"no2+", 0.1875},       {"no2-", 0.1875}};
    EXPECT_EQ(branches, expected.size());
    EXPECT_EQ(seen, expected);
}

TEST(enumerating_source, has_total_probability_1) {
    double total = 0;
    auto const branches = enumerate([&](enumerating_source& source) {
        // As many draws as tokens are left, and a Bernoulli draw each.
        std::vector<token_id> taken;
        std::vector<double> const row{0.1, 0.2, 0.3, 0.4};
        for (index_t k = 0; k < 4; ++k) {
            index_t const x = categorical(source, row, k, taken);
            for (token_id const y : taken) ASSERT_NE(x, y);
            taken.push_back(x);
            if (source.bernoulli(at(10 + k), 1.0, 3.0)) break;
        }
        total += source.probability();
    });
    EXPECT_EQ(branches, 4U + 4 * 3 + 4 * 3 * 2 + 2 * 24);
    EXPECT_NEAR(total, 1, 1e-15);
}

TEST(enumerating_source, leaves_out_branches_without_probability) {
    auto const branches = enumerate([&](enumerating_source& source) {
        EXPECT_FALSE(source.bernoulli(at(0), 0.0, 1.0));
        EXPECT_FALSE(source.bernoulli(at(1), 0.0, 0.0));
        EXPECT_FALSE(source.bernoulli(at(2), -1e-30, 1.0));
        EXPECT_TRUE(source.bernoulli(at(3), 1.0, 1.0));
        EXPECT_TRUE(source.bernoulli(at(4), 2.0, 1.0));
        EXPECT_TRUE(source.bernoulli(at(5), 1.0, 0.0));
        EXPECT_EQ(categorical(source, {0, 0, 7, 0}, 6), 2);
        token_id const taken[] = {0, 2};
        EXPECT_EQ(categorical(source, {1, 2, 3, 0}, 7, taken), 1);
        EXPECT_EQ(source.probability(), 1.0);
    });
    EXPECT_EQ(branches, 1U);
}

TEST(enumerating_source, picks_nothing_from_a_row_without_mass) {
    auto const branches = enumerate([&](enumerating_source& source) {
        EXPECT_EQ(categorical(source, {0, 0}, 0), none);
        EXPECT_EQ(categorical(source, {std::nan(""), 1}, 1), none);
        token_id const taken[] = {0};
        EXPECT_EQ(categorical(source, {1, 0}, 2, taken), none);
    });
    EXPECT_EQ(branches, 1U);
}

TEST(enumerating_source, runs_once_when_nothing_is_drawn) {
    EXPECT_EQ(enumerate([](enumerating_source& source) { EXPECT_EQ(source.probability(), 1.0); }), 1U);
}

TEST(enumerating_source, refuses_an_address_that_is_used_twice) {
    auto const twice = [](address a, address b) {
        enumerate([&](enumerating_source& source) {
            static_cast<void>(source.bernoulli(a, 1.0, 2.0));
            static_cast<void>(source.bernoulli(b, 1.0, 2.0));
        });
    };
    address const a{3, 2, purpose::rank, 1};
    try {
        twice(a, a);
        FAIL();
    } catch (invalid_input const& error) {
        EXPECT_STREQ(error.what(), "address.index = 1: two draws of one run have the same address");
    }
    // One coordinate that differs is enough.
    EXPECT_NO_THROW(twice(a, {4, 2, purpose::rank, 1}));
    EXPECT_NO_THROW(twice(a, {3, 1, purpose::rank, 1}));
    EXPECT_NO_THROW(twice(a, {3, 2, purpose::draft, 1}));
    EXPECT_NO_THROW(twice(a, {3, 2, purpose::rank, 0}));
    // All draws share their addresses.
    EXPECT_THROW(enumerate([&](enumerating_source& source) {
                     static_cast<void>(source.bernoulli(at(1), 1.0, 2.0));
                     categorical(source, {1, 1}, 1);
                 }),
                 invalid_input);
}

}  // namespace
}  // namespace enumerating_test
