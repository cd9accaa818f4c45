// Samplers at temperature 0: the limit of the law where that is certain, else a chain; and their behaviour near it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"

namespace temperature_zero_test {
namespace {

using namespace multidraft;
using tokens = std::vector<token_id>;

struct drawn {
    tokens children;
    index_t certain;
};

template <class Sampler>
drawn draw(Sampler sampler, std::vector<float> const& logits, std::size_t n, sampling_params const& w,
           std::int32_t position = 0) {
    host_group const g;
    addressed_source source{addressed_uniforms(3)};
    auto q = process_logits(g, row_view<float>(logits.data(), static_cast<index_t>(logits.size())), w);
    drawn result{tokens(n, -7), 0};
    drawn_children const found =
        sampler(g, q.row, q.sums, source, draw_site{position, 0}, span<token_id>(result.children));
    result.children.resize(static_cast<std::size_t>(found.count));
    result.certain = found.certain;
    return result;
}

constexpr float minus_infinity_of_float = -std::numeric_limits<float>::infinity();
std::vector<float> const logits{0.5F, 3.0F, -1.0F, 2.0F, minus_infinity_of_float, 2.0F, -500.0F};
tokens const in_order{1, 3, 5, 0, 2, 6};  // ties to the lower token

tokens first_of(std::size_t n) { return {in_order.begin(), in_order.begin() + static_cast<std::ptrdiff_t>(n)}; }

// The n most likely tokens are the same at every temperature.
TEST(temperature_zero, keeps_the_most_likely_tokens) {
    for (float const temperature : {1.0F, 0.02F, 1e-3F, 1e-30F, 0.0F})
        for (std::size_t n = 1; n <= 6; ++n)
            EXPECT_EQ(draw(draft::top_n{}, logits, n, {.temperature = temperature}).children, first_of(n))
                << temperature << " " << n;
    // A logit of minus infinity is no token.
    EXPECT_EQ(draw(draft::top_n{}, logits, 7, {.temperature = 0.0F}).children, in_order);
    EXPECT_EQ(draw(draft::top_n{}, logits, 7, {}).children, in_order);
}

TEST(temperature_zero, makes_stratified_children_certain) {
    for (float const temperature : {1e-3F, 1e-30F, 0.0F})
        for (std::size_t n = 1; n <= 6; ++n) {
            SCOPED_TRACE(temperature);
            auto const found = draw(draft::stratified{}, logits, n, {.temperature = temperature});
            auto const greedy = draw(draft::top_then_one{}, logits, n, {.temperature = temperature});
            if (n == 2 && temperature > 0) continue;  // one of two tokens that are equally likely is drawn
            EXPECT_EQ(found.children, first_of(n));
            EXPECT_EQ(found.certain, n == 1 ? 0 : static_cast<index_t>(n));
            EXPECT_EQ(greedy.children, first_of(n));
            EXPECT_EQ(greedy.certain, n == 1 ? 0 : static_cast<index_t>(n));
        }
    EXPECT_EQ(draw(draft::stratified{}, logits, 9, {.temperature = 0.0F}).children, in_order);
}

// Within what truncation keeps as the temperature falls: k tokens with top-k, one with top-p or min-p.
TEST(temperature_zero, keeps_within_the_truncation) {
    for (std::size_t const k : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
        sampling_params const w{.temperature = 0.0F, .top_k = static_cast<index_t>(k)};
        EXPECT_EQ(draw(draft::top_n{}, logits, 5, w).children, first_of(k));
        EXPECT_EQ(draw(draft::stratified{}, logits, 5, w).children, first_of(k));
        sampling_params const near{.temperature = 1e-3F, .top_k = static_cast<index_t>(k)};
        EXPECT_EQ(draw(draft::top_n{}, logits, 5, near).children, first_of(k));
        EXPECT_EQ(draw(draft::stratified{}, logits, 5, near).children, first_of(k));
    }
    for (float const temperature : {1e-3F, 0.0F}) {
        EXPECT_EQ(draw(draft::top_n{}, logits, 5, {.temperature = temperature, .top_p = 0.9F}).children, first_of(1));
        EXPECT_EQ(draw(draft::stratified{}, logits, 5, {.temperature = temperature, .top_p = 0.9F}).children,
                  first_of(1));
        EXPECT_EQ(draw(draft::top_n{}, logits, 5, {.temperature = temperature, .min_p = 0.1F}).children, first_of(1));
        EXPECT_EQ(draw(draft::stratified{}, logits, 5, {.temperature = temperature, .min_p = 0.1F}).children,
                  first_of(1));
    }
}

// Draws are from the row with all mass on one token: it is drawn for every child, or once.
TEST(temperature_zero, leaves_other_laws_a_chain) {
    sampling_params const zero{.temperature = 0.0F};
    EXPECT_EQ(draw(draft::iid{}, logits, 3, zero).children, (tokens{1, 1, 1}));
    EXPECT_EQ(draw(draft::shared_randomness{}, logits, 3, zero).children, (tokens{1, 1, 1}));
    EXPECT_EQ(draw(draft::sequential{}, logits, 3, zero).children, tokens{1});
    EXPECT_EQ(draw(draft::gumbel_top_k{}, logits, 3, zero).children, tokens{1});
    EXPECT_EQ(draw(draft::conditional_poisson{}, logits, 3, zero).children, tokens{1});
    EXPECT_EQ(draw(draft::top_paired{}, logits, 2, zero).children, tokens{1});
}

// Near 0 draws without replacement are the most likely tokens too, as long as their weights are numbers.
TEST(temperature_zero, is_near_small_temperatures) {
    std::vector<float> const apart{0.0F, 3.0F, 1.0F, 2.0F};
    for (std::int32_t position = 0; position < 50; ++position) {
        sampling_params const small{.temperature = 0.05F};
        EXPECT_EQ(draw(draft::iid{}, apart, 2, small, position).children, (tokens{1, 1}));
        EXPECT_EQ(draw(draft::sequential{}, apart, 3, small, position).children, (tokens{1, 3, 2}));
        EXPECT_EQ(draw(draft::stratified{}, apart, 3, small, position).children, (tokens{1, 3, 2}));
        EXPECT_EQ(draw(draft::conditional_poisson{}, apart, 3, small, position).children, (tokens{1, 2, 3}));
        EXPECT_EQ(draw(draft::top_paired{}, apart, 2, small, position).children, (tokens{1, 3}));
    }
}

}  // namespace
}  // namespace temperature_zero_test
