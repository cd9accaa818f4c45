// Token ids of 64 bits.
#include "multidraft/tree/token_ids.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace MULTIDRAFT_NAMESPACE {
namespace {

TEST(token_ids, are_narrowed_and_widened) {
    std::vector<std::int64_t> const ids{0, 128255, -1, 7};
    std::vector<token_id> tokens(4);
    narrow_tokens(ids, 128256, tokens);
    EXPECT_EQ(tokens, (std::vector<token_id>{0, 128255, none, 7}));
    std::vector<std::int64_t> back(4);
    widen_tokens(tokens, back);
    EXPECT_EQ(back, ids);
}

TEST(token_ids, keep_why_there_is_no_child) {
    std::vector<std::int64_t> const ids{none, support_ended, padding};
    std::vector<token_id> tokens(3);
    narrow_tokens(ids, 10, tokens);
    EXPECT_EQ(tokens, (std::vector<token_id>{none, support_ended, padding}));
}

TEST(token_ids, out_of_range_are_no_token) {
    EXPECT_EQ(narrow_token(std::int64_t{7}), 7);
    EXPECT_EQ(narrow_token(std::int64_t{padding}), padding);
    EXPECT_EQ(narrow_token((std::int64_t{1} << 32) + 5), none) << "not token 5";
    EXPECT_EQ(narrow_token(std::int64_t{-4}), none);
    EXPECT_EQ(narrow_token(std::numeric_limits<std::int64_t>::min()), none);
}

TEST(token_ids, outside_the_vocabulary_are_refused_and_nothing_is_written) {
    std::vector<token_id> tokens(3, 5);
    for (std::int64_t const bad : {std::int64_t{100}, std::int64_t{-4}, std::int64_t{1} << 32}) {
        std::vector<std::int64_t> const ids{1, 2, bad};
        try {
            narrow_tokens(ids, 100, tokens);
            ADD_FAILURE() << bad;
        } catch (invalid_input const& e) {
            EXPECT_EQ(e.argument(), "ids");
            EXPECT_EQ(e.index(), 2);
        }
    }
    EXPECT_EQ(tokens, (std::vector<token_id>{5, 5, 5}));
    std::vector<token_id> few(2);
    std::vector<std::int64_t> const ids{1, 2, 3};
    EXPECT_THROW(narrow_tokens(ids, 100, few), invalid_input);
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE
