// Steps of a batch on a stream: other verifiers and rows, masks, memory that is kept, refusals and errors.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/batch_steps.cuh"
#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace batch_step_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::on_device;

using sampler = draft::sequential;
using verifier = verify::recursive_rejection<law::sequential>;
using on_host = mt::steps_on_host<sampler, verifier>;
using on_stream = mt::steps_on_stream<sampler, verifier>;
using host_engine = mt::engine_of_steps<on_host, contiguous>;
using stream_engine = mt::engine_of_steps<on_stream, contiguous>;

/// A stream, so that what is recorded runs late.
class batch_step_on_a_stream : public mt::cuda_device {
protected:
    void SetUp() override {
        mt::cuda_device::SetUp();
        EXPECT_CUDA(cudaStreamCreate(&stream));
    }
    void TearDown() override { EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess); }

    cudaStream_t stream = nullptr;
};

TEST_F(batch_step_on_a_stream, verifiers_may_need_scratch_or_read_no_draft) {
    mt::expect_the_hosts_steps_on<sampler, verify::traversal<law::sequential>, contiguous>(stream, 61, 4);
    mt::expect_the_hosts_steps_on<sampler, verify::naive<law::sequential>, contiguous>(stream, 61, 4);
}

TEST_F(batch_step_on_a_stream, rows_may_have_a_few_candidates) {
    mt::expect_the_hosts_steps_by_candidates<sampler, verifier, on_stream>(61, 20, 4, stream);
}

/// Requests with an odd number get even tokens only, and those with an even number a bias.
template <class Steps>
struct adjustments {
    typename Steps::template array<std::uint32_t> words{std::vector<std::uint32_t>{0x55555555U, 0x55555555U}};
    typename Steps::template array<token_id> tokens{std::vector<token_id>{7, 9}};
    typename Steps::template array<float> values{std::vector<float>{3.0F, -2.0F}};
    std::vector<std::int64_t> mask_of, bias_of;
    logit_adjustments last;

    logit_adjustments const& operator()(step_inputs const& in) {
        mask_of.resize(static_cast<std::size_t>(in.first_row));
        bias_of.resize(static_cast<std::size_t>(in.first_row));
        for (std::int32_t const b : in.requests) {
            mask_of.push_back(b % 2 == 1 ? 0 : -1);
            bias_of.push_back(b % 2 == 1 ? -1 : 0);
        }
        last.allowed = {words.data(), 1, 2};
        last.allowed_of = mask_of.data();
        last.bias.tokens = {tokens.data(), 2};
        last.bias.values = {values.data(), 2};
        last.bias_of = bias_of.data();
        return last;
    }
};

TEST_F(batch_step_on_a_stream, masks_and_biases_are_the_devices_and_their_indices_the_hosts) {
    host_engine host(64);
    stream_engine device(64, stream);
    adjustments<on_host> target_here, draft_here;
    adjustments<on_stream> target_there, draft_there;
    auto requests = mt::requests_of_steps();
    auto same = requests;
    for (int k = 0; k < 3; ++k) {
        auto const expected = host.advance(requests, target_here, draft_here);
        ASSERT_EQ(device.advance(same, target_there, draft_there), expected);
    }
    for (std::size_t b = 1; b < requests.size(); b += 2)
        for (std::size_t k = mt::requests_of_steps()[b].text.size(); k < requests[b].text.size(); ++k)
            EXPECT_EQ(requests[b].text[k] % 2, 0);
}

