// What an error says: the argument, its index and the value as a stream prints it.
#include "multidraft/base/error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "multidraft/base/config.hpp"

namespace error_test {
namespace {

using multidraft::invalid_input;
using multidraft::refuse;

template <class T>
void expect_printed(T const& value) {
    std::ostringstream stream;
    stream << value;
    try {
        refuse("argument", value, "a reason");
        FAIL() << "nothing was thrown";
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.value(), stream.str());
        EXPECT_EQ(e.what(), "argument = " + stream.str() + ": a reason");
        EXPECT_EQ(e.index(), -1);
        EXPECT_EQ(e.node(), multidraft::none);
    }
}

template <class Real>
void expect_reals_printed() {
    using limits = std::numeric_limits<Real>;
    for (Real const x : {Real(0), -Real(0), Real(1), Real(-0.5), Real(1) / 3, Real(100000), Real(1234567), Real(1e-5),
                         limits::min(), limits::denorm_min(), limits::max(), limits::lowest(), limits::infinity(),
                         -limits::infinity(), limits::quiet_NaN()})
        expect_printed(x);
}

TEST(refuse, prints_numbers_as_a_stream_does) {
    expect_reals_printed<float>();
    expect_reals_printed<double>();
    for (int const x : {0, 7, -1}) expect_printed(x);
    expect_printed(std::numeric_limits<std::int64_t>::min());
    expect_printed(std::numeric_limits<std::uint64_t>::max());
    expect_printed(true);
}

TEST(refuse, takes_texts_as_they_are) {
    expect_printed("4x2x2x1");
    expect_printed(std::string("a text"));
    expect_printed(std::string_view("a text").substr(2));
    expect_printed("");
}

TEST(refuse, names_the_entry) {
    try {
        refuse("parents", 3, 7, "a parent must come before its child");
        FAIL() << "nothing was thrown";
    } catch (invalid_input const& e) {
        EXPECT_STREQ(e.what(), "parents[3] = 7: a parent must come before its child");
        EXPECT_EQ(e.argument(), "parents");
        EXPECT_EQ(e.index(), 3);
        EXPECT_EQ(e.value(), "7");
        EXPECT_EQ(e.reason(), "a parent must come before its child");
    }
}

TEST(refuse_member, says_whose_member_it_is) {
    invalid_input const of_all("top_k", -1, "-2", "a reason");
    invalid_input const of_entry("next_sibling", 2, "7", "a reason", 4);
    auto const refused = [](auto const&... arguments) {
        try {
            multidraft::refuse_member(arguments...);
        } catch (invalid_input const& e) {
            return e;
        }
    };
    EXPECT_STREQ(refused("sampling", of_all).what(), "sampling.top_k = -2: a reason");
    EXPECT_STREQ(refused("sampling", of_all, ", request 1", 10).what(), "sampling.top_k = -2: a reason, request 1");
    invalid_input const e = refused("links", of_entry, ", request 1", 10);
    EXPECT_STREQ(e.what(), "links.next_sibling[12] = 7: a reason, request 1");
    EXPECT_EQ(e.argument(), "links.next_sibling");
    EXPECT_EQ(e.index(), 12);
    EXPECT_EQ(e.node(), 4);
}

TEST(refuse, finds_rows_of_no_size) {
    multidraft::validate_row_size(1, "p");
    multidraft::validate_row_size(multidraft::max_row_size, "p");
    for (std::int64_t const size : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{multidraft::max_row_size} + 1})
        EXPECT_THROW(multidraft::validate_row_size(size, "p"), invalid_input) << size;
}

}  // namespace
}  // namespace error_test
