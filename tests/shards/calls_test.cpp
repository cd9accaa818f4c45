// The number of collective calls of a verification: that of the request that needs the most, whatever the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace calls_test {
namespace {

using shape = std::vector<node_id>;

/// The calls and bytes of a verification on the rank that receives the most bytes.
template <class T, class Verifier, class Sampler>
shards::traffic traffic_of(Verifier const& verifier, Sampler const& sampler,
                           std::vector<std::vector<node_id>> const& shapes, sampling_params const& w, int ranks = 3,
                           index_t vocabulary = 9001) {
    ragged<T> b(shapes, vocabulary, {w});
    b.draw_alone(sampler);
    shards::traffic result;
    std::mutex one_at_a_time;
    run_ranks(ranks, [&](thread_rank& rank) {
        shards::rank_team team(rank, columns_by(cut::even, b.vocabulary, ranks, rank.rank()),
                               shards::team_checks::none);
        static_cast<void>(verify_on<sharded::both>(team, verifier, b));
        std::scoped_lock const lock(one_at_a_time);
        EXPECT_TRUE(result.calls == 0 || result.calls == team.sent().calls);
        if (result.received <= team.sent().received) result = team.sent();
    });
    return result;
}

shape const small{none, 0, 0};
shape const deep{none, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10};
/// Six levels below the root, with two children of one node on each.
shape const tall{none, 0, 0, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11};

/// At most `most` calls for a small tree, for a deep one, and for many trees of all shapes.
template <class T = float, class Verifier, class Sampler>
void expect_calls(Verifier const& verifier, Sampler const& sampler, std::uint64_t most, sampling_params const& w = {}) {
    std::vector<shape> many(9, deep);
    many.push_back(tall);
    many.insert(many.end(), ragged_shapes.begin(), ragged_shapes.end());
    std::uint64_t found = 0;
    for (auto const& shapes : {std::vector<shape>{small}, std::vector<shape>{tall}, many})
        found = std::max(found, traffic_of<T>(verifier, sampler, shapes, w).calls);
    std::printf("    %d calls\n", static_cast<int>(found));
    EXPECT_LE(found, most);
}

/// Chunks, normalisers, and what one path takes: the trees have six levels below the root at most.
TEST(shard_calls, are_a_few_per_level_of_a_path) {
    using namespace verify;
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 4 + 7);
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 4 + 7, {.temperature = 0.0F});
    expect_calls(ranked_block<law::iid>{}, draft::iid{}, 3 + 2 * 6);
    expect_calls(nested_ranked_block<law::iid>{}, draft::iid{}, 4 + 4 * 6);
    expect_calls(ranked_block<law::stratified>{}, draft::stratified{}, 3 + 2 * 6);
    expect_calls(nested_ranked_block<law::stratified>{}, draft::stratified{}, 4 + 4 * 6);
}

TEST(shard_calls, of_truncated_rows_are_a_few_more) {
    verify::naive<law::sequential> const naive;
    draft::sequential const sampler;
    expect_calls(naive, sampler, 7, {.top_k = 40});
    expect_calls(naive, sampler, 7, {.top_k = 40, .top_p = 0.9F});
    // The largest entries, bins, the keys of one bin in digits of 6 bits, ties, sums.
    expect_calls(naive, sampler, 16, {.temperature = 0.8F, .top_p = 0.9F});
    expect_calls<bfloat16>(naive, sampler, 16, {.temperature = 0.8F, .top_p = 0.9F});
    // Six digits of the keys, ties, sums.
    expect_calls(naive, sampler, 14, {.top_k = 1000});
    expect_calls<bfloat16>(naive, sampler, 16, {.top_k = 1000});
}

/// Far fewer bytes than gathering whole rows, even if a few ranks have large parts of a small vocabulary.
TEST(shard_calls, move_few_bytes_of_truncated_rows) {
    verify::naive<law::sequential> const naive;
    index_t const v = 50257;
    sampling_params const cuts[] = {{.top_k = 40}, {.top_k = 1000}, {.top_p = 0.9F}, {.top_k = 1000, .top_p = 0.95F}};
    for (int const ranks : {2, 8}) {
        double const gathered = 4.0 * 2 * (v - v / ranks);  // four rows of 16 bits
        for (sampling_params const& w : cuts) {
            auto const t = traffic_of<bfloat16>(naive, draft::sequential{}, {{none, 0, 0, 1}}, w, ranks, v);
            double const part = static_cast<double>(t.received) / gathered;
            std::printf("    top-k %d, top-p %g on %d ranks: %d calls, %.3f of the bytes of whole rows\n",
                        static_cast<int>(w.top_k), static_cast<double>(w.top_p), ranks, static_cast<int>(t.calls),
                        part);
            EXPECT_LT(part, 1.0 / 3);
        }
    }
}

/// One call per rejection and one for the last token: the requests of a batch share calls.
TEST(shard_calls, are_one_per_rejection) {
    verify::recursive_rejection<law::sequential> const verifier;
    std::vector<shape> const many(12, ragged_shapes[0]);
    // A path in this tree has at most seven children beside it; the draft's remaining mass may take one more call each.
    EXPECT_LE(traffic_of<float>(verifier, draft::sequential{}, many, {}).calls, 2U + 2U * 7U + 1U);
}

/// Far fewer bytes than gathering whole rows.
TEST(shard_calls, move_few_bytes) {
    shards::traffic const t =
        traffic_of<float>(verify::naive<law::sequential>{}, draft::sequential{}, {deep, deep}, {});
    EXPECT_LT(t.received, std::uint64_t{2} * 16 * 6000 * sizeof(float));
}

}  // namespace
}  // namespace calls_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
