// Masks and positions against brute force over random trees, whole and grown level by level.
#include "multidraft/tree/mask.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/tree/shapes.hpp"
#include "tree/random_tree.hpp"

namespace mask_test {
namespace {

using multidraft::ancestor_mask;
using multidraft::dense_mask;
using multidraft::invalid_input;
using multidraft::mask_view;
using multidraft::node_id;
using multidraft::topology;
using multidraft::words_per_row;
using multidraft::write_mask;
using multidraft::test::attends;
using multidraft::test::random_parents;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void expect_mask(mask_view mask, std::vector<node_id> const& parents, node_id n) {
    for (node_id i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < mask.row_words * 64; ++j) {
            bool const expected = j < n && attends(parents, i, static_cast<node_id>(j));
            ASSERT_EQ(mask(i, static_cast<node_id>(j)), expected) << i << ' ' << j << " of " << n;
        }
    }
}

std::vector<std::vector<node_id>> some_trees() {
    std::vector<std::vector<node_id>> trees{{-1}, {-1, 0}};
    for (node_id const n : {2, 3, 17, 63, 64, 65, 127, 128, 129, 200}) {
        for (node_id const reach : {1, 5, 1000})
            trees.push_back(random_parents(n, reach, static_cast<std::uint64_t>(n)));
    }
    trees.push_back(random_parents(513, 30, 1));
    topology const regular = multidraft::branching({4, 2, 2, 1});
    trees.emplace_back(regular.parents().begin(), regular.parents().end());
    return trees;
}

TEST(mask, of_a_whole_tree_is_every_nodes_ancestors) {
    for (auto const& parents : some_trees()) {
        auto const n = static_cast<node_id>(parents.size());
        for (std::int64_t const extra : {0, 1}) {
            std::int64_t const row = words_per_row(n) + extra;
            std::vector<std::uint64_t> words(at(n * row), ~std::uint64_t{0});  // whatever was there is overwritten
            expect_mask(write_mask(parents, words, row), parents, n);
        }
        expect_mask(ancestor_mask(parents).view(), parents, n);
    }
}

TEST(mask, grown_by_levels_is_that_of_the_whole_tree) {
    for (auto const& parents : some_trees()) {
        auto const n = static_cast<node_id>(parents.size());
        topology const shape = topology::from_parents(parents);
        for (node_id const capacity : {0, 1, 70, n, 2 * n}) {
            ancestor_mask mask;
            mask.reset(capacity);
            for (std::int32_t d = 0; d <= shape.max_depth(); ++d) {
                auto const level = shape.level(d);
                mask.append(shape.parents().subspan(at(level.first), at(level.count)));
                ASSERT_EQ(mask.size(), level.end());
            }
            expect_mask(mask.view(), parents, n);
        }
    }
}

TEST(mask, is_used_again_after_a_reset) {
    ancestor_mask mask(random_parents(200, 9, 3));
    for (node_id const n : {5, 130, 64, 1}) {
        auto const parents = random_parents(n, 6, 7);
        mask.reset(n);
        EXPECT_EQ(mask.size(), 0);
        mask.append(parents);
        expect_mask(mask.view(), parents, n);
    }
}

TEST(mask, within_its_capacity_stays_where_it_is) {
    auto const parents = random_parents(150, 9, 3);
    ancestor_mask mask;
    mask.reset(150);
    mask.append(std::vector<node_id>(parents.begin(), parents.begin() + 10));
    mask_view const before = mask.view();
    mask.append(std::vector<node_id>(parents.begin() + 10, parents.end()));
    EXPECT_EQ(mask.view().words, before.words);
    EXPECT_EQ(mask.view().row_words, before.row_words);
}

TEST(mask, sliced_is_the_mask_of_every_early_stop) {
    auto const parents = random_parents(150, 12, 4);
    ancestor_mask const full(parents);
    for (node_id n = 1; n <= 150; ++n) expect_mask(multidraft::sliced(full.view(), 150, n), parents, n);
    EXPECT_THROW((void)multidraft::sliced(full.view(), 150, 151), invalid_input);
    EXPECT_THROW((void)multidraft::sliced(full.view(), 150, -1), invalid_input);
}

TEST(dense_mask, agrees_with_brute_force_and_touches_nothing_else) {
    for (auto const& parents : some_trees()) {
        auto const n = static_cast<node_id>(parents.size());
        ancestor_mask const packed(parents);
        for (std::int64_t const context : {0, 3, 70}) {
            std::int64_t const stride = context + n + 5;
            std::vector<std::uint8_t> bytes(at(n * stride), 7);
            std::vector<float> bias(at(n * stride), 5.0F);
            multidraft::write_bytes(packed.view(), context, {bytes.data(), n, context + n, stride});
            multidraft::write_bias<float>(packed.view(), context, {bias.data(), n, context + n, stride});
            for (std::int64_t i = 0; i < n; ++i) {
                for (std::int64_t j = 0; j < stride; ++j) {
                    bool const padding = j >= context + n;
                    bool const seen = j < context || (!padding && attends(parents, static_cast<node_id>(i),
                                                                          static_cast<node_id>(j - context)));
                    ASSERT_EQ(bytes[at(i * stride + j)], padding ? 7 : (seen ? 1 : 0));
                    ASSERT_EQ(bias[at(i * stride + j)],
                              padding ? 5.0F : (seen ? 0.0F : -std::numeric_limits<float>::infinity()));
                }
            }
        }
    }
}

TEST(dense_mask, of_a_causal_view_is_a_triangle) {
    std::vector<std::uint8_t> bytes(12);
    multidraft::write_bytes(mask_view{}, 1, {bytes.data(), 3, 4, 4});
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}));
    multidraft::write_bytes(mask_view{}, 0, {bytes.data(), 3, 2, 4});  // more rows than columns
    EXPECT_EQ(bytes[0] + bytes[1] + bytes[4] + bytes[5] + bytes[8] + bytes[9], 5);
}

