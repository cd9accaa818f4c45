// The benchmark's reading of candidates as separate rows: the same texts as with tree attention, at the cost of all
// paths.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/paper/separate_paths.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace separate_paths_test {
namespace {

using testing::random_conditional;
using testing::table_model;

/// Counts the tokens that it reads.
class counting_model : public table_model<float> {
public:
    using table_model<float>::table_model;
    void forward(token_batch const& batch, std::span<float> logits) {
        table_model<float>::forward(batch, logits);
        read += batch.tokens.size();
    }
    std::size_t read = 0;
};

TEST(SeparatePaths, GivesTheTextsOfTreeAttention) {
    constexpr std::int32_t vocabulary = 50;
    auto const p = random_conditional(vocabulary, 1, 2, 0, 2.0);
    auto const q = random_conditional(vocabulary, 1, 1, 0, 2.0);
    std::vector<token_id> const prompt{3, 1, 4};
    generation_options options;
    options.max_tokens = 60;
    using rejection = verify::recursive_rejection<law::sequential>;
    for (auto const* tree : {"1", "4x2x1", "2x2x2", "fork:3x4", "eagle", "1x1x1"}) {
        counting_model target(vocabulary, p);
        counting_model other(vocabulary, p);
        table_model<float> draft(vocabulary, q);
        bench::separate_paths separate(other);
        auto const together =
            make_speculative<draft::sequential, rejection>(target, draft, parse_shape(tree))(prompt, options);
        auto const apart =
            make_speculative<draft::sequential, rejection>(separate, draft, parse_shape(tree))(prompt, options);
        EXPECT_EQ(apart.tokens, together.tokens) << tree;
        EXPECT_EQ(apart.metrics.target_calls, together.metrics.target_calls) << tree;
        if (parse_shape(tree).child_count(0) > 1)
            EXPECT_GT(other.read, target.read) << tree;
        else
            EXPECT_EQ(other.read, target.read) << tree;
    }
}

}  // namespace
}  // namespace separate_paths_test
}  // namespace multidraft
