// What launches reject, and the shapes that they choose for incomplete workspaces and misaligned rows.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/verify/verdict.hpp"
#include "support/batches.hpp"

namespace cuda_refusals_test {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::on_device;

/// Returns the root's most likely token.
template <class Law = law::iid>
struct most_likely {
    using law = Law;
    static constexpr multidraft::verify::verifier_traits traits{.lossless = false};
    template <group G, class Tree, class Target, class Draft, class Source>
    verdict operator()(G const& g, Tree const&, target_rows<Target> const& target, draft_rows<Draft> const&, Source&,
                       std::int32_t, span<node_id>) const {
        auto const p = target.rows(g, 0);
        return {0, g.argmax(p.size(), weight_of{p})};
    }
};

/// The same, through one word of scratch per node.
struct most_likely_in_scratch {
    using law = multidraft::law::iid;
    static constexpr multidraft::verify::verifier_traits traits{.lossless = false};
    static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t) {
        return static_cast<std::size_t>(nodes) * sizeof(index_t);
    }
    template <group G, class Tree, class Target, class Draft, class Source>
    verdict operator()(G const& g, Tree const& tree, target_rows<Target> const& target, draft_rows<Draft> const&,
                       Source&, std::int32_t, span<node_id>, span<std::byte> scratch) const {
        auto const p = target.rows(g, 0);
        index_t const best = g.argmax(p.size(), weight_of{p});
        auto* const words = reinterpret_cast<index_t*>(scratch.data());
        node_id const nodes = tree.tree.size();
        if (g.leader())
            for (node_id v = 0; v < nodes; ++v) words[v] = best + v;
        g.barrier();
        index_t const read = words[nodes - 1];
        g.barrier();
        return {0, read - nodes + 1};
    }
};

/// Draws nothing.
template <class Law>
struct silent {
    using law = Law;
    template <class G, class Q, class Sums, class Source>
    drawn_children operator()(G const&, Q const&, Sums const&, Source&, draw_site, span<token_id>) const {
        return {};
    }
};

/// A batch on the device with its outputs, to verify after one change.
struct call {
    explicit call(index_t vocabulary, std::size_t offset = 0)
        : host(vocabulary, {}),
          device(host),
          shifted(with_offset(host.target, offset)),
          path(64),
          accepted(4),
          next(4) {
        trees = device.trees();
        target = {shifted.data() + offset, vocabulary, vocabulary};
        draft = target;
        out = {path.data(), 16, accepted.data(), next.data()};
    }
    static std::vector<float> with_offset(std::vector<float> rows, std::size_t offset) {
        rows.insert(rows.begin(), offset, 0.0F);
        return rows;
    }
    template <class Verifier>
    cudaError_t verify(Verifier const& verifier, workspace const& scratch = {}) const {
        return verify_batch(mc::on(nullptr, options), verifier, drawn_by<typename Verifier::law>(trees),
                            target_rows(target), draft_rows(draft), device.requests(), out, scratch);
    }
    /// Verifies, and compares with the host.
    template <class Verifier>
    void expect_verdicts(Verifier const& verifier, workspace const& scratch = {}) const {
        EXPECT_EQ(verify(verifier, scratch), cudaSuccess);
        EXPECT_EQ(next.host(), host.verify_on_host(verifier).next);
        EXPECT_EQ(standin::fault(), "");
    }

    mt::batch<float> host;
    mt::device_batch<float> device;
    on_device<float> shifted;
    on_device<node_id> path;
    on_device<std::int32_t> accepted;
    on_device<token_id> next;
    tree_batch trees;
    logit_batch<float> target, draft;
    verdict_batch out;
    mc::launch_options options;
};

/// Expects that a call was refused for an argument, index and value, in the words of the host's error.
void expect_refusal(cudaError_t e, std::string const& text) {
    EXPECT_EQ(e, cudaErrorInvalidValue) << text;
    EXPECT_EQ(std::string(mc::last_refusal().substr(0, text.size())), text) << mc::last_refusal();
}

