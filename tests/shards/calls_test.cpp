// The calls that a verification takes: they depend neither on the batch nor on the trees where the method allows it.
#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

using shape = std::vector<node_id>;

/// Calls of the communicator for a batch of so many requests.
template <class T, class Verifier, class Sampler>
shards::traffic traffic_of(Verifier const& verifier, Sampler const& sampler,
                           std::vector<std::vector<node_id>> const& shapes, sampling_params const& w) {
    ragged<T> b(shapes, 9001, {w});
    b.draw_alone(sampler);
    shards::traffic result;
    std::mutex one_at_a_time;
    run_ranks(3, [&](thread_rank& rank) {
        shards::rank_team team(rank, columns_by(cut::even, b.vocabulary, 3, rank.rank()), shards::team_checks::none);
        static_cast<void>(verify_on<shared_out::both>(team, verifier, b));
        std::scoped_lock const lock(one_at_a_time);
        if (rank.rank() == 1) result = team.sent();
    });
    return result;
}

shape const small{none, 0, 0};
shape const deep{none, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10};

/// The same number for a small tree, for a large one, and for many of all kinds.
template <class Verifier, class Sampler>
void expect_calls(Verifier const& verifier, Sampler const& sampler, std::uint64_t most, sampling_params const& w = {}) {
    std::vector<shape> many(9, deep);
    many.insert(many.end(), ragged_shapes.begin(), ragged_shapes.end());
    EXPECT_LE(traffic_of<float>(verifier, sampler, {small}, w).calls, most);
    EXPECT_LE(traffic_of<float>(verifier, sampler, {deep}, w).calls, most);
    EXPECT_LE(traffic_of<float>(verifier, sampler, many, w).calls, most);
}

TEST(shard_calls, do_not_depend_on_trees_or_requests) {
    using namespace verify;
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 4);
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 4, {.temperature = 0.0F});
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 6, {.top_k = 40});
    expect_calls(naive<law::sequential>{}, draft::sequential{}, 11, {.temperature = 0.8F, .top_p = 0.9F});
    expect_calls(ranked_block<law::iid>{}, draft::iid{}, 5);
    expect_calls(nested_ranked_block<law::iid>{}, draft::iid{}, 5);
}

/// A rejection is a call, and so is the last token: the requests of a batch wait together.
TEST(shard_calls, are_one_a_rejection) {
    verify::recursive_rejection<law::sequential> const verifier;
    std::vector<shape> const many(12, ragged_shapes[0]);
    // A path down this tree meets seven children at most; what the draft has left may be a call more for each.
    EXPECT_LE(traffic_of<float>(verifier, draft::sequential{}, many, {}).calls, 2U + 2U * 7U + 1U);
}

/// Far fewer bytes than the rows have.
TEST(shard_calls, move_few_bytes) {
    shards::traffic const t =
        traffic_of<float>(verify::naive<law::sequential>{}, draft::sequential{}, {deep, deep}, {});
    EXPECT_LT(t.received, std::uint64_t{2} * 16 * 6000 * sizeof(float));
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