TEST(dense_mask, of_some_rows_and_in_half_precision) {
    auto const parents = random_parents(90, 12, 4);
    ancestor_mask const packed(parents);
    std::vector<multidraft::float16> bias(at(10 * 90));
    multidraft::write_bias<multidraft::float16>(packed.view().from_row(80), 0, {bias.data(), 10, 90, 90});
    for (node_id i = 0; i < 10; ++i) {
        for (node_id j = 0; j < 90; ++j)
            ASSERT_EQ(bias[at(i * 90 + j)].bits, attends(parents, 80 + i, j) ? 0x0000 : 0xfc00);
    }
}

TEST(dense_mask, sliced_is_the_mask_of_an_early_stop) {
    auto const parents = random_parents(100, 12, 4);
    std::vector<std::uint8_t> full(at(100 * 104));
    dense_mask<std::uint8_t> const mask{full.data(), 100, 104, 104};
    multidraft::write_bytes(ancestor_mask(parents).view(), 4, mask);
    for (node_id const n : {1, 2, 50, 64, 65, 100}) {
        auto const corner = mask.sliced(n, 4 + n);
        std::vector<node_id> const prefix(parents.begin(), parents.begin() + n);
        std::vector<std::uint8_t> own(at(n * (4 + n)));
        dense_mask<std::uint8_t> const expected{own.data(), n, 4 + n, 4 + n};
        multidraft::write_bytes(ancestor_mask(prefix).view(), 4, expected);
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < 4 + n; ++j) ASSERT_EQ(corner(i, j), expected(i, j));
    }
    EXPECT_THROW((void)mask.sliced(101, 104), invalid_input);
    EXPECT_THROW((void)mask.sliced(100, 105), invalid_input);
}

TEST(mask, refuses_bad_input_and_changes_nothing) {
    std::vector<std::uint64_t> words(4, 9);
    EXPECT_THROW(write_mask(std::vector<node_id>{-1, 0, 3}, words, 1), invalid_input);
    EXPECT_THROW(write_mask(std::vector<node_id>{0}, words, 1), invalid_input);
    EXPECT_THROW(write_mask(std::vector<node_id>{-1, -1}, words, 1), invalid_input);
    EXPECT_THROW(write_mask(random_parents(5, 9, 1), words, 1), invalid_input);  // too few words
    EXPECT_THROW(write_mask(random_parents(65, 9, 1), words, 1), invalid_input);
    EXPECT_EQ(words, std::vector<std::uint64_t>(4, 9));

    auto const parents = random_parents(10, 4, 1);
    ancestor_mask mask(parents);
    for (node_id const bad : {-1, 10, 12}) EXPECT_THROW(mask.append(std::vector<node_id>{bad}), invalid_input);
    EXPECT_EQ(mask.size(), 10);
    expect_mask(mask.view(), parents, 10);
    mask.reset(3);
    EXPECT_THROW(mask.append(std::vector<node_id>{0}), invalid_input);  // the first is the root

    std::vector<std::uint8_t> bytes(100, 3);
    mask_view const view = ancestor_mask(parents).view();
    EXPECT_THROW(multidraft::write_bytes(view, 11, {bytes.data(), 10, 10, 10}), invalid_input);
    EXPECT_THROW(multidraft::write_bytes(view, -1, {bytes.data(), 10, 10, 10}), invalid_input);
    EXPECT_THROW(multidraft::write_bytes(view, 0, {bytes.data(), 10, 10, 9}), invalid_input);
    EXPECT_THROW(multidraft::write_bytes(view, 0, {bytes.data(), 1, 65, 65}), invalid_input);
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(100, 3));
}

