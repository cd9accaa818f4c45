// In-place cache compaction against selecting the entries from a copy.
#include "multidraft/tree/compaction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace compaction_test {
namespace {

using multidraft::cache_axis;
using multidraft::cache_layout;
using multidraft::compact;
using multidraft::invalid_input;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A random strictly increasing choice from [0, n).
std::vector<std::int32_t> choice(std::int32_t n, std::mt19937_64& random) {
    std::vector<std::int32_t> entries;
    std::uint64_t const odds = 1 + random() % 4;
    for (std::int32_t i = 0; i < n; ++i)
        if (random() % 4 < odds) entries.push_back(i);
    return entries;
}

TEST(compaction, keeps_the_context_and_the_entries_in_order) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 500; ++round) {
        auto const size = static_cast<std::int64_t>(1 + random() % 5);
        auto const context = static_cast<std::int64_t>(random() % 6);
        auto const count = static_cast<std::int32_t>(random() % 100);
        auto const entries = choice(count, random);
        std::vector<int> storage(at((context + count) * size));
        for (std::size_t i = 0; i < storage.size(); ++i) storage[i] = static_cast<int>(i);
        std::vector<int> const before = storage;
        std::int64_t const length = compact(std::span<int>(storage), size, context, entries);
        ASSERT_EQ(length, context + static_cast<std::int64_t>(entries.size()));
        for (std::int64_t t = 0; t < length; ++t) {
            std::int64_t const from = t < context ? t : context + entries[at(t - context)];
            for (std::int64_t e = 0; e < size; ++e) ASSERT_EQ(storage[at(t * size + e)], before[at(from * size + e)]);
        }
    }
}

TEST(compaction, moves_values_that_own_memory) {
    std::vector<std::string> cache{"the", "cat", "a", "b", "sat on a very long and comfortable mat", "c"};
    EXPECT_EQ(compact(std::span<std::string>(cache), 1, 2, std::vector<std::int32_t>{0, 2}), 4);
    EXPECT_EQ(cache[2], "a");
    EXPECT_EQ(cache[3], "sat on a very long and comfortable mat");
}

TEST(compaction, moves_each_entry_at_most_once_and_down) {
    std::vector<std::pair<std::int64_t, std::int64_t>> moves;
    auto const note = [&](std::int64_t to, std::int64_t from) { moves.emplace_back(to, from); };
    EXPECT_EQ(multidraft::compact_entries(10, std::vector<std::int32_t>{0, 1, 4, 6}, note), 14);
    EXPECT_EQ(moves, (std::vector<std::pair<std::int64_t, std::int64_t>>{{12, 14}, {13, 16}}));
    moves.clear();
    EXPECT_EQ(multidraft::compact_entries(10, {}, note), 10);
    EXPECT_TRUE(moves.empty());
}

TEST(compaction, of_layers_and_heads_agrees_with_a_copy) {
    std::mt19937_64 random(2);
    for (int round = 0; round < 200; ++round) {
        // [layer][key or value][entry][head][element], and for odd rounds the heads outside the entries, with padding.
        std::int64_t const layers = 1 + static_cast<std::int64_t>(random() % 3);
        std::int64_t const heads = 1 + static_cast<std::int64_t>(random() % 3);
        std::int64_t const size = 4;
        std::int64_t const context = static_cast<std::int64_t>(random() % 4);
        auto const count = static_cast<std::int32_t>(random() % 40);
        std::int64_t const room = context + count + 3;
        bool const outside = round % 2 != 0;
        std::int64_t const entry_stride = outside ? size + 1 : heads * size;
        std::int64_t const head_stride = outside ? room * entry_stride : size;
        std::int64_t const plane = room * heads * (outside ? size + 1 : size);
        std::vector<cache_axis> axes{{layers, 2 * plane}, {2, plane}};
        if (outside) axes.push_back({heads, head_stride});
        cache_layout const layout{axes, context + count, entry_stride, outside ? size : heads * size};
        std::vector<int> cache(at(layers * 2 * plane));
        for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<int>(i);
        std::vector<int> const before = cache;
        auto const entries = choice(count, random);
        std::int64_t const length =
            compact(layout, context, entries, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
                ASSERT_GE(from - to, n);  // never overlapping
                std::copy_n(cache.begin() + from, n, cache.begin() + to);
            });
        ASSERT_EQ(length, context + static_cast<std::int64_t>(entries.size()));
        for (std::int64_t l = 0; l < layers * 2; ++l) {
            for (std::int64_t h = 0; h < heads; ++h) {
                for (std::int64_t t = 0; t < length; ++t) {
                    std::int64_t const from = t < context ? t : context + entries[at(t - context)];
                    for (std::int64_t e = 0; e < size; ++e) {
                        std::int64_t const base = l * plane + h * head_stride + e;
                        ASSERT_EQ(cache[at(base + t * entry_stride)], before[at(base + from * entry_stride)]);
                    }
                }
            }
        }
    }
}

