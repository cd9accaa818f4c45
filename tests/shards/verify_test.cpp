// Batches verified on ranks: every type of entries, drafts that are on every rank, truncated rows.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace verify_test {
namespace {

template <class T, class Verifier, class Sampler>
void expect_all(Verifier const& verifier, Sampler const& sampler, index_t v) {
    ragged<T> b(ragged_shapes, v, samplings_of_all_kinds);
    b.draw_alone(sampler);
    for (int const ranks : {2, 5})
        for (cut const how : {cut::even, cut::uneven, cut::ends_are_empty})
            expect_verdicts_of_host<sharded::target>(verifier, b, ranks, how, "draft on every rank");
}

TEST(shard_verify, decides_as_one_host_does) {
    using namespace verify;
    expect_all<float>(recursive_rejection<law::sequential>{}, draft::sequential{}, 300);
    expect_all<float16>(recursive_rejection<law::sequential>{}, draft::sequential{}, 9001);
    expect_all<double>(traversal<law::iid>{}, draft::iid{}, 5000);
    expect_all<bfloat16>(nested_ranked_block<law::stratified>{}, draft::stratified{}, 9001);
    expect_all<bfloat16>(naive<law::deterministic>{}, draft::top_n{}, 9001);
}

/// Truncation by counts that ranks exchange: of floats and of 16-bit numbers, with ties at the threshold, with large
/// and small parameters.
template <class T>
void expect_cuts_of_host() {
    ragged<T> b(ragged_shapes, 9001,
                {{.top_k = 300},
                 {.top_k = 1000, .top_p = 0.9F},
                 {.temperature = 0.7F, .top_p = 0.95F},
                 {.top_p = 0.9999F},
                 {.top_k = 129, .min_p = 0.001F},
                 {.top_k = 8999}});
    b.draw_alone(draft::sequential{});
    for (cut const how : {cut::even, cut::uneven})
        expect_verdicts_of_host<sharded::both>(verify::naive<law::sequential>{}, b, 3, how, "truncated rows");
}

TEST(shard_verify, truncates_rows_as_one_host_does) {
    expect_cuts_of_host<float>();
    expect_cuts_of_host<bfloat16>();
    expect_cuts_of_host<float16>();
}

/// Several nodes of a level have certain tokens and draws: a verification that waits for other ranks is run again.
TEST(shard_verify, sets_up_a_level_anew) {
    std::vector<std::vector<node_id>> const shapes(4, {none, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9});
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        ragged<float> b(shapes, 9001, samplings_of_all_kinds, seed);
        b.draw_alone(draft::stratified{});
        expect_verdicts_of_host<sharded::both>(verify::nested_ranked_block<law::stratified>{}, b, 3, cut::even,
                                               "seed " + std::to_string(seed));
    }
}

}  // namespace
}  // namespace verify_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