TEST(mask, refuses_rows_that_exceed_64_bits_together) {
    std::vector<node_id> const parents{-1, 0, 0};
    std::vector<std::uint64_t> words(8, 7);
    for (std::int64_t const row :
         {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max() / 2, std::int64_t{1} << 61,
          std::int64_t{3}})
        EXPECT_THROW(static_cast<void>(write_mask(parents, words, row)), invalid_input) << row;
    EXPECT_EQ(words, std::vector<std::uint64_t>(8, 7));
    EXPECT_NO_THROW(static_cast<void>(write_mask(parents, words, 2)));
}

TEST(mask, knows_its_rows) {
    std::vector<node_id> const parents{-1, 0, 0, 1};
    std::vector<std::uint64_t> words(4);
    EXPECT_EQ(write_mask(parents, words, 1).rows, 4);
    ancestor_mask const mask(parents);
    EXPECT_EQ(mask.view().rows, 4);
    EXPECT_EQ(mask.view().from_row(3).rows, 1);
    EXPECT_EQ(multidraft::sliced(mask.view(), 4, 2).rows, 2);
    EXPECT_EQ((mask_view{words.data(), 1}.from_row(2).rows), -1);
    EXPECT_EQ(mask.view().from_row(5).rows, 0);
}

TEST(mask, of_a_chain_from_a_row_on_is_that_of_its_packed_rows) {
    std::vector<node_id> const chain{-1, 0, 1, 2, 3};
    ancestor_mask const packed(chain);
    for (node_id n = 0; n <= 4; ++n)
        for (node_id m = 0; n + m <= 4; ++m) {
            mask_view const causal = mask_view{}.from_row(n).from_row(m);
            mask_view const rows = packed.view().from_row(n + m);
            EXPECT_TRUE(causal.causal());
            std::vector<std::uint8_t> of_chain(40, 7), of_rows(40, 7);
            std::int64_t const count = 5 - n - m;
            for (std::int64_t i = 0; i < count; ++i)
                for (node_id j = 0; j < 5; ++j)
                    EXPECT_EQ(causal(static_cast<node_id>(i), j), rows(static_cast<node_id>(i), j));
            multidraft::write_bytes(causal, 2, {of_chain.data(), count, 7, 8});
            multidraft::write_bytes(rows, 2, {of_rows.data(), count, 7, 8});
            EXPECT_EQ(of_chain, of_rows) << n << " and " << m;
        }
}

TEST(dense_mask, refuses_more_rows_than_the_packed_mask_has) {
    std::vector<node_id> const parents{-1, 0, 0, 1};
    ancestor_mask const mask(parents);
    std::vector<std::uint8_t> bytes(64, 7);
    auto const write = [&](mask_view from, std::int64_t rows, std::int64_t columns) {
        multidraft::write_bytes(from, 0, {bytes.data(), rows, columns, 8});
    };
    EXPECT_THROW(write(mask.view(), 5, 4), invalid_input);
    EXPECT_THROW(write(mask.view().from_row(2), 3, 4), invalid_input);
    EXPECT_THROW(write(multidraft::sliced(mask.view(), 4, 2), 3, 2), invalid_input);
    EXPECT_THROW(write({mask.view().words, std::numeric_limits<std::int64_t>::max()}, 1, -3), invalid_input);
    EXPECT_EQ(bytes, std::vector<std::uint8_t>(64, 7));
    EXPECT_NO_THROW(write(mask.view(), 4, 4));
    EXPECT_NO_THROW(write({mask.view().words, std::numeric_limits<std::int64_t>::max()}, 1, 4));
    EXPECT_NO_THROW(write({mask.view().words, 1}, 4, 4));  // how many there are is not known
}

TEST(positions, are_the_context_and_the_depth) {
    topology const shape = multidraft::branching({2, 1});
    std::vector<std::int32_t> out(5);
    multidraft::write_positions(100, shape.depths(), out);
    EXPECT_EQ(out, (std::vector<std::int32_t>{100, 101, 101, 102, 102}));
    EXPECT_THROW(multidraft::write_positions(2147483646, shape.depths(), out), invalid_input);
    EXPECT_THROW(multidraft::write_positions(-1, shape.depths(), out), invalid_input);
    std::vector<std::int32_t> four(4);
    EXPECT_THROW(multidraft::write_positions(0, shape.depths(), four), invalid_input);
    EXPECT_EQ(out[4], 102);
}

}  // namespace
}  // namespace mask_test
