// Trees in level order, offsets and best nodes through Thrust on the CPU, against `topology` and plain loops.
#include <gtest/gtest.h>

#if __has_include(<thrust/sort.h>)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <queue>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/topology.hpp"
#include "support/batches.hpp"
#include "support/host_trees.hpp"

namespace trees_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;

/// Trees with their nodes shuffled.
struct shuffled {
    shuffled(std::vector<node_id> const& sizes, std::uint64_t seed) {
        auto const trees = mt::random_trees(sizes, seed);
        mt::test_numbers numbers(seed + 1);
        offsets = trees.offsets;
        for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
            auto const begin = static_cast<std::size_t>(offsets[b]);
            auto const n = static_cast<index_t>(offsets[b + 1] - offsets[b]);
            std::vector<node_id> to(static_cast<std::size_t>(n));
            std::iota(to.begin(), to.end(), 0);
            for (index_t i = n - 1; i > 0; --i)
                std::swap(to[static_cast<std::size_t>(i)], to[static_cast<std::size_t>(numbers.below(i + 1))]);
            std::vector<node_id> mine(to.size());
            for (std::size_t i = 0; i < to.size(); ++i) {
                node_id const up = trees.parents[begin + i];
                mine[static_cast<std::size_t>(to[i])] = up == none ? none : to[static_cast<std::size_t>(up)];
            }
            for (node_id const up : mine) {
                parents.push_back(up);
                tokens.push_back(numbers.below(1000));
                certain.push_back(numbers.below(4));
            }
        }
    }
    [[nodiscard]] tree_batch view() const {
        return {static_cast<std::int32_t>(offsets.size() - 1),
                offsets.back(),
                offsets.data(),
                parents.data(),
                tokens.data(),
                certain.data()};
    }
    std::vector<std::int64_t> offsets;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
};

struct built {
    explicit built(shuffled const& in)
        : parents(in.parents.size(), 77),
          tokens(parents),
          order(parents),
          depths(parents),
          certain(parents),
          faults(in.offsets.size()) {}
    [[nodiscard]] mc::built_trees view() {
        return {parents.data(), tokens.data(), order.data(), depths.data(), faults.data(), certain.data()};
    }
    std::vector<node_id> parents, tokens, order, depths, certain;
    std::vector<std::int32_t> faults;
};

TEST(simt_trees, come_into_level_order_as_a_walk_by_levels_finds_them) {
    shuffled const in({1, 2, 9, 64, 200, 1, 33}, 5);
    built out(in);
    mc::build_trees_on_host(thrust::seq, in.view(), out.view());
    for (std::size_t b = 0; b + 1 < in.offsets.size(); ++b) {
        auto const begin = in.offsets[b];
        auto const n = static_cast<node_id>(in.offsets[b + 1] - begin);
        auto const at = [begin](node_id v) { return static_cast<std::size_t>(begin + v); };
        // Breadth first: a node's children enter the queue in the order of the input.
        std::vector<node_id> order;
        for (node_id v = 0; v < n; ++v)
            if (in.parents[at(v)] == none) order.push_back(v);
        for (std::size_t head = 0; head < order.size(); ++head)
            for (node_id v = 0; v < n; ++v)
                if (in.parents[at(v)] == order[head]) order.push_back(v);
        ASSERT_EQ(static_cast<node_id>(order.size()), n);
        auto const shape = topology::from_parents(
            span<node_id const>(out.parents.data() + begin, static_cast<std::size_t>(n)));  // throws if not a tree
        for (node_id k = 0; k < n; ++k) {
            node_id const from = order[static_cast<std::size_t>(k)];
            ASSERT_EQ(out.order[at(k)], from);
            ASSERT_EQ(out.tokens[at(k)], in.tokens[at(from)]);
            ASSERT_EQ(out.certain[at(k)], in.certain[at(from)]);
            ASSERT_EQ(out.depths[at(k)], shape.depth(k));
            ASSERT_EQ(k == 0 ? none : order[static_cast<std::size_t>(shape.parent(k))], in.parents[at(from)]);
        }
        EXPECT_EQ(out.faults[b], 0);
    }
    // Trees that are already in level order stay unchanged.
    shuffled again = in;
    again.parents = out.parents;
    again.tokens = out.tokens;
    built same(again);
    mc::build_trees_on_host(thrust::host, again.view(), same.view());
    EXPECT_EQ(same.parents, out.parents);
    EXPECT_EQ(same.tokens, out.tokens);
}