/// The error for these entries.
std::string refusal(std::vector<std::int32_t> const& entries) {
    std::vector<int> storage(10, 4);
    try {
        compact(std::span<int>(storage), 1, 5, entries);
    } catch (invalid_input const& e) {
        EXPECT_EQ(storage, std::vector<int>(10, 4));
        return e.what();
    }
    return "accepted";
}

TEST(compaction, refuses_bad_entries) {
    EXPECT_EQ(refusal({0, 5}), "entries[1] = 5: an entry is in [0, 5), those after the context");
    EXPECT_EQ(refusal({-1}), "entries[0] = -1: an entry is in [0, 5), those after the context");
    EXPECT_EQ(refusal({1, 1}), "entries[1] = 1: the entry before is 1: entries increase strictly");
    EXPECT_EQ(refusal({3, 2}), "entries[1] = 2: the entry before is 3: entries increase strictly");
    EXPECT_EQ(refusal({0, 4}), "accepted");
}

// Two overlapping planes: an entry would be moved twice. Dimensions of an array, in any order, with gaps and with
// negative strides, do not overlap.
TEST(compaction, refuses_planes_that_share_entries) {
    using multidraft::cache_axis;
    auto const run = [](std::vector<cache_axis> const& axes, std::int64_t entries, std::int64_t stride,
                        std::int64_t size) {
        std::vector<std::int32_t> const kept{1, 2};
        int moves = 0;
        auto const move = [&](std::int64_t, std::int64_t, std::int64_t) { ++moves; };
        std::string argument;
        try {
            static_cast<void>(
                multidraft::compact(multidraft::cache_layout{axes, entries, stride, size}, 1, kept, move));
        } catch (multidraft::invalid_input const& e) {
            EXPECT_EQ(moves, 0);
            argument = e.argument() + '[' + std::to_string(e.index()) + ']';
        }
        return argument;
    };
    EXPECT_EQ(run({{2, 0}}, 8, 4, 4), "layout.axes[0]");
    EXPECT_EQ(run({{2, 32}, {3, 0}}, 8, 4, 4), "layout.axes[1]");
    EXPECT_EQ(run({{2, 3}}, 8, 4, 4), "layout.axes[0]");   // each within the other's entries
    EXPECT_EQ(run({{2, 31}}, 8, 4, 4), "layout.axes[0]");  // the last entry of one, the first of the other
    EXPECT_EQ(run({{2, 64}, {4, 32}}, 8, 4, 4), "layout.axes[0]");
    EXPECT_EQ(run({{2, 4}, {3, 8}}, 8, 20, 4), "layout.entry_stride[-1]");
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(run({{3, most / 2 + 1}}, 8, 4, 4), "layout.axes[0]");
    EXPECT_EQ(run({{2, std::numeric_limits<std::int64_t>::min()}}, 8, 4, 4), "layout.axes[0]");
    EXPECT_EQ(run({}, most, 4, 4), "layout.entries[-1]");
    // Layouts of engines: layers, keys and values, heads, in any order.
    EXPECT_EQ(run({{2, 32}}, 8, 4, 4), "");
    EXPECT_EQ(run({{2, -32}, {3, 64}}, 8, 4, 4), "");
    EXPECT_EQ(run({{1, 0}, {2, 4}, {5, 8 * 40}}, 8, 40, 4), "");
    EXPECT_EQ(run({{5, 320}, {2, 4}, {3, 8}}, 8, 40, 4), "");
    EXPECT_EQ(run({{2, 1000}, {3, 100}}, 8, 5, 4), "");
    EXPECT_EQ(run({{1, 0}}, 8, 4, 4), "");
}

TEST(compaction, refuses_bad_layouts_before_the_first_move) {
    auto const never = [](std::int64_t, std::int64_t, std::int64_t) { FAIL(); };
    std::vector<std::int32_t> const entries{1};
    std::vector<cache_axis> const none_of_them{{0, 5}};
    std::vector<cache_axis> const many{{std::int64_t{1} << 40, 1}, {std::int64_t{1} << 40, 1}};
    EXPECT_THROW(compact(cache_layout{{}, 5, 4, 0}, 0, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{{}, 5, 3, 4}, 0, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{{}, 5, 4, 4}, 6, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{{}, 5, 4, 4}, -1, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{{}, 5, 4, 4}, 4, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{none_of_them, 5, 4, 4}, 0, entries, never), invalid_input);
    EXPECT_THROW(compact(cache_layout{many, 5, 4, 4}, 0, entries, never), invalid_input);
    std::vector<int> storage(10);
    EXPECT_THROW(compact(std::span<int>(storage), 3, 0, entries), invalid_input);
    EXPECT_THROW(compact(std::span<int>(storage), 0, 0, entries), invalid_input);
    EXPECT_THROW(compact(std::span<int>(storage), 1, 11, entries), invalid_input);
}

}  // namespace
}  // namespace compaction_test