TEST_F(batch_step_on_a_stream, nothing_is_allocated_after_the_largest_step) {
    stream_engine device(64, stream);
    auto requests = mt::requests_of_steps();
    static_cast<void>(device.advance(requests));
    char const* const calls[] = {"cudaMalloc", "cudaMallocHost", "cudaEventCreateWithFlags"};
    for (char const* const call : calls) standin::fail(call, cudaErrorMemoryAllocation);
    for (int k = 0; k < 3; ++k) static_cast<void>(device.advance(requests));
    requests.resize(2);
    static_cast<void>(device.advance(requests));
    // None of the calls was made: each still fails.
    void* data = nullptr;
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaMalloc(&data, 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMallocHost(&data, 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaErrorMemoryAllocation);
}

// One copy to the device, one back and one launch for a call; the stream is waited for by draws and verdicts alone.
TEST_F(batch_step_on_a_stream, inputs_are_not_overwritten_before_they_are_copied) {
    mc::batch_step<sampler, verifier> step;
    auto const policy = mc::on(stream);
    std::vector<token_id> const text{3, 1, 4, 1, 5};
    step.start();
    step.add_reading({.text = text, .in_target = 1, .in_draft = 3});
    device_inputs of_draft, of_target;
    on_device<std::int32_t> const read(8);
    auto const copied = [&](device_inputs const& in, std::int64_t first) {
        return cudaMemcpyAsync(read.data() + first, in.tokens, static_cast<std::size_t>(in.size) * sizeof(token_id),
                               cudaMemcpyDeviceToDevice, stream);
    };
    ASSERT_EQ(step.copy_inputs(policy, step.next_level(), of_draft), cudaSuccess);
    EXPECT_EQ(of_draft.size, 2);
    ASSERT_EQ(copied(of_draft, 0), cudaSuccess);
    ASSERT_EQ(step.draw(policy, rows_of_batch<float>{}), cudaSuccess) << "no children are drawn";
    EXPECT_TRUE(step.next_level().empty());
    ASSERT_EQ(step.copy_inputs(policy, step.target_inputs(), of_target, false), cudaSuccess);
    EXPECT_EQ(of_target.mask.words, nullptr);
    EXPECT_EQ(of_target.size, 4);
    ASSERT_EQ(copied(of_target, 2), cudaSuccess);
    ASSERT_EQ(step.verify(policy, rows_of_batch<float>{}, rows_of_batch<float>{}), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(read.host(), (std::vector<std::int32_t>{1, 5, 1, 4, 1, 5, 0, 0}));
    EXPECT_EQ(step.in_target(0), 5);
}

TEST_F(batch_step_on_a_stream, errors_of_the_runtime_are_returned_and_the_call_may_be_made_again) {
    auto requests = mt::requests_of_steps();
    auto const before = requests;
    host_engine host(64);
    auto const expected = host.advance(requests);
    for (char const* const call : {"cudaMallocHost", "cudaMalloc", "cudaMemcpyAsync", "cudaEventRecord",
                                   "cudaEventCreateWithFlags", "cudaLaunchKernelEx", "cudaStreamSynchronize"}) {
        stream_engine device(64, stream);
        auto& step = device.steps.step;
        auto const policy = device.steps.policy;
        device.start(before);
        bool first = true;
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            device.read_draft(in);
            if (first) {
                standin::fail(call, cudaErrorNotSupported);
                EXPECT_EQ(step.draw(policy, device.draft_rows()), cudaErrorNotSupported) << call;
            }
            first = false;
            ASSERT_EQ(step.draw(policy, device.draft_rows()), cudaSuccess) << call;
        }
        device.read_target(step.target_inputs());
        standin::fail("cudaStreamSynchronize", cudaErrorNotSupported);
        EXPECT_EQ(step.verify(policy, device.target_rows(), device.draft_rows()), cudaErrorNotSupported);
        ASSERT_EQ(step.verify(policy, device.target_rows(), device.draft_rows()), cudaSuccess);
        for (std::size_t b = 0; b < before.size(); ++b) {
            auto const tokens = step.tokens(static_cast<std::int32_t>(b));
            EXPECT_EQ(std::vector<token_id>(tokens.begin(), tokens.end()),
                      std::vector<token_id>(expected[b].begin(),
                                            expected[b].begin() + static_cast<std::ptrdiff_t>(tokens.size())));
            EXPECT_EQ(expected[b][tokens.size()], -9);
        }
    }
}

/// A host that throws, and a stream that returns the same words.
template <class OnHost, class OnStream>
void expect_same_refusal(OnHost const& host, OnStream const& stream) {
    std::string text;
    try {
        host();
    } catch (invalid_input const& e) {
        text = e.what();
    }
    EXPECT_NE(text, "");
    std::size_t const launches = standin::launches().size();
    EXPECT_EQ(stream(), cudaErrorInvalidValue) << text;
    EXPECT_EQ(standin::launches().size(), launches);
    EXPECT_EQ(std::string(mc::last_refusal()), text.substr(0, 256));
}

TEST_F(batch_step_on_a_stream, refuses_what_a_host_refuses_in_its_words) {
    host_engine host(64);
    stream_engine device(64, stream);
    auto& here = host.steps.step;
    auto& there = device.steps.step;
    host_threads const& pool = host.steps.policy;
    auto const policy = device.steps.policy;
    auto requests = mt::requests_of_steps();
    std::vector<std::int64_t> const bad_rows(mt::most_rows, -1);

    // Each change is made to the rows of both.
    auto const draws_refused = [&](auto const& change) {
        auto q = host.draft_rows();
        auto r = device.draft_rows();
        change(q);
        change(r);
        expect_same_refusal([&] { here.draw(pool, q); }, [&] { return there.draw(policy, r); });
    };
    auto const verdicts_refused = [&](auto const& change) {
        auto p = host.target_rows();
        auto r = device.target_rows();
        change(p);
        change(r);
        expect_same_refusal([&] { here.verify(pool, p, host.draft_rows()); },
                            [&] { return there.verify(policy, r, device.draft_rows()); });
    };
    auto const nothing = [](auto&) {};
    auto const begin = [&] {
        host.start(requests);
        device.start(requests);
        draws_refused(nothing);  // out of turn
        host.read_draft(here.next_level());
        device.read_draft(there.next_level());
    };
    auto const grow = [&] {
        here.draw(pool, host.draft_rows());
        ASSERT_EQ(there.draw(policy, device.draft_rows()), cudaSuccess);
        for (auto in = here.next_level(); !in.empty(); in = here.next_level()) {
            host.read_draft(in);
            here.draw(pool, host.draft_rows());
        }
        for (auto in = there.next_level(); !in.empty(); in = there.next_level()) {
            device.read_draft(in);
            ASSERT_EQ(there.draw(policy, device.draft_rows()), cudaSuccess);
        }
        verdicts_refused(nothing);  // out of turn
        host.read_target(here.target_inputs());
        device.read_target(there.target_inputs());
    };

    begin();
    grow();
    begin();
    draws_refused([](auto& q) { q.data = nullptr; });
    draws_refused([](auto& q) { q.vocabulary = 0; });
    draws_refused([](auto& q) { q.row_stride = 63; });
    draws_refused([&](auto& q) { q.row_of = bad_rows.data(); });
    std::uint32_t const word[] = {~0U, ~0U};
    std::vector<std::int64_t> const third(mt::most_rows, 2);
    logit_adjustments masks;
    masks.allowed = {word, 2, 2};
    masks.allowed_of = third.data();
    expect_same_refusal([&] { here.draw(pool, host.draft_rows(), masks); },
                        [&] { return there.draw(policy, device.draft_rows(), masks); });
    grow();
    verdicts_refused([](auto& p) { p.data = nullptr; });
    verdicts_refused([](auto& p) { p.vocabulary = 63; });
    verdicts_refused([&](auto& p) { p.row_of = bad_rows.data(); });
    kept_batch of_target, of_draft;
    expect_same_refusal([&] { static_cast<void>(here.kept_in_target()); },
                        [&] { return there.copy_kept(policy, of_target, of_draft); });
    // Nothing has changed: the step goes on.
    here.verify(pool, host.target_rows(), host.draft_rows());
    ASSERT_EQ(there.verify(policy, device.target_rows(), device.draft_rows()), cudaSuccess);
    for (std::int32_t b = 0; b < here.requests(); ++b) {
        auto const expected = here.tokens(b);
        auto const got = there.tokens(b);
        EXPECT_EQ(std::vector<token_id>(got.begin(), got.end()),
                  std::vector<token_id>(expected.begin(), expected.end()));
    }
}

}  // namespace
}  // namespace batch_step_test
