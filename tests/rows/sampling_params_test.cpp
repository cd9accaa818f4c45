// Sampling parameters: their effect on flags, and errors.
#include "multidraft/rows/sampling_params.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sampling_params_test {
namespace {

using multidraft::invalid_input;
using multidraft::sampling_params;

TEST(sampling_params, does_nothing_by_default) {
    constexpr sampling_params w;
    static_assert(!w.greedy() && !w.truncates());
    EXPECT_NO_THROW(validate(w));
    EXPECT_EQ(w, (sampling_params{1.0F, 0, 1.0F, 0.0F}));
}

TEST(sampling_params, knows_what_truncates) {
    static_assert(sampling_params{.temperature = 0.0F}.greedy() && sampling_params{.temperature = 0.0F}.truncates());
    static_assert(!sampling_params{.temperature = 0.5F}.truncates());
    static_assert(sampling_params{.top_k = 1}.truncates() && !sampling_params{.top_k = 1}.greedy());
    static_assert(sampling_params{.top_p = 0.99F}.truncates());
    static_assert(sampling_params{.min_p = 0.01F}.truncates());
}

std::string message(sampling_params const& w) {
    try {
        validate(w);
    } catch (invalid_input const& error) {
        return error.what();
    }
    return "";
}

TEST(sampling_params, takes_the_ends_of_its_ranges) {
    EXPECT_EQ(message({.temperature = 0.0F}), "");
    EXPECT_EQ(message({.temperature = std::numeric_limits<float>::denorm_min()}), "");
    EXPECT_EQ(message({.temperature = std::numeric_limits<float>::max()}), "");
    EXPECT_EQ(message({.top_k = std::numeric_limits<multidraft::index_t>::max()}), "");
    EXPECT_EQ(message({.top_p = std::numeric_limits<float>::denorm_min()}), "");
    EXPECT_EQ(message({.min_p = 1.0F}), "");
}

TEST(sampling_params, refuses_what_is_out_of_range) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::string const temperature = ": a temperature is a finite number, 0 or larger";
    EXPECT_EQ(message({.temperature = -0.5F}), "temperature = -0.5" + temperature);
    EXPECT_EQ(message({.temperature = infinity}), "temperature = inf" + temperature);
    EXPECT_EQ(message({.temperature = nan}), "temperature = nan" + temperature);
    EXPECT_EQ(message({.top_k = -1}), "top_k = -1: top-k keeps 1 token or more; 0 turns it off");
    std::string const top_p = ": top-p lies in (0, 1]; 1 turns it off";
    EXPECT_EQ(message({.top_p = 0.0F}), "top_p = 0" + top_p);
    EXPECT_EQ(message({.top_p = 1.5F}), "top_p = 1.5" + top_p);
    EXPECT_EQ(message({.top_p = nan}), "top_p = nan" + top_p);
    std::string const min_p = ": min-p lies in [0, 1]; 0 turns it off";
    EXPECT_EQ(message({.min_p = -0.25F}), "min_p = -0.25" + min_p);
    EXPECT_EQ(message({.min_p = 1.25F}), "min_p = 1.25" + min_p);
    EXPECT_EQ(message({.min_p = nan}), "min_p = nan" + min_p);
}

TEST(sampling_params, names_the_field_that_it_refuses) {
    try {
        validate(sampling_params{.top_k = -3});
        FAIL();
    } catch (invalid_input const& error) {
        EXPECT_EQ(error.argument(), "top_k");
        EXPECT_EQ(error.index(), -1);
        EXPECT_EQ(error.value(), "-3");
    }
}

}  // namespace
}  // namespace sampling_params_test