TEST_F(cuda_device, verification_refuses_what_a_host_can_see) {
    most_likely<> const verifier;
    auto const refused = [&](char const* text, auto const& change) {
        call c(300);
        change(c);
        expect_refusal(c.verify(verifier), text);
    };
    refused("trees.requests = -1: a batch", [](call& c) { c.trees.requests = -1; });
    refused("trees.nodes = -1: each of the 4 trees", [](call& c) { c.trees.nodes = -1; });
    refused("trees.nodes = 23: a batch of no requests", [](call& c) { c.trees.requests = 0; });
    refused("trees.offsets = null: ", [](call& c) { c.trees.offsets = nullptr; });
    refused("target.vocabulary = 0: a row has", [](call& c) { c.target.vocabulary = 0; });
    refused("target.vocabulary = 2147479552: a row has",
            [](call& c) { c.target.vocabulary = c.draft.vocabulary = max_row_size + 1; });
    refused("target.row_stride = 299: ", [](call& c) { c.target.row_stride = 299; });
    refused("draft.vocabulary = 299: draft and target", [](call& c) { c.draft.vocabulary = 299; });
    refused("out.path = null: ", [](call& c) { c.out.path = nullptr; });
    refused("out.path_stride = -1: a path has", [](call& c) { c.out.path_stride = -1; });
    EXPECT_TRUE(standin::launches().empty());
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "an error of the runtime";

    call c(300);
    c.expect_verdicts(verifier);
    c.trees.certain = nullptr;
    expect_refusal(c.verify(most_likely<law::stratified>{}), "trees.certain = null: ");
    // Without a stride a path has as many entries as its tree has nodes.
    call ragged(300);
    ragged.out.path_stride = 0;
    ragged.expect_verdicts(verifier);
}

// Launches allocate nothing: the reason is kept in memory of its own, and a longer one is cut.
TEST(cuda_refusal, keeps_the_reason_of_each_thread) {
    using multidraft::cuda::stream_policy;
    EXPECT_EQ(stream_policy::refused({"rows", 3, "7", std::string(1000, 'x')}), cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().size(), 256U);
    EXPECT_EQ(mc::last_refusal().substr(0, 14), "rows[3] = 7: x");
    std::thread([] { EXPECT_TRUE(mc::last_refusal().empty()); }).join();
}

TEST_F(cuda_device, verification_refuses_too_little_workspace) {
    most_likely_in_scratch const verifier;
    call c(300);
    auto const size = verify_workspace_size<most_likely_in_scratch>(mc::on(nullptr), 4, 10, 10);
    std::size_t const scratch = 4 * 48;  // one word per node, rounded up to 16 bytes
    ASSERT_GT(size, scratch);
    on_device<std::byte> const memory(size);
    expect_refusal(c.verify(verifier), "workspace.size = 0: 256 bytes");
    expect_refusal(c.verify(verifier, {memory.data(), scratch - 1}), "workspace.size = 191: 256 bytes");
    expect_refusal(c.verify(verifier, {memory.data() + 8, size - 8}), "workspace.data = ");
    c.expect_verdicts(verifier, {memory.data(), 256});
    c.expect_verdicts(verifier, {memory.data() + 16, size - 16});
    c.trees.largest = 0;
    expect_refusal(c.verify(verifier, {memory.data(), size}), "trees.largest = 0: ");
    // A tree larger than `largest`: `none`, and nothing is written outside of the workspace.
    c.trees.largest = 8;
    EXPECT_EQ(c.verify(verifier, {memory.data(), size}), cudaSuccess);
    auto expected = c.host.verify_on_host(verifier).next;
    expected[0] = none;
    EXPECT_EQ(c.next.host(), expected);
}

