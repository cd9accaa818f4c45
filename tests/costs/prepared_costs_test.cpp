// Passes over rows when these were prepared: none on the way down a tree, one for each residual.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "batch/prepared.hpp"
#include "batch/ragged.hpp"
#include "costs/allocations.hpp"
#include "costs/counting_group.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"

namespace prepared_costs_test {
namespace {

using namespace multidraft;
namespace md = multidraft::detail;
namespace mt = multidraft::testing;

constexpr index_t vocabulary = 5000;

/// As in a batched call: a request that cannot be verified gets no token.
struct batched_counting_group : mt::counting_group {
    using mt::counting_group::counting_group;
    static constexpr bool throws = false;
};

/// The passes of each request, and the verdicts.
template <class Verifier, class Target, class Draft>
std::vector<std::int64_t> passes_of(mt::ragged<float> const& b, Target const& target, Draft const& draft,
                                    std::vector<mt::outcome>& outcomes) {
    std::vector<std::int64_t> result;
    mt::verdict_memory out(b.trees(), 0);
    for (std::int32_t r = 0; r < b.size(); ++r) {
        std::int64_t passes = 0;
        md::verify_request(batched_counting_group(passes), Verifier{}, r, drawn_by<typename Verifier::law>(b.trees()),
                           target_rows(target), draft_rows(draft), b.requests(), out.view());
        result.push_back(passes);
    }
    outcomes = out.outcomes(b.trees());
    return result;
}

sampling_params const samplings[] = {{}, {.temperature = 0.8F, .top_k = 50, .top_p = 0.9F}, {.temperature = 0.0F}};

// On a chain the walk ends at the first rejection.
TEST(prepared_costs, a_rejection_is_the_only_pass) {
    std::vector<std::vector<node_id>> const chains(40, {none, 0, 1, 2});
    for (sampling_params const& w : samplings) {
        mt::ragged<float> b(chains, vocabulary, {w});
        b.draw_alone(draft::iid{});
        mt::prepared_memory p(b.trees().nodes, vocabulary), q = p;
        host_threads const pool(1);
        prepare_batch(pool, b.trees(), target_rows(b.target_logits()), p.out());
        prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), q.out());
        using verifier = verify::speculative_sampling<law::iid>;
        std::vector<mt::outcome> expected, got;
        auto const before = passes_of<verifier>(b, b.target_logits(), b.draft_logits(), expected);
        auto const after = passes_of<verifier>(b, p.rows(b.target), q.rows(b.draft), got);
        EXPECT_EQ(got, expected);
        std::int64_t rejections = 0, all_before = 0, all_after = 0;
        for (std::size_t r = 0; r < chains.size(); ++r) {
            bool const rejected = got[r].path.size() < 3;
            EXPECT_EQ(after[r], rejected ? 1 : 0);
            rejections += rejected ? 1 : 0;
            all_before += before[r];
            all_after += after[r];
        }
        std::printf("    %lld passes over logits, %lld over prepared rows\n", static_cast<long long>(all_before),
                    static_cast<long long>(all_after));
        EXPECT_GT(rejections, 0);
        EXPECT_LT(all_after, all_before);
    }
}

// Without replacement a rejection may also sum what is left of the draft's row.
TEST(prepared_costs, a_tree_is_read_where_candidates_are_rejected) {
    for (sampling_params const& w : samplings) {
        mt::ragged<float> b(std::vector<std::vector<node_id>>(20, mt::ragged_shapes[0]), vocabulary, {w});
        b.draw_alone(draft::sequential{});
        mt::prepared_memory p(b.trees().nodes, vocabulary), q = p;
        host_threads const pool(1);
        prepare_batch(pool, b.trees(), target_rows(b.target_logits()), p.out());
        prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), q.out());
        using verifier = verify::recursive_rejection<law::sequential>;
        std::vector<mt::outcome> expected, got;
        auto const before = passes_of<verifier>(b, b.target_logits(), b.draft_logits(), expected);
        auto const after = passes_of<verifier>(b, p.rows(b.target), q.rows(b.draft), got);
        EXPECT_EQ(got, expected);
        std::int64_t all_before = 0, all_after = 0;
        for (std::size_t r = 0; r < before.size(); ++r) {
            all_before += before[r];
            all_after += after[r];
            EXPECT_LT(after[r], before[r]);
        }
        std::printf("    %.1f passes a tree over logits, %.1f over prepared rows\n",
                    static_cast<double>(all_before) / 20, static_cast<double>(all_after) / 20);
    }
}

TEST(prepared_costs, preparing_takes_the_passes_of_one_row) {
    mt::ragged<float> b({{none}}, vocabulary, {{}});
    std::int64_t predicted = 0;
    auto const passes = [&](sampling_params const& w) {
        b.sampling[0] = w;
        mt::prepared_memory p(1, vocabulary);
        std::int64_t count = 0;
        md::prepare_row<logit_batch<float>>{b.trees(), batch_argument::target, b.target_logits(), p.out()}(
            mt::counting_group(count), 0);
        return count;
    };
    EXPECT_EQ(passes({}), 1);
    EXPECT_EQ(passes({.temperature = 0.0F}), 1);
    EXPECT_EQ(passes({.top_k = 50, .top_p = 0.9F}), 1);
    EXPECT_EQ(passes({.temperature = 0.05F, .top_p = 0.9F}), 2);
    EXPECT_EQ(passes({.min_p = 0.01F}), 2);
    std::int64_t count = 0;
    md::predict_row<logit_batch<float>, std::int64_t>{b.trees(), b.target_logits(), &predicted}(
        mt::counting_group(count), 0);
    EXPECT_EQ(count, 1);
}

TEST(prepared_costs, calls_allocate_nothing) {
    mt::ragged<float> b(mt::ragged_shapes, 300, mt::samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    mt::prepared_memory p(b.trees().nodes, 300);
    std::vector<std::int64_t> predicted(b.tokens.size());
    host_threads const pool(3);
    mt::allocations = 0;
    prepare_batch(pool, b.trees(), target_rows(b.target_logits()), p.out());
    predict_batch(pool, b.trees(), target_rows(b.target_logits()), predicted.data());
    EXPECT_EQ(mt::allocations, 0);
}

}  // namespace
}  // namespace prepared_costs_test
