// Rows prepared and predictions made in launches of every shape, and verdicts over prepared rows: the host's.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batch/prepared.hpp"
#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "launches/verdicts.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/methods/list.hpp"
#include "support/batches.hpp"

namespace prepare_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::on_device;

void expect_same(mt::prepared_memory const& expected, std::vector<row_state> const& states,
                 std::vector<float> const& sums, std::vector<std::uint64_t> const& runs) {
    for (std::size_t i = 0; i < states.size(); ++i) EXPECT_TRUE(mt::same_state(states[i], expected.states[i])) << i;
    EXPECT_EQ(sums, expected.sums);
    EXPECT_EQ(runs, expected.runs);
}

/// Prepares both models' rows of a batch that the host drew, verifies it, and follows predictions.
template <class Method, class Layout>
void expect_verdicts_of_prepared(mt::shape_of_launch const& as, sampling_params const& w, bool ties_at_0 = false) {
    using verifier = typename Method::verifier;
    SCOPED_TRACE(std::string(Method::name) + ", " + as.name);
    // Few rows where blocks of a grid are to share one.
    mt::batch<float> host(
        as.vocabulary, w,
        as.cooperative ? std::vector<std::vector<node_id>>{{none, 0, 0, 1}, {none, 0}} : mt::trees_for(Method::trees));
    if (ties_at_0)
        for (std::size_t i = 0; i < host.target.size(); ++i) {
            host.target[i] = i % 997 == 0 ? 1.0F : 0.0F;
            host.draft[i] = i % 991 == 0 ? 1.0F : 0.0F;
        }
    host.draft_on_host(typename Method::sampler{});
    auto const expected = host.verify_on_host(verifier{});
    auto const nodes = static_cast<std::int64_t>(host.parents.size());
    mt::prepared_memory host_p(nodes, as.vocabulary), host_q = host_p;
    std::vector<std::int64_t> host_predicted(host.parents.size(), 99);
    host_threads const pool(1);
    prepare_batch(pool, host.trees(), host.target_logits(), host_p.out_with_runs());
    prepare_batch(pool, host.trees(), host.draft_logits(), host_q.out_with_runs());
    predict_batch(pool, host.trees(), host.target_logits(), host_predicted.data());

    standin::set_order(as.lanes, static_cast<std::uint64_t>(as.vocabulary));
    mt::device_batch<float> const device(host);
    on_device<row_state> const p_states(host_p.states.size()), q_states(host_p.states.size());
    on_device<float> const p_sums(host_p.sums.size()), q_sums(host_p.sums.size());
    on_device<std::uint64_t> const p_runs(host_p.runs.size()), q_runs(host_p.runs.size());
    on_device<std::int64_t> const predicted(host_predicted.size());
    auto const policy = mc::on(nullptr, as.options);
    on_device<std::byte> const memory(verify_workspace_size<verifier>(policy, host.size(), 10, 6) +
                                      row_workspace_size(policy, nodes));
    workspace const scratch(memory.data(), memory.size());
    auto const rows = [&](on_device<float> const& of) {
        return logit_batch<float, Layout>{of.data(), host.vocabulary, host.vocabulary, nullptr, nullptr, host.w};
    };
    ASSERT_EQ(prepare_batch(policy, device.trees(), target_rows(rows(device.target)),
                            {p_states.data(), p_sums.data(), p_runs.data()}, scratch),
              cudaSuccess);
    standin::launched const l = standin::launches().back();
    EXPECT_EQ(l.blocks, as.ranks * static_cast<unsigned>(nodes));
    EXPECT_EQ(l.cooperative, as.cooperative);
    ASSERT_EQ(prepare_batch(policy, device.trees(), draft_rows(rows(device.draft)),
                            {q_states.data(), q_sums.data(), q_runs.data()}, scratch),
              cudaSuccess);
    ASSERT_EQ(predict_batch(policy, device.trees(), target_rows(rows(device.target)), predicted.data(), scratch),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    expect_same(host_p, p_states.host(), p_sums.host(), p_runs.host());
    expect_same(host_q, q_states.host(), q_sums.host(), q_runs.host());
    EXPECT_EQ(predicted.host(), host_predicted);

    on_device<node_id> const path(std::vector<node_id>(expected.path.size(), -7));
    on_device<std::int32_t> const accepted(expected.accepted.size());
    on_device<token_id> const next(expected.next.size());
    verdict_batch const out{path.data(), host.path_stride, accepted.data(), next.data()};
    auto const prepared = [&](on_device<float> const& of, on_device<row_state> const& states,
                              on_device<float> const& sums) {
        return prepared_batch<float, Layout>{of.data(),     host.vocabulary, host.vocabulary,
                                             states.data(), nullptr,         sums.data()};
    };
    auto const drafts = drawn_by<typename Method::law>(device.trees());
    ASSERT_EQ(verify_batch(policy, verifier{}, drafts, target_rows(prepared(device.target, p_states, p_sums)),
                           draft_rows(prepared(device.draft, q_states, q_sums)), device.requests(), out, scratch),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    EXPECT_EQ(accepted.host(), expected.accepted);
    EXPECT_EQ(next.host(), expected.next);
    mt::verdicts got(host.size(), host.path_stride);
    got.path = path.host();
    for (std::int32_t b = 0; b < host.size(); ++b)
        for (std::int32_t k = 0; k < expected.accepted[static_cast<std::size_t>(b)]; ++k)
            EXPECT_EQ(got.node(b, k), expected.node(b, k)) << b << ' ' << k;

    if (w.greedy()) {
        ASSERT_EQ(verify_predictions(policy, device.trees(), prediction_batch<std::int64_t>{predicted.data()}, out),
                  cudaSuccess);
        EXPECT_EQ(accepted.host(), expected.accepted);
        EXPECT_EQ(next.host(), expected.next);
    }
    EXPECT_EQ(standin::fault(), "");
}

TEST_F(cuda_device, prepared_rows_decide_in_every_shape_as_on_the_host) {
    for (mt::shape_of_launch const& as : mt::shapes_of_aligned_rows) {
        expect_verdicts_of_prepared<methods::recursive_rejection_sequential, aligned<16>>(
            as, {.temperature = 0.9F, .top_p = 0.98F});
        expect_verdicts_of_prepared<methods::recursive_rejection_sequential, aligned<16>>(
            as, {.top_k = 1000, .top_p = 0.9F}, true);
        expect_verdicts_of_prepared<methods::recursive_rejection_sequential, aligned<16>>(as, {});
        expect_verdicts_of_prepared<methods::recursive_rejection_sequential, aligned<16>>(as, {.temperature = 0.0F});
    }
    for (mt::shape_of_launch const& as : mt::shapes_of_strided_rows) {
        expect_verdicts_of_prepared<methods::traversal_sequential, strided>(as, {.temperature = 0.8F, .top_k = 50});
        expect_verdicts_of_prepared<methods::nested_ranked_block_stratified, strided>(as, {});
    }
}

TEST_F(cuda_device, calls_over_rows_reject_what_they_cannot_take) {
    mt::batch<float> const host(300, {});
    mt::device_batch<float> const device(host);
    auto const policy = mc::on(nullptr);
    auto const rows = device.logits(device.target);
    on_device<float> const sums(host.parents.size());
    on_device<std::int64_t> const predicted(host.parents.size());
    row_state_batch const out{device.states.data(), sums.data()};
    std::int64_t* const nothing = nullptr;
    auto const prepare = [&](tree_batch const& trees, logit_batch<float> const& p, row_state_batch const& to) {
        return prepare_batch(policy, trees, target_rows(p), to);
    };
    EXPECT_EQ(prepare(device.trees(), rows, {nullptr, sums.data()}), cudaErrorInvalidValue);
    EXPECT_EQ(prepare(device.trees(), rows, {out.states, nullptr}), cudaErrorInvalidValue);
    EXPECT_EQ(predict_batch(policy, device.trees(), target_rows(rows), nothing), cudaErrorInvalidValue);
    tree_batch trees = device.trees();
    trees.parents = nullptr;
    EXPECT_EQ(prepare(trees, rows, out), cudaErrorInvalidValue);
    trees = device.trees();
    trees.requests = 0;
    EXPECT_EQ(prepare(trees, rows, out), cudaErrorInvalidValue);
    logit_batch<float> bad = rows;
    bad.vocabulary = 0;
    EXPECT_EQ(prepare(device.trees(), bad, out), cudaErrorInvalidValue);
    bad = rows;
    bad.data = nullptr;
    EXPECT_EQ(prepare(device.trees(), bad, out), cudaErrorInvalidValue);
    std::size_t const before = standin::launches().size();
    EXPECT_EQ(prepare({}, rows, {}), cudaSuccess);
    EXPECT_EQ(standin::launches().size(), before);
    EXPECT_EQ(prepare_batch(policy, device.trees(), draft_rows(rows), {out.states}), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << standin::fault();
    // The target's rows without sums.
    on_device<node_id> const path(host.parents.size());
    on_device<std::int32_t> const accepted(static_cast<std::size_t>(host.size()));
    on_device<token_id> const next(static_cast<std::size_t>(host.size()));
    prepared_batch<float> const p{device.target.data(), 300, 300, out.states};
    EXPECT_EQ(verify_batch(policy, verify::naive<law::iid>{}, drawn_by<law::iid>(device.trees()), target_rows(p),
                           draft_rows(verify::no_draft_rows{}), device.requests(),
                           verdict_batch{path.data(), 0, accepted.data(), next.data()}),
              cudaErrorInvalidValue);
}

}  // namespace
}  // namespace prepare_test
