// What launches reject, and the shapes that they choose for incomplete workspaces and misaligned rows.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "multidraft/cuda/compact.cuh"
#include "multidraft/cuda/draft.cuh"
#include "multidraft/cuda/mask.cuh"
#include "multidraft/cuda/refusal.hpp"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/law/law.hpp"
#include "multidraft/random/draw_site.hpp"
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
    static constexpr bool lossless = false;
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
    static constexpr bool lossless = false;
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
template <class Law, bool ByText = false>
struct silent {
    using law = Law;
    static constexpr bool addressed_by_text = true;
    template <class G, class Q, class Sums, class Source>
    drawn_children operator()(G const&, Q const&, Sums const&, Source&, draw_site, span<token_id>) const {
        return {};
    }
};
template <class Law>
struct silent<Law, false> {
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

TEST_F(cuda_device, verification_refuses_what_a_host_can_see) {
    most_likely<> const verifier;
    auto const refused = [&](auto const& change) {
        call c(300);
        change(c);
        EXPECT_EQ(c.verify(verifier), cudaErrorInvalidValue);
    };
    refused([](call& c) { c.trees.requests = -1; });
    refused([](call& c) { c.trees.nodes = -1; });
    refused([](call& c) { c.trees.requests = 0; });
    refused([](call& c) { c.target.vocabulary = 0; });
    refused([](call& c) { c.target.vocabulary = c.draft.vocabulary = max_row_size + 1; });
    refused([](call& c) { c.draft.vocabulary = 299; });
    refused([](call& c) { c.out.path = nullptr; });
    refused([](call& c) { c.out.path_stride = -1; });
    EXPECT_TRUE(standin::launches().empty());
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "an error of the runtime";

    call c(300);
    c.expect_verdicts(verifier);
    c.trees.certain = nullptr;
    EXPECT_EQ(c.verify(most_likely<law::stratified>{}), cudaErrorInvalidValue);
    // Without a stride a path has as many entries as its tree has nodes.
    call ragged(300);
    ragged.out.path_stride = 0;
    ragged.expect_verdicts(verifier);
}

TEST_F(cuda_device, a_refusal_names_the_argument) {
    most_likely<> const verifier;
    auto const reason = [&](auto const& change) {
        call c(300);
        change(c);
        EXPECT_EQ(c.verify(verifier), cudaErrorInvalidValue);
        return mc::last_refusal();
    };
    EXPECT_NE(reason([](call& c) { c.trees.requests = -1; }).find("requests"), std::string::npos) << mc::last_refusal();
    EXPECT_NE(reason([](call& c) { c.draft.vocabulary = 299; }).find("299"), std::string::npos) << mc::last_refusal();
    EXPECT_NE(reason([](call& c) { c.out.path_stride = -1; }).find("path_stride"), std::string::npos)
        << mc::last_refusal();
    EXPECT_NE(reason([](call& c) { c.target.row_stride = 299; }).find("row_stride"), std::string::npos)
        << mc::last_refusal();
}

TEST_F(cuda_device, verification_refuses_too_little_workspace) {
    most_likely_in_scratch const verifier;
    call c(300);
    auto const size = verify_workspace_size<most_likely_in_scratch>(mc::on(nullptr), 4, 10, 10);
    std::size_t const scratch = 4 * 48;  // one word per node, rounded up to 16 bytes
    ASSERT_GT(size, scratch);
    on_device<std::byte> const memory(size);
    EXPECT_EQ(c.verify(verifier), cudaErrorInvalidValue);
    EXPECT_EQ(c.verify(verifier, {memory.data(), scratch - 1}), cudaErrorInvalidValue);
    EXPECT_EQ(c.verify(verifier, {memory.data() + 8, size - 8}), cudaErrorInvalidValue);
    c.expect_verdicts(verifier, {memory.data(), 256});
    c.expect_verdicts(verifier, {memory.data() + 16, size - 16});
    c.trees.largest = 0;
    EXPECT_EQ(c.verify(verifier, {memory.data(), size}), cudaErrorInvalidValue);
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
        EXPECT_EQ(mc::write_masks(nullptr, c.trees, nullptr, 0), cudaSuccess) << "no words, no launch";
        EXPECT_EQ(c.verify(verifier), cudaErrorNotSupported) << name;
    }
    standin::reset(standin::none());
    EXPECT_EQ(c.verify(verifier), cudaErrorNoDevice);
    standin::reset(standin::h200());
    c.expect_verdicts(verifier);
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
    EXPECT_EQ(draft(sampler, {-1, zeros.data(), zeros.data()}, out), cudaErrorInvalidValue);
    EXPECT_EQ(draft(sampler, level, out, 0), cudaErrorInvalidValue);
    EXPECT_EQ(draft(sampler, level, {}), cudaErrorInvalidValue);
    EXPECT_EQ(draft(sampler, level, {tokens.data(), nullptr, -1}), cudaErrorInvalidValue);
    EXPECT_EQ(draft(sampler, level, {tokens.data(), first, 0}), cudaErrorInvalidValue) << "no number of children";
    EXPECT_EQ(draft(silent<law::stratified>{}, level, out), cudaErrorInvalidValue) << "no array of certain tokens";
    EXPECT_EQ((draft(silent<law::iid, true>{}, level, out)), cudaErrorInvalidValue) << "no depths";
    EXPECT_EQ(standin::launches().size(), 1U);
}

TEST_F(cuda_device, masks_and_compaction_refuse_what_a_host_can_see) {
    tree_batch trees;
    trees.nodes = 3;
    EXPECT_EQ(mc::write_masks(nullptr, trees, nullptr, -1), cudaErrorInvalidValue);
    trees.nodes = -1;
    EXPECT_EQ(mc::write_positions(nullptr, trees, nullptr, nullptr), cudaErrorInvalidValue);
    mc::kept_batch kept;
    kept.requests = 2;
    mc::contiguous_cache good;
    good.entry_bytes = 16;
    good.entry_stride = 16;
    auto const refused = [&](auto const& change) {
        mc::contiguous_cache cache = good;
        change(cache);
        EXPECT_EQ(mc::compact(nullptr, cache, kept), cudaErrorInvalidValue);
    };
    refused([](auto& cache) { cache.entry_bytes = 0; });
    refused([](auto& cache) { cache.entry_stride = 15; });
    refused([](auto& cache) { cache.axes[2].count = 0; });
    refused([](auto& cache) { cache.axes[1] = {2, 0}; });
    mc::paged_cache pages;
    pages.entry_bytes = 16;
    pages.entry_stride = 16;
    EXPECT_EQ(mc::compact(nullptr, pages, kept), cudaErrorInvalidValue) << "pages without entries";
    EXPECT_TRUE(standin::launches().empty());
}

}  // namespace cuda_refusals_test