TEST(simt_trees, that_are_none_are_named) {
    auto const faults_of = [](std::vector<node_id> const& parents) {
        shuffled in({3, 2}, 1);
        in.offsets = {0, 3, static_cast<std::int64_t>(parents.size()) + 3};
        in.parents = {none, 0, 1};
        in.parents.insert(in.parents.end(), parents.begin(), parents.end());
        in.tokens.assign(in.parents.size(), 1);
        in.certain.assign(in.parents.size(), 0);
        built out(in);
        EXPECT_THROW(mc::build_trees_on_host(thrust::seq, in.view(), out.view()), invalid_input);
        EXPECT_EQ(out.faults[0], 0);
        for (node_id const up : out.parents) EXPECT_LT(up, static_cast<node_id>(parents.size()));
        return out.faults[1];
    };
    EXPECT_EQ(faults_of({1, 0}), 2);              // a ring
    EXPECT_EQ(faults_of({none, 1, 0}), 1);        // its own parent
    EXPECT_EQ(faults_of({none, 0, none, 2}), 2);  // two roots
    EXPECT_EQ(faults_of({3, 3, none, none}), 3);  // the first of two roots has no child
    EXPECT_EQ(faults_of({none, 0, 9}), 1);        // beyond the tree
    EXPECT_EQ(faults_of({none, -5, 0}), 1);       // no node
    EXPECT_EQ(faults_of({2, 0, 1, none}), 3);     // a ring beside the root
}

TEST(simt_trees, offsets_are_sums_in_64_bits) {
    std::vector<std::int32_t> const sizes{3, 0, 2000000000, 2000000000, 1};
    std::vector<std::int64_t> offsets(6, -1);
    mc::write_offsets_on_host(thrust::seq, sizes.data(), 5, offsets.data());
    EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 3, 3, 2000000003, 4000000003, 4000000004}));
    offsets.assign(1, -1);
    mc::write_offsets_on_host(thrust::seq, sizes.data(), 0, offsets.data());
    EXPECT_EQ(offsets[0], 0);
}

TEST(simt_trees, best_nodes_come_first_and_ties_go_to_the_lower_node) {
    shuffled const in({5, 1, 70}, 9);
    mt::test_numbers numbers(3);
    std::vector<float> scores;
    for (std::size_t i = 0; i < in.parents.size(); ++i) scores.push_back(static_cast<float>(numbers.below(20)) - 10.0F);
    scores[2] = std::numeric_limits<float>::quiet_NaN();
    scores[3] = -std::numeric_limits<float>::infinity();
    for (std::int32_t const wanted : {1, 3, 8, 100}) {
        std::vector<node_id> best(static_cast<std::size_t>(3 * wanted), 99);
        mc::write_best_on_host(thrust::seq, in.view(), scores.data(), wanted, best.data());
        for (std::size_t b = 0; b < 3; ++b) {
            auto const begin = static_cast<std::size_t>(in.offsets[b]);
            auto const n = static_cast<std::size_t>(in.offsets[b + 1]) - begin;
            std::vector<node_id> expected(n);
            std::iota(expected.begin(), expected.end(), 0);
            auto const key = [&](node_id v) {
                float const x = scores[begin + static_cast<std::size_t>(v)];
                return x == x ? static_cast<double>(x) : -1e300 * 1e300;
            };
            std::stable_sort(expected.begin(), expected.end(), [&](node_id a, node_id c) {
                float const x = scores[begin + static_cast<std::size_t>(a)];
                float const y = scores[begin + static_cast<std::size_t>(c)];
                if ((x == x) != (y == y)) return x == x;
                return key(a) > key(c);
            });
            expected.resize(static_cast<std::size_t>(wanted), none);
            for (std::size_t k = 0; k < static_cast<std::size_t>(wanted); ++k)
                ASSERT_EQ(best[b * static_cast<std::size_t>(wanted) + k], expected[k]) << b << ' ' << k;
        }
    }
}

}  // namespace
}  // namespace trees_test

#else

TEST(simt_trees, come_into_level_order_as_a_walk_by_levels_finds_them) { GTEST_SKIP() << "no Thrust"; }

#endif