// Grid-wide only with the whole workspace and aligned rows.
TEST_F(cuda_device, a_workspace_and_rows_decide_on_the_grid) {
    most_likely<> const verifier;
    constexpr index_t vocabulary = 7 * 4096 + 4;
    auto const size = verify_workspace_size<most_likely<>>(mc::on(nullptr), 4, 10, 10);
    EXPECT_EQ(size, draft_workspace_size(mc::on(nullptr), 4));
    on_device<std::byte> const memory(size + 16);
    auto const is_grid = [&](call& c, workspace const& scratch) {
        c.options.max_cluster = 1;
        c.expect_verdicts(verifier, scratch);
        return standin::launches().back().cooperative;
    };
    call c(vocabulary);
    EXPECT_TRUE(is_grid(c, {memory.data(), size}));
    EXPECT_TRUE(is_grid(c, {memory.data() + 16, size}));
    EXPECT_FALSE(is_grid(c, {memory.data(), size - 1}));
    EXPECT_FALSE(is_grid(c, {memory.data() + 4, size}));
    EXPECT_FALSE(is_grid(c, {}));
    // The contents of the workspace do not matter.
    for (int const byte : {0x00, 0x7f, 0xff}) {
        ASSERT_EQ(cudaMemset(memory.data(), byte, memory.size()), cudaSuccess);
        EXPECT_TRUE(is_grid(c, {memory.data(), size}));
    }
    standin::fail("cudaMemsetAsync", cudaErrorInvalidResourceHandle);
    EXPECT_EQ(c.verify(verifier, {memory.data(), size}), cudaErrorInvalidResourceHandle);
    // Misaligned rows, and rows with an odd stride.
    call anywhere(vocabulary, 1);
    EXPECT_FALSE(is_grid(anywhere, {memory.data(), size}));
    call odd(vocabulary + 1);
    EXPECT_FALSE(is_grid(odd, {memory.data(), size}));
    call mixed(vocabulary);
    mixed.target = {mixed.device.target.data(), vocabulary, vocabulary};
    mixed.draft.data += 1;
    EXPECT_FALSE(is_grid(mixed, {memory.data(), size}));
}

TEST_F(cuda_device, launches_hand_on_the_errors_of_the_runtime) {
    call c(300);
    most_likely<> const verifier;
    for (char const* const name : {"cudaGetDevice", "cudaFuncGetAttributes", "cudaLaunchKernelEx"}) {
        standin::fail(name, cudaErrorNotSupported);
        EXPECT_EQ(c.verify(verifier), cudaErrorNotSupported) << name;
        standin::fail(name, cudaErrorNotSupported);
        EXPECT_EQ(write_masks(mc::on(nullptr), tree_batch{}, static_cast<std::uint64_t*>(nullptr), 0), cudaSuccess)
            << "no words, no launch";
        EXPECT_EQ(c.verify(verifier), cudaErrorNotSupported) << name;
    }
    standin::reset(standin::none());
    EXPECT_EQ(c.verify(verifier), cudaErrorNoDevice);
    standin::reset(standin::h200());
    c.expect_verdicts(verifier);
}

// An error of the runtime does not get the reason of an earlier call.
TEST_F(cuda_device, a_launch_has_no_earlier_reason) {
    call c(300);
    most_likely<> const verifier;
    auto const refuse_before = [] {
        static_cast<void>(mc::stream_policy::refused({"rows", 3, "7", "of an earlier call"}));
    };
    for (char const* const name : {"cudaGetDevice", "cudaFuncGetAttributes", "cudaLaunchKernelEx"}) {
        refuse_before();
        standin::fail(name, cudaErrorInvalidValue);
        EXPECT_EQ(c.verify(verifier), cudaErrorInvalidValue) << name;
        EXPECT_EQ(mc::last_refusal(), "") << name;
    }
    refuse_before();
    EXPECT_EQ(c.verify(verifier), cudaSuccess);
    EXPECT_EQ(mc::last_refusal(), "");
    refuse_before();
    on_device<std::int32_t> const one(1);
    auto const nothing = [p = one.data()](std::int64_t) { static_cast<void>(p); };
    using body = std::remove_const_t<decltype(nothing)>;
    expect_refusal(mc::detail::launch_blocks(mc::detail::for_each_kernel<body>, std::int64_t{1} << 31, 256, nullptr,
                                             std::int64_t{1}, nothing),
                   "count = 2147483648: a launch has fewer than 2^31 blocks");
}

