// Masks, positions, compaction, level order, offsets and best nodes of a batch on a device.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/on_device.cuh"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/build_trees.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/tree/mask.hpp"
#include "support/batches.hpp"
#include "support/host_trees.hpp"

namespace trees_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::on_device;

TEST_F(cuda_device, masks_are_those_of_the_host) {
    auto const trees = mt::random_trees({1, 64, 65, 300}, 3);
    auto const nodes = trees.offsets.back();
    auto const all = static_cast<std::size_t>(nodes);
    on_device<std::int64_t> const offsets(trees.offsets);
    on_device<node_id> const parents(trees.parents);
    on_device<std::int64_t> const contexts(std::vector<std::int64_t>{3, 0, 17, 2});
    on_device<std::uint64_t> const words(all * 5);
    tree_batch const batch{4, nodes, offsets.data(), parents.data(), nullptr};
    EXPECT_CUDA(write_masks(mc::on(nullptr), batch, words.data(), 5));
    on_device<std::uint8_t> const dense(all * 320);
    EXPECT_CUDA(write_bytes(mc::on(nullptr), batch, words.data(), 5,
                            dense_masks<std::uint8_t>{dense.data(), 310, 320, contexts.data()}));
    on_device<multidraft::float16> const bias(all * 311);  // rows that do not begin at multiples of 16 bytes
    EXPECT_CUDA(write_bias(mc::on(nullptr), batch, words.data(), 5,
                           dense_masks<multidraft::float16>{bias.data(), 310, 311, contexts.data()}));
    EXPECT_CUDA(cudaDeviceSynchronize());
    auto const packed = words.host();
    auto const bytes = dense.host();
    auto const halves = bias.host();
    std::int64_t const context[] = {3, 0, 17, 2};
    for (std::size_t b = 0; b < 4; ++b) {
        std::int64_t const begin = trees.offsets[b];
        ancestor_mask const mask(
            span<node_id const>(trees.parents.data() + begin, static_cast<std::size_t>(trees.offsets[b + 1] - begin)));
        for (node_id i = 0; i < mask.size(); ++i) {
            for (node_id j = 0; j < mask.size(); ++j) {
                auto const word = packed[static_cast<std::size_t>((begin + i) * 5 + j / 64)];
                ASSERT_EQ(((word >> (j % 64)) & 1U) != 0, mask.view()(i, j));
            }
            for (std::int64_t c = 0; c < 310; ++c) {
                std::int64_t const j = c - context[b];
                bool const expected = j < 0 || (j < mask.size() && mask.view()(i, static_cast<node_id>(j)));
                ASSERT_EQ(bytes[static_cast<std::size_t>((begin + i) * 320 + c)] != 0, expected);
                float const x = to_real(halves[static_cast<std::size_t>((begin + i) * 311 + c)]);
                ASSERT_EQ(x, expected ? 0.0F : -std::numeric_limits<float>::infinity());
            }
        }
    }
}

TEST_F(cuda_device, compaction_moves_the_kept_entries) {
    for (std::int64_t const entry : {48, 24, 6, 5}) {  // pieces of 16, 8, 2 and 1 bytes
        std::vector<std::uint8_t> cache(static_cast<std::size_t>(2 * 16 * entry));
        std::iota(cache.begin(), cache.end(), std::uint8_t{0});
        on_device<std::uint8_t> const data(cache);
        on_device<node_id> const nodes(std::vector<node_id>{2, 3, 7, 1, 0, 0});
        on_device<std::int32_t> const counts(std::vector<std::int32_t>{3, 1});
        on_device<std::int64_t> const bases(std::vector<std::int64_t>{4, 0});
        auto const size = static_cast<std::size_t>(entry);
        node_id const from[] = {0, 1, 2, 3, 4, 6, 7, 11};
        auto const check = [&](auto const& address) {
            auto const got = data.host();
            for (std::size_t t = 0; t < 8; ++t)
                for (std::size_t k = 0; k < size; ++k)
                    ASSERT_EQ(got[address(t) + k], cache[address(static_cast<std::size_t>(from[t])) + k]) << t;
        };
        kept_batch const kept{2, nodes.data(), 3, counts.data(), bases.data(), 1};
        contiguous_cache layout;
        layout.data = data.data();
        layout.request_stride = 16 * entry;
        layout.entry_stride = entry;
        layout.entry_bytes = entry;
        EXPECT_CUDA(compact_caches(mc::on(nullptr), layout, kept));
        check([size](std::size_t t) { return t * size; });

        // The same entries in pages of 4, in any order.
        EXPECT_CUDA(cudaMemcpy(data.data(), cache.data(), cache.size(), cudaMemcpyHostToDevice));
        std::vector<std::int32_t> const order{5, 0, 3, 7, 1, 2, 4, 6};
        on_device<std::int32_t> const table(order);
        paged_cache pages;
        pages.data = data.data();
        pages.pages.table = table.data();
        pages.pages.table_stride = 4;
        pages.pages.entries = 4;
        pages.pages.page_stride = 4 * entry;
        pages.entry_stride = entry;
        pages.entry_bytes = entry;
        EXPECT_CUDA(compact_caches(mc::on(nullptr), pages, kept));
        check([&](std::size_t t) { return (static_cast<std::size_t>(order[t / 4]) * 4 + t % 4) * size; });
    }
}

