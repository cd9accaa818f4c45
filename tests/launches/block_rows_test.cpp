// Rows of a block drafter in launches, with a term of the node's own token or of a few candidates: they give the
// verdicts of rows that were written out.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "launches/verdicts.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/methods/list.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/batches.hpp"
#include "support/candidate_rows.hpp"

namespace block_rows_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using mt::cuda_device;
using mt::on_device;

template <class Method>
void expect_rows_written_out(index_t vocabulary, mc::launch_options const& options) {
    using verifier = typename Method::verifier;
    constexpr index_t rank = 3;
    mt::batch<float> host(vocabulary, {.temperature = 0.9F, .top_p = 0.98F}, mt::trees_for(Method::trees));
    host.draft_on_host(typename Method::sampler{});
    mt::device_batch<float> const device(host);
    mt::test_numbers numbers(7);
    std::vector<float> of_token(static_cast<std::size_t>(vocabulary * rank)), of_entry(of_token.size());
    for (auto* const weights : {&of_token, &of_entry})
        for (float& x : *weights) x = static_cast<float>(numbers() - 0.5);
    on_device<float> const w1(of_token), w2(of_entry);
    low_rank_term<float> const term{of_token.data(), of_entry.data(), rank};
    for (std::size_t i = 0; i < host.tokens.size(); ++i) {
        if (host.tokens[i] < 0) continue;
        float* const data = host.draft.data() + static_cast<std::ptrdiff_t>(i) * vocabulary;
        auto const row = term(row_view<float>(data, vocabulary), host.tokens[i]);
        for (index_t x = 0; x < vocabulary; ++x) data[x] = row(x);
    }
    auto const expected = host.verify_on_host(verifier{});

    standin::set_order(standin::order::random, 5);
    on_device<node_id> const path(std::vector<node_id>(expected.path.size(), -7));
    on_device<std::int32_t> const accepted(expected.accepted.size());
    on_device<token_id> const next(expected.next.size());
    auto const policy = mc::on(nullptr, options);
    on_device<std::byte> const memory(verify_workspace_size<verifier>(policy, host.size(), 10, 6));
    auto const rows = [&](on_device<float> const& of) {
        return logit_batch<float>{of.data(), vocabulary, vocabulary, nullptr, nullptr, host.w};
    };
    low_rank_batch const q(rows(device.draft), low_rank_term<float>{w1.data(), w2.data(), rank}, device.tokens.data());
    ASSERT_EQ(verify_batch(policy, verifier{}, drawn_by<typename Method::law>(device.trees()),
                           target_rows(rows(device.target)), draft_rows(q), device.requests(),
                           verdict_batch{path.data(), host.path_stride, accepted.data(), next.data()},
                           {memory.data(), memory.size()}),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    EXPECT_EQ(accepted.host(), expected.accepted);
    EXPECT_EQ(next.host(), expected.next);
}

template <class Method>
void expect_candidates_written_out(index_t vocabulary, index_t candidates) {
    using verifier = typename Method::verifier;
    mt::batch<float> host(vocabulary, {.temperature = 0.9F, .top_p = 0.98F}, mt::trees_for(Method::trees));
    auto const listed = mt::keep_candidates(host.draft, vocabulary, candidates);
    host.draft_on_host(typename Method::sampler{});
    mt::device_batch<float> const device(host);
    auto const expected = host.verify_on_host(verifier{});

    standin::set_order(standin::order::random, 5);
    on_device<float> const logits(listed.logits);
    on_device<token_id> const tokens(listed.tokens);
    on_device<node_id> const path(std::vector<node_id>(expected.path.size(), -7));
    on_device<std::int32_t> const accepted(expected.accepted.size());
    on_device<token_id> const next(expected.next.size());
    auto const policy = mc::on(nullptr, {});
    on_device<std::byte> const memory(verify_workspace_size<verifier>(policy, host.size(), 10, 6));
    candidate_batch const q(logit_batch<float>{logits.data(), 0, vocabulary, nullptr, nullptr, host.w}, tokens.data(),
                            candidates);
    ASSERT_EQ(
        verify_batch(
            policy, verifier{}, drawn_by<typename Method::law>(device.trees()),
            target_rows(logit_batch<float>{device.target.data(), vocabulary, vocabulary, nullptr, nullptr, host.w}),
            draft_rows(q), device.requests(),
            verdict_batch{path.data(), host.path_stride, accepted.data(), next.data()}, {memory.data(), memory.size()}),
        cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    EXPECT_EQ(accepted.host(), expected.accepted);
    EXPECT_EQ(next.host(), expected.next);
}

TEST_F(cuda_device, rows_of_candidates_are_those_written_out) {
    expect_candidates_written_out<methods::recursive_rejection_sequential>(4999, 40);
    expect_candidates_written_out<methods::nested_ranked_block_stratified>(4999, 40);
}

TEST_F(cuda_device, rows_with_a_term_of_the_parent_are_those_written_out) {
    expect_rows_written_out<methods::recursive_rejection_sequential>(300, {});
    expect_rows_written_out<methods::recursive_rejection_sequential>(4999, {});
    expect_rows_written_out<methods::nested_ranked_block_stratified>(4999, {});
}

}  // namespace
}  // namespace block_rows_test
