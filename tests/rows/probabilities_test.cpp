// Rows of probabilities: read as they are, and checked by `validate`.
#include "multidraft/rows/probabilities.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"

namespace probabilities_test {
namespace {

using multidraft::bfloat16;
using multidraft::float16;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::probabilities;
using multidraft::strided;

constexpr host_group g;

static_assert(multidraft::distribution<probabilities<float>> &&
              multidraft::distribution<probabilities<float16, strided>>);
static_assert(multidraft::distribution<multidraft::softmax_row<multidraft::row_view<bfloat16>>>);
static_assert(std::is_same_v<multidraft::probability_of<probabilities<bfloat16>>, float>);

template <class T>
std::string message(std::vector<T> const& row) {
    try {
        validate(g, probabilities<T>(row.data(), static_cast<index_t>(row.size())), "target");
    } catch (invalid_input const& error) {
        return error.what();
    }
    return "";
}

TEST(probabilities, are_read_as_they_are) {
    std::vector<double> const data{0.5, 9, 0.25, 9, 0.25, 9};
    probabilities<double, strided> const row(data.data(), 3, strided{2});
    EXPECT_EQ(row.size(), 3);
    EXPECT_EQ(row(0), 0.5);
    EXPECT_EQ(row.weight(2), 0.25);
    EXPECT_NO_THROW(validate(g, row, "row"));
}

TEST(probabilities, know_where_they_are_0) {
    std::vector<float> const data{0.5F, 0.0F, std::numeric_limits<float>::denorm_min(), std::nanf("")};
    probabilities<float> const row(data.data(), 4);
    EXPECT_TRUE(may_have_mass(row, 0));
    EXPECT_FALSE(may_have_mass(row, 1));
    EXPECT_TRUE(may_have_mass(row, 2));
    EXPECT_TRUE(may_have_mass(row, 3));  // to be found
}

template <class Real>
class probabilities_of : public testing::Test {};
using reals = testing::Types<float, double>;
TYPED_TEST_SUITE(probabilities_of, reals);

TYPED_TEST(probabilities_of, are_refused_when_they_are_no_distribution) {
    using real = TypeParam;
    using row = std::vector<real>;
    std::string const bad = ": a probability is finite and not negative";
    EXPECT_EQ(message(row{1}), "");
    EXPECT_EQ(message(row{real(0.5), 0, real(0.5)}), "");
    EXPECT_EQ(message(row{real(0.5), real(-0.0), real(0.5)}), "");
    EXPECT_EQ(message(row{real(0.75), real(-0.25), real(0.5)}), "target[1] = -0.25" + bad);
    EXPECT_EQ(message(row{1, 0, -std::numeric_limits<real>::denorm_min()}).find("target[2] = "), 0U);
    EXPECT_EQ(message(row{1, std::numeric_limits<real>::quiet_NaN(), 0}), "target[1] = nan" + bad);
    EXPECT_EQ(message(row{std::numeric_limits<real>::infinity(), 0, 0}), "target[0] = inf" + bad);
    EXPECT_EQ(message(row{0, 0, 0}), "sum(target) = 0: the probabilities of a row sum to 1");
    EXPECT_EQ(message(row{real(0.5), real(0.75)}), "sum(target) = 1.25: the probabilities of a row sum to 1");
    EXPECT_EQ(message(row{}), "target.size = 0: a row has 1 to 2^31 - 4097 entries");
    row large(20000, real(1) / real(20000));
    EXPECT_EQ(message(large), "");
    large[19999] = -large[19999];
    EXPECT_EQ(message(large).find("target[19999] = -"), 0U);
}

TEST(probabilities, may_be_rounded_to_their_type) {
    for (index_t const n : {3, 1000, 50000}) {
        auto const size = static_cast<std::size_t>(n);
        double const each = 1.0 / n;
        EXPECT_EQ(message(std::vector<double>(size, each)), "");
        EXPECT_EQ(message(std::vector<float>(size, static_cast<float>(each))), "");
        EXPECT_EQ(message(std::vector<float16>(size, float16(static_cast<float>(each)))), "");
        EXPECT_EQ(message(std::vector<bfloat16>(size, bfloat16(static_cast<float>(each)))), "");
    }
    EXPECT_NE(message(std::vector<double>{0.5, 0.5 + 1e-8}), "");
    EXPECT_NE(message(std::vector<float>{0.5F, 0.501F}), "");
    EXPECT_NE(message(std::vector<float16>{float16(0.5F), float16(0.4F)}), "");
    EXPECT_NE(message(std::vector<bfloat16>{bfloat16(-0.5F), bfloat16(1.5F)}), "");
}

TEST(probability_rows, give_the_row_of_a_node) {
    std::vector<float> const data{0.5F, 0.5F, 0, 0, 0.25F, 0.75F};
    multidraft::probability_rows<float> const rows(data.data(), 2, 3);
    EXPECT_EQ(rows.rows(), 2);
    EXPECT_EQ(rows.size(), 3);
    EXPECT_EQ(rows(g, 1)(2), 0.75F);
    multidraft::probability_rows<float, strided> const columns(
        multidraft::rows_view<float, strided>(data.data(), 2, 3, 1, strided{2}));
    EXPECT_EQ(columns(g, 1)(2), 0.75F);
    EXPECT_EQ(columns(g, 0)(1), 0.0F);
}

}  // namespace
}  // namespace probabilities_test