TEST_F(cuda_device, trees_come_into_level_order_as_on_the_host) {
    auto trees = mt::random_trees({1, 64, 9, 300, 2}, 7);
    // Backwards: the root is last, every parent comes after its children.
    std::vector<node_id> parents(trees.parents.size());
    for (std::size_t b = 0; b + 1 < trees.offsets.size(); ++b) {
        auto const begin = static_cast<std::size_t>(trees.offsets[b]);
        auto const n = static_cast<std::size_t>(trees.offsets[b + 1]) - begin;
        for (std::size_t i = 0; i < n; ++i) {
            node_id const up = trees.parents[begin + i];
            parents[begin + n - 1 - i] = up == none ? none : static_cast<node_id>(n) - 1 - up;
        }
    }
    std::vector<token_id> tokens(parents.size());
    std::iota(tokens.begin(), tokens.end(), 100);
    std::vector<float> scores(parents.size());
    mt::test_numbers numbers(4);
    for (float& x : scores) x = static_cast<float>(numbers.below(9));
    auto const nodes = static_cast<std::int64_t>(parents.size());
    tree_batch const host{5, nodes, trees.offsets.data(), parents.data(), tokens.data()};
    std::vector<node_id> p(parents.size()), o(p), d(p), t(p), best(5 * 7);
    std::vector<std::int32_t> f(5);
    mc::build_trees_on_host(thrust::seq, host, {p.data(), t.data(), o.data(), d.data(), f.data()});
    mc::write_best_on_host(thrust::seq, host, scores.data(), 7, best.data());

    on_device<std::int64_t> const offsets(trees.offsets);
    on_device<node_id> const dparents(parents), out_parents(p.size()), out_order(p.size()), dbest(best.size());
    on_device<token_id> const dtokens(tokens), out_tokens(p.size());
    on_device<std::int32_t> const depths(p.size()), faults(std::vector<std::int32_t>(5, 9));
    on_device<float> const dscores(scores);
    tree_batch const device{5, nodes, offsets.data(), dparents.data(), dtokens.data()};
    on_device<std::byte> const build(mc::build_workspace_size(nodes)), select(mc::best_workspace_size(nodes));
    EXPECT_CUDA(
        mc::build_trees(build.data(), build.size(), nullptr, device,
                        {out_parents.data(), out_tokens.data(), out_order.data(), depths.data(), faults.data()}));
    EXPECT_CUDA(mc::write_best(select.data(), select.size(), nullptr, device, dscores.data(), 7, dbest.data()));
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(out_parents.host(), p);
    EXPECT_EQ(out_tokens.host(), t);
    EXPECT_EQ(out_order.host(), o);
    EXPECT_EQ(depths.host(), d);
    EXPECT_EQ(faults.host(), f);
    EXPECT_EQ(dbest.host(), best);
    EXPECT_EQ(mc::build_trees(build.data(), build.size(), nullptr, device, {}), cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().substr(0, 19), "out.parents = null:");
    EXPECT_EQ(mc::write_best(select.data(), select.size(), nullptr, device, dscores.data(), 7, nullptr),
              cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().substr(0, 11), "out = null:");
    EXPECT_EQ(mc::build_trees(build.data(), build.size(), nullptr, tree_batch{-1}, {out_parents.data()}),
              cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().substr(0, 20), "trees.requests = -1:");
    EXPECT_EQ(mc::build_trees(build.data(), 16, nullptr, device, {out_parents.data()}), cudaErrorInvalidValue);
    EXPECT_EQ(mc::last_refusal().substr(0, 20), "workspace_size = 16:");
    // Without tokens.
    tree_batch const shapes{5, nodes, offsets.data(), dparents.data(), nullptr};
    on_device<node_id> const alone(p.size());
    EXPECT_CUDA(mc::build_trees(build.data(), build.size(), nullptr, shapes, {alone.data()}));
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(alone.host(), p);

    std::vector<std::int32_t> const sizes{3, 0, 2000000000, 2000000000, 1};
    on_device<std::int32_t> const dsizes(sizes);
    on_device<std::int64_t> const sums(6);
    on_device<std::byte> const scan(mc::offsets_workspace_size(5));
    EXPECT_EQ(mc::write_offsets(scan.data(), scan.size() - 1, nullptr, dsizes.data(), 5, sums.data()),
              cudaErrorInvalidValue);
    std::string const too_small = "workspace_size = " + std::to_string(scan.size() - 1) + ":";
    EXPECT_EQ(mc::last_refusal().substr(0, too_small.size()), too_small);
    EXPECT_CUDA(mc::write_offsets(scan.data(), scan.size(), nullptr, dsizes.data(), 5, sums.data()));
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(sums.host(), (std::vector<std::int64_t>{0, 3, 3, 2000000003, 4000000003, 4000000004}));
}

}  // namespace
}  // namespace trees_test
