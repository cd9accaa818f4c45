// Every verifier, where rows that it must not read are NaN: those of nodes that were not drawn, and of nodes that the
// target does not reach. On the host group that does not throw, and on emulated lanes.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/batches.hpp"
#include "support/emulated_group.hpp"

namespace spoilt_rows_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

constexpr index_t vocabulary = 70;

using shapes = std::vector<std::vector<node_id>>;
shapes const chains{{none, 0, 1, 2, 3}, {none, 0}, {none}};
shapes const pairs{{none, 0, 0, 1, 1, 2, 3, 3, 5}, {none, 0, 0}};
shapes const forks{{none, 0, 0, 0, 1, 2, 3, 4, 5, 6}, {none, 0, 0, 0, 0}};
shapes const wide{{none, 0, 0, 0, 0, 1, 1, 1, 2, 2, 5, 5, 5}, {none, 0, 0, 0, 1, 2, 3, 4, 4}};

/// Temperature 0, two tokens with mass, and four.
std::vector<sampling_params> const samplings{{.temperature = 0}, {.top_k = 2}, {.temperature = 0.5F, .top_k = 4}};

struct counts {
    int absent = 0;
    int unreachable = 0;
    int accepted = 0;
};

/// Expects the verdicts of good rows, on the host and on emulated lanes.
template <class Sampler, class Verifier>
counts expect_unread(Sampler const& sampler, Verifier const& verifier, shapes const& trees) {
    counts found;
    for (sampling_params const& w : samplings)
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
            mt::batch<float> batch(vocabulary, w, trees);
            batch.share_rows_of_depths();
            for (auto& s : batch.seeds) s += seed * 100;
            batch.draft_on_host(sampler);
            // Nodes below a child that could not be drawn have children all the same.
            auto spoilt = batch;
            auto const nodes = spoilt.spoil();
            found.absent += nodes.absent;
            found.unreachable += nodes.unreachable;
            auto const expected = batch.verify_on_host(verifier);
            auto const silent = spoilt.verify_on_host(verifier);
            EXPECT_EQ(silent.accepted, expected.accepted);
            EXPECT_EQ(silent.next, expected.next);
            EXPECT_EQ(silent.path, expected.path);
            mt::verdicts lanes(batch.size(), batch.path_stride);
            for (std::int32_t b = 0; b < batch.size(); ++b) {
                auto scratch = batch.poisoned_scratch(verifier);
                mt::on_group<32, 1>(1, [&](auto const& g) {
                    multidraft::detail::verify_request(g, verifier, b, drawn_by<typename Verifier::law>(spoilt.trees()),
                                                       spoilt.target_logits(), spoilt.draft_logits(), spoilt.requests(),
                                                       lanes.view(), span<std::byte>(scratch));
                });
                EXPECT_NE(lanes.next[static_cast<std::size_t>(b)], none);
                found.accepted += lanes.accepted[static_cast<std::size_t>(b)];
            }
            EXPECT_EQ(lanes.accepted, expected.accepted);
            EXPECT_EQ(lanes.next, expected.next);
            EXPECT_EQ(lanes.path, expected.path);
        }
    return found;
}

class spoilt_rows : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    }
};

TEST_F(spoilt_rows, are_not_read_node_by_node) {
    auto const expect = [](auto const& sampler, auto const& verifier, shapes const& trees, bool with_absent) {
        auto const found = expect_unread(sampler, verifier, trees);
        EXPECT_EQ(found.absent > 0, with_absent);
        EXPECT_GT(found.unreachable, 0);
        EXPECT_GT(found.accepted, 0);
    };
    expect(draft::top_n{}, verify::naive<law::deterministic>{}, wide, true);
    expect(draft::sequential{}, verify::naive<law::sequential>{}, wide, true);
    expect(draft::iid{}, verify::speculative_sampling<law::iid>{}, chains, false);
    expect(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, wide, true);
    expect(draft::iid{}, verify::merged<verify::recursive_rejection<law::iid>>{}, wide, false);
    expect(draft::iid{}, verify::k_seq<law::iid>{}, wide, false);
    expect(draft::top_then_one{}, verify::greedy_optimal<law::top_then_one>{}, wide, true);
    expect(draft::top_paired{}, verify::spec_hub<law::top_paired>{}, pairs, true);
    expect(draft::stratified{}, verify::ranked<law::stratified>{}, wide, true);
    expect(draft::iid{}, lossy::rollback<law::iid>{}, chains, false);
    expect(draft::iid{}, lossy::joint_likelihood<law::iid>{}, chains, false);
    expect(draft::sequential{}, lossy::typical_acceptance<law::sequential>{}, wide, true);
}

TEST_F(spoilt_rows, are_not_read_by_verifiers_of_whole_trees) {
    auto const expect = [](auto const& sampler, auto const& verifier, shapes const& trees, bool with_absent) {
        auto const found = expect_unread(sampler, verifier, trees);
        EXPECT_EQ(found.absent > 0, with_absent);
        EXPECT_GT(found.unreachable, 0);
        EXPECT_GT(found.accepted, 0);
    };
    expect(draft::sequential{}, verify::block<law::sequential>{}, chains, false);
    expect(draft::iid{}, verify::traversal<law::iid>{}, wide, false);
    expect(draft::sequential{}, verify::traversal<law::sequential>{}, wide, true);
    expect(draft::iid{}, verify::multi_path_block{}, forks, false);
    expect(draft::stratified{}, verify::ranked_block<law::stratified>{}, wide, true);
    expect(draft::iid{}, verify::nested_ranked_block<law::iid>{}, wide, false);
    expect(draft::stratified{}, verify::nested_ranked_block<law::stratified>{}, wide, true);
}

}  // namespace
}  // namespace spoilt_rows_test
