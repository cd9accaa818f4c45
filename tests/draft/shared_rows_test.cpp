// Nodes that share a row and its sums, as those of one depth do with a block drafter: each draws by its own law. Long
// rows, since the sum of a row of one chunk is not read by draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shapes.hpp"

namespace shared_rows_test {
namespace {

using namespace multidraft;

constexpr index_t three_chunks = 12288;

/// One token has nearly half of the mass, as models have it.
std::vector<float> heavy_row() {
    multidraft::testing::test_numbers numbers(3);
    std::vector<float> row(three_chunks);
    for (float& x : row) x = static_cast<float>(2 * numbers());
    row[5000] = 10.4F;
    return row;
}

template <class Sampler>
class samplers_of_shared_rows : public ::testing::Test {};

using samplers =
    ::testing::Types<draft::sequential, draft::iid, draft::stratified, draft::top_then_one, draft::top_paired,
                     draft::conditional_poisson, draft::gumbel_top_k, draft::top_n, draft::shared_randomness>;
TYPED_TEST_SUITE(samplers_of_shared_rows, samplers, );

TYPED_TEST(samplers_of_shared_rows, leave_the_sums_as_they_were) {
    auto const logits = heavy_row();
    host_group const g;
    auto q = process_logits(g, row_view<float>(logits.data(), three_chunks), sampling_params{});
    auto const before = q.sums;
    addressed_source source{addressed_uniforms(7)};
    std::vector<token_id> out(2);
    for (node_id v = 0; v < 50; ++v)
        static_cast<void>(TypeParam{}(g, q.row, q.sums, source, draw_site{0, v}, span<token_id>(out)));
    for (index_t c = 0; c < chunks_of(three_chunks); ++c) EXPECT_EQ(q.sums.values[c], before.values[c]);
    EXPECT_EQ(q.sums.total, before.total);
}

TYPED_TEST(samplers_of_shared_rows, draw_as_from_rows_of_their_own) {
    auto const logits = heavy_row();
    host_group const g;
    auto const make = [&] {
        return process_logits(g, row_view<float>(logits.data(), three_chunks), sampling_params{});
    };
    auto shared = make();
    draft::tree_growth<typename TypeParam::law> with_one;
    draft::tree_growth<typename TypeParam::law> with_own;
    topology const shape = branching({2, 2, 2});
    std::size_t nodes = 0;
    for (std::int32_t step = 0; step < 40; ++step) {
        addressed_source source{addressed_uniforms(11)};
        with_one.start(0, step, shape);
        with_own.start(0, step, shape);
        for (auto in = with_one.next_level(); !in.empty(); in = with_one.next_level())
            for (node_id const v : in.nodes) with_one.draw(v, TypeParam{}, shared.row, shared.sums, source);
        for (auto in = with_own.next_level(); !in.empty(); in = with_own.next_level())
            for (node_id const v : in.nodes) {
                auto q = make();
                with_own.draw(v, TypeParam{}, q.row, q.sums, source);
            }
        ASSERT_TRUE(std::ranges::equal(with_one.tokens(), with_own.tokens())) << "step " << step;
        ASSERT_TRUE(std::ranges::equal(with_one.parents(), with_own.parents())) << "step " << step;
        nodes += with_one.tokens().size();
    }
    EXPECT_GT(nodes, 40U * 3U);
}

}  // namespace
}  // namespace shared_rows_test