TEST_F(cuda_device, drafting_refuses_what_a_host_can_see) {
    call const c(300);
    on_device<std::int32_t> const zeros(4);
    on_device<token_id> const tokens(8);
    auto const draft = [&](auto const& sampler, level_batch const& level, children_batch const& out,
                           index_t vocabulary = 300) {
        return draft_batch(mc::on(nullptr), sampler, level,
                           draft_rows(logit_batch<float, aligned<16>>{c.target.data, 300, vocabulary}),
                           c.device.requests(), out);
    };
    silent<law::iid> const sampler;
    level_batch const level{2, zeros.data(), zeros.data(), nullptr, nullptr};
    children_batch const out{tokens.data(), nullptr, 4};
    std::int64_t const first[] = {0, 4};
    EXPECT_EQ(draft(sampler, level, out), cudaSuccess);
    EXPECT_EQ(tokens.host(), std::vector<token_id>(8, support_ended));
    expect_refusal(draft(sampler, {-1, zeros.data(), zeros.data()}, out), "level.entries = -1: ");
    expect_refusal(draft(sampler, {2, nullptr, zeros.data()}, out), "level.requests = null: ");
    expect_refusal(draft(sampler, level, out, 0), "draft.vocabulary = 0: ");
    expect_refusal(draft(sampler, level, {}), "out.tokens = null: ");
    expect_refusal(draft(sampler, level, {tokens.data(), nullptr, -1}), "out.stride = -1: ");
    expect_refusal(draft(sampler, level, {tokens.data(), first, 0}), "level.wanted = null: ");
    expect_refusal(draft(silent<law::stratified>{}, level, out), "out.certain = null: ");
    expect_refusal(draft(silent<law::shared_randomness>{}, level, out), "level.depths = null: ");
    EXPECT_EQ(standin::launches().size(), 1U);
}

TEST_F(cuda_device, masks_and_compaction_refuse_what_a_host_can_see) {
    call const c(300);
    auto const policy = mc::on(nullptr);
    on_device<std::uint64_t> const words(64);
    on_device<std::uint8_t> const bytes(640);
    std::uint64_t* const no_words = nullptr;
    std::int32_t* const no_positions = nullptr;
    expect_refusal(write_masks(policy, c.trees, no_words, 1), "words = null: ");
    expect_refusal(write_masks(policy, c.trees, words.data(), -1), "row_words = -1: ");
    expect_refusal(write_positions(policy, c.trees, no_positions, no_positions), "contexts = null: ");
    dense_masks<std::uint8_t> const dense{bytes.data(), 9, 8};
    expect_refusal(write_bytes(policy, c.trees, words.data(), 1, dense), "out.row_stride = 8: rows would overlap");
    expect_refusal(write_bytes(policy, c.trees, words.data(), 1, dense_masks<std::uint8_t>{}), "out.data = null: ");
    tree_batch trees;
    trees.nodes = 3;
    expect_refusal(write_masks(policy, trees, words.data(), 1), "trees.nodes = 3: ");
    on_device<node_id> const nodes(8);
    on_device<std::int32_t> const counts(2);
    on_device<std::int64_t> const bases(2);
    kept_batch kept{2, nodes.data(), 4, counts.data(), bases.data()};
    contiguous_cache good;
    good.data = bytes.data();
    good.entry_bytes = 16;
    good.entry_stride = 16;
    auto const refused = [&](char const* text, auto const& change) {
        contiguous_cache cache = good;
        change(cache);
        expect_refusal(compact_caches(policy, cache, kept), text);
    };
    refused("cache.data = null: ", [](auto& cache) { cache.data = nullptr; });
    refused("cache.entry_bytes = 0: ", [](auto& cache) { cache.entry_bytes = 0; });
    refused("cache.entry_stride = 15: ", [](auto& cache) { cache.entry_stride = 15; });
    refused("cache.axes[2] = 0: ", [](auto& cache) { cache.axes[2].count = 0; });
    refused("cache.axes[1] = 0: ", [](auto& cache) { cache.axes[1] = {2, 0}; });
    paged_cache pages;
    pages.data = bytes.data();
    pages.entry_bytes = 16;
    pages.entry_stride = 16;
    expect_refusal(compact_caches(policy, pages, kept), "cache.pages.entries = 0: ");
    kept.nodes = nullptr;
    expect_refusal(compact_caches(policy, good, kept), "kept.nodes = null: ");
    EXPECT_TRUE(standin::launches().empty());
}

}  // namespace cuda_refusals_test
