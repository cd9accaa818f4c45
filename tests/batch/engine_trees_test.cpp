// Trees by links and by EAGLE's lists, and masks in engines' formats, compared with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "support/batches.hpp"
#include "support/refusal.hpp"

namespace engine_trees_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Trees whose nodes after the root are in random order, with siblings linked in random order.
template <class Id>
struct linked {
    linked(std::vector<node_id> const& sizes, std::uint64_t seed) {
        mt::test_numbers numbers(seed);
        auto const plain = mt::random_trees(sizes, seed);
        offsets = plain.offsets;
        parents = plain.parents;
        first_child.assign(parents.size(), -1);
        next_sibling.assign(parents.size(), -1);
        for (std::size_t i = 0; i < parents.size(); ++i) {
            tokens.push_back(numbers.below(1000));
            certain.push_back(numbers.below(3));
        }
        for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
            auto const n = static_cast<index_t>(offsets[b + 1] - offsets[b]);
            std::vector<node_id> to(at(n));
            std::iota(to.begin(), to.end(), 0);
            for (index_t i = n - 1; i > 1; --i) std::swap(to[at(i)], to[at(1 + numbers.below(i))]);
            std::vector<node_id> mine(to.size());
            for (node_id v = 0; v < n; ++v) {
                node_id const up = plain.parents[at(offsets[b] + v)];
                mine[at(to[at(v)])] = up == none ? none : to[at(up)];
            }
            std::copy(mine.begin(), mine.end(), parents.begin() + offsets[b]);
            // Each node is linked before or after its siblings.
            for (node_id v = 1; v < n; ++v) {
                node_id const up = mine[at(v)];
                if (numbers.below(2) == 0 || first_child[at(offsets[b] + up)] == -1) {
                    next_sibling[at(offsets[b] + v)] = first_child[at(offsets[b] + up)];
                    first_child[at(offsets[b] + up)] = v;
                } else {
                    auto last = first_child[at(offsets[b] + up)];
                    while (next_sibling[at(offsets[b] + last)] != -1) last = next_sibling[at(offsets[b] + last)];
                    next_sibling[at(offsets[b] + last)] = v;
                }
            }
        }
    }
    [[nodiscard]] tree_batch trees() const {
        return {static_cast<std::int32_t>(offsets.size() - 1),
                offsets.back(),
                offsets.data(),
                nullptr,
                nullptr,
                certain.data()};
    }
    [[nodiscard]] link_batch<Id> links() const { return {first_child.data(), next_sibling.data(), tokens.data()}; }

    std::vector<std::int64_t> offsets;
    std::vector<node_id> parents;
    std::vector<Id> first_child, next_sibling, tokens;
    std::vector<index_t> certain;
};

struct built {
    explicit built(std::size_t nodes, std::size_t requests)
        : parents(nodes, 77),
          tokens(nodes, 77),
          order(nodes, 77),
          depths(nodes, 77),
          certain(nodes, 77),
          rows(nodes),
          faults(requests, 77) {}
    [[nodiscard]] built_trees view() {
        return {parents.data(), tokens.data(), order.data(), depths.data(), faults.data(), certain.data(), rows.data()};
    }
    std::vector<node_id> parents, tokens, order, depths, certain;
    std::vector<std::int64_t> rows;
    std::vector<std::int32_t> faults;
};

/// Compares request b in level order with its links, except for the last `missing` nodes.
template <class Id>
void expect_level_order(linked<Id> const& in, built const& out, std::size_t b, node_id missing) {
    std::int64_t const first = in.offsets[b];
    auto const n = static_cast<node_id>(in.offsets[b + 1] - first);
    auto const shape = topology::from_parents({out.parents.data() + first, at(n)});  // throws if it is not a tree
    EXPECT_EQ(out.faults[b], missing);
    std::vector<bool> seen(at(n), false);
    for (node_id k = 0; k < n; ++k) {
        auto const i = at(first + k);
        if (k >= n - missing) {
            EXPECT_EQ(out.tokens[i], padding);
            EXPECT_EQ(out.order[i], none);
            EXPECT_TRUE(shape.children(k).empty());
            continue;
        }
        node_id const from = out.order[i];
        EXPECT_FALSE(seen[at(from)]);
        seen[at(from)] = true;
        EXPECT_EQ(out.rows[i], first + from);
        EXPECT_EQ(out.tokens[i], in.tokens[at(first + from)]);
        EXPECT_EQ(out.certain[i], in.certain[at(first + from)]);
        EXPECT_EQ(out.depths[i], shape.depth(k));
        EXPECT_EQ(k == 0 ? none : out.order[at(first + shape.parent(k))], in.parents[at(first + from)]);
        std::vector<node_id> children;
        for (Id c = in.first_child[at(first + from)]; c != -1; c = in.next_sibling[at(first + c)])
            children.push_back(static_cast<node_id>(c));
        std::vector<node_id> got;
        for (node_id c = shape.children(k).first; c < shape.children(k).end() && c < n - missing; ++c)
            got.push_back(out.order[at(first + c)]);
        EXPECT_EQ(got, children);
    }
}

template <class Id>
void comes_into_level_order() {
    linked<Id> const in({1, 2, 9, 64, 200, 1, 33}, 5);
    built out(in.parents.size(), 7);
    build_trees(host_threads(2), in.trees(), in.links(), out.view());
    for (std::size_t b = 0; b < 7; ++b) expect_level_order(in, out, b, 0);
}

TEST(linked_trees, come_into_level_order_with_their_siblings_in_the_order_of_the_links) {
    comes_into_level_order<std::int64_t>();
    comes_into_level_order<std::int32_t>();
}

TEST(linked_trees, may_leave_nodes_out) {
    linked<std::int64_t> in({9, 1, 64}, 8);
    // A node without children is unlinked.
    for (std::size_t b : {std::size_t{0}, std::size_t{2}}) {
        auto* const first = in.first_child.data() + in.offsets[b];
        auto* const next = in.next_sibling.data() + in.offsets[b];
        node_id v = 1;
        while (first[v] != -1) ++v;
        for (auto* links : {first, next})
            for (std::int64_t u = 0; u < in.offsets[b + 1] - in.offsets[b]; ++u)
                if (links[u] == v) links[u] = next[v];
        next[v] = -1;
    }
    built out(in.parents.size(), 3);
    build_trees(host_threads(1), in.trees(), in.links(), out.view());
    expect_level_order(in, out, 0, 1);
    expect_level_order(in, out, 1, 0);
    expect_level_order(in, out, 2, 1);
}

TEST(linked_trees, with_invalid_links_are_refused_on_a_host_and_end_in_a_launch) {
    std::vector<std::int64_t> const offsets{0, 1, 5};
    std::vector<std::int64_t> const tokens{1, 2, 3, 4, 5};
    auto const refused = [&](std::vector<std::int64_t> const& first, std::vector<std::int64_t> const& next) {
        std::vector<std::int64_t> a{-1}, s{-1};
        a.insert(a.end(), first.begin(), first.end());
        s.insert(s.end(), next.begin(), next.end());
        built out(5, 2);
        tree_batch const trees{2, 5, offsets.data()};
        link_batch<std::int64_t> const links{a.data(), s.data(), tokens.data()};
        detail::build_from_links<std::int64_t> const body{trees, links, out.view()};
        body(1);
        EXPECT_NO_THROW(validate_tree(span<node_id const>(out.parents).subspan(1)));
        for (std::size_t k = 1; k < 5; ++k) EXPECT_TRUE(out.order[k] >= none && out.order[k] < 4);
        built untouched(5, 2);
        try {
            build_trees(host_threads(1), trees, links, untouched.view());
        } catch (invalid_input const& e) {
            EXPECT_EQ(untouched.parents, std::vector<node_id>(5, 77));
            return std::string(e.what());
        }
        return std::string("taken");
    };
    EXPECT_EQ(refused({1, 2, 3, -1}, {-1, -1, -1, -1}), "taken");
    EXPECT_EQ(refused({1, -1, -1, -1}, {-1, 2, 3, -1}), "taken");
    EXPECT_EQ(refused({1, 2, 1, -1}, {-1, -1, -1, -1}),
              "links.first_child[3] = 1: a second link leads to this node, request 1");
    EXPECT_EQ(refused({1, -1, -1, -1}, {-1, 2, 2, -1}),
              "links.next_sibling[3] = 2: a second link leads to this node, request 1");
    EXPECT_EQ(refused({1, 0, -1, -1}, {-1, -1, -1, -1}),
              "links.first_child[2] = 0: no link leads to node 0, the root, request 1");
    EXPECT_EQ(refused({1, -1, -1, -1}, {-1, 9, -1, -1}),
              "links.next_sibling[2] = 9: a link is a node, or -1, request 1");
    EXPECT_EQ(refused({1, -1, -1, -1}, {3, -1, -1, -1}),
              "links.next_sibling[1] = 3: the root has no sibling, request 1");
}

/// Trees grown with beams and reduced to their best candidates, and their lists.
struct eagle {
    eagle(std::int32_t beams, int levels, node_id nodes, std::int32_t requests, std::uint64_t seed)
        : k(beams), list_size(beams * (levels - 1) + 1) {
        mt::test_numbers numbers(seed);
        for (std::int32_t b = 0; b < requests; ++b) {
            struct candidate {
                double score;
                std::int64_t parent;  // a candidate; -1: the root
                std::int64_t number;
            };
            auto const by_score = [](candidate const& x, candidate const& y) {
                return x.score > y.score || (x.score == y.score && x.number < y.number);
            };
            std::vector<candidate> all;
            std::vector<std::int64_t> beam{-1};  // the candidates of a level that get children
            std::vector<std::int64_t> list{-1};
            for (int level = 0; level < levels; ++level) {
                std::vector<candidate> here;
                for (std::int64_t const up : beam)
                    for (int j = 0; j < beams; ++j)
                        here.push_back({(up < 0 ? 0.0 : all[at(up)].score) - 0.01 - numbers(), up,
                                        static_cast<std::int64_t>(all.size() + here.size())});
                all.insert(all.end(), here.begin(), here.end());
                std::sort(here.begin(), here.end(), by_score);
                beam.clear();
                for (int j = 0; j < beams; ++j) beam.push_back(here[at(j)].number);
                if (level + 1 < levels) list.insert(list.end(), beam.begin(), beam.end());
            }
            parents_of_beams.insert(parents_of_beams.end(), list.begin(), list.end());
            auto best = all;
            std::sort(best.begin(), best.end(), by_score);
            std::vector<std::int64_t> mine;
            for (node_id v = 1; v < nodes; ++v) mine.push_back(best[at(v - 1)].number);
            std::sort(mine.begin(), mine.end());
            selected.insert(selected.end(), mine.begin(), mine.end());
            expected.push_back(none);
            for (std::int64_t const c : mine) {
                std::int64_t const up = all[at(c)].parent;
                auto const place = std::find(mine.begin(), mine.end(), up);
                expected.push_back(up < 0 ? 0 : static_cast<node_id>(place - mine.begin()) + 1);
            }
            offsets.push_back(offsets.back() + nodes);
        }
    }
    std::int32_t k;
    std::int64_t list_size;
    std::vector<std::int64_t> parents_of_beams, selected, offsets{0};
    std::vector<node_id> expected;
};

TEST(eagle_lists, give_the_parents_of_the_growth) {
    bool out_of_level_order = false;
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
        eagle const grown(4, 4, 17, 3, seed);
        tree_batch trees{3, grown.offsets.back(), grown.offsets.data()};
        std::vector<node_id> parents(at(trees.nodes), 77);
        write_eagle_parents(
            host_threads(1), trees,
            eagle_batch<std::int64_t>{grown.parents_of_beams.data(), grown.list_size, grown.selected.data(), grown.k},
            parents.data());
        ASSERT_EQ(parents, grown.expected);
        trees.parents = parents.data();
        for (std::int32_t b = 0; b < 3; ++b) out_of_level_order = out_of_level_order || !trees(b).is_tree();
        // Through links into level order: children in increasing order, as selected.
        std::vector<std::int64_t> first(parents.size()), next(parents.size()), tokens(parents.size(), 5);
        write_links(host_threads(1), trees, first.data(), next.data());
        built out(parents.size(), 3);
        build_trees(host_threads(1), trees, link_batch<std::int64_t>{first.data(), next.data(), tokens.data()},
                    out.view());
        for (std::int32_t b = 0; b < 3; ++b) {
            EXPECT_EQ(out.faults[at(b)], 0);
            auto const begin = grown.offsets[at(b)];
            for (std::int64_t k = 1; k < 17; ++k) {
                auto const i = at(begin + k);
                EXPECT_EQ(out.order[at(begin + out.parents[i])], parents[at(begin + out.order[i])]);
                if (out.parents[i] == out.parents[i - 1]) {
                    EXPECT_LT(out.order[i - 1], out.order[i]);
                }
            }
        }
    }
    EXPECT_TRUE(out_of_level_order);  // otherwise the test shows nothing
}

TEST(eagle_lists, leave_out_a_node_whose_parent_was_not_selected) {
    std::vector<std::int64_t> const parents{-1, 0, 1}, selected{1, 2};  // candidate 2 is a child of candidate 0
    eagle_lists<std::int64_t> const lists{parents, selected, 2};
    EXPECT_EQ(lists(0), none);
    EXPECT_EQ(lists(1), 0);
    EXPECT_EQ(lists(2), none);
    std::vector<std::int64_t> const with_it{0, 2}, beyond{0, 60}, negative{-3, 0}, itself{0, 4};
    EXPECT_EQ((eagle_lists<std::int64_t>{parents, with_it, 2}(2)), 1);
    EXPECT_EQ((eagle_lists<std::int64_t>{parents, beyond, 2}(2)), none);
    EXPECT_EQ((eagle_lists<std::int64_t>{parents, negative, 2}(1)), none);
    std::vector<std::int64_t> const ring{-1, 0, 4};
    EXPECT_EQ((eagle_lists<std::int64_t>{ring, itself, 2}(2)), none);
}

struct masked {
    masked() : all(mt::random_trees({1, 7, 8, 9, 31, 64, 65, 130}, 3)) {}
    [[nodiscard]] bool attends(std::int32_t b, node_id v, node_id to) const {
        node_id up = v;
        while (up > to) up = all.parents[at(all.offsets[at(b)] + up)];
        return up == to;
    }
    mt::tree_arrays all;
    std::vector<std::int32_t> contexts{3, 0, 5, 100, 17, 1, 64, 33};
};

template <class Word>
void writes_words(std::int64_t row_words) {
    masked const m;
    auto trees = m.all.view();
    constexpr auto bits = static_cast<node_id>(8 * sizeof(Word));
    trees.requests = 0;
    while (trees.requests < 8 && m.all.view().size(trees.requests) <= row_words * bits) ++trees.requests;
    trees.nodes = trees.offsets[trees.requests];
    std::vector<Word> words(at(trees.nodes * row_words), static_cast<Word>(77));
    write_masks(host_threads(2), trees, words.data(), row_words);
    for (std::int32_t b = 0; b < trees.requests; ++b)
        for (node_id v = 0; v < trees.size(b); ++v)
            for (node_id j = 0; j < row_words * bits; ++j) {
                Word const word = words[at((trees.offsets[b] + v) * row_words + j / bits)];
                ASSERT_EQ((word >> (j % bits) & 1) != 0, j < trees.size(b) && m.attends(b, v, j)) << b << ' ' << v;
            }
    ++trees.requests;
    if (trees.requests <= 8) {
        trees.nodes = trees.offsets[trees.requests];
        EXPECT_THROW(write_masks(host_threads(1), trees, words.data(), row_words), invalid_input);
    }
}

TEST(engine_masks, have_words_of_1_2_4_and_8_bytes) {
    writes_words<std::uint8_t>(1);
    writes_words<std::uint16_t>(1);
    writes_words<std::uint32_t>(1);
    writes_words<std::uint32_t>(5);
    writes_words<std::uint64_t>(1);
    writes_words<std::uint8_t>(17);
}

template <class T>
void writes_ragged(T attends, T hidden) {
    masked const m;
    auto const trees = m.all.view();
    std::vector<std::int64_t> starts(9, -1);
    write_mask_starts(host_threads(1), trees, m.contexts.data(), 1, starts.data());
    std::vector<T> expected;
    for (std::int32_t b = 0; b < 8; ++b) {
        EXPECT_EQ(starts[at(b)], static_cast<std::int64_t>(expected.size()));
        for (node_id v = 0; v < trees.size(b); ++v) {
            expected.insert(expected.end(), at(m.contexts[at(b)]), attends);
            for (node_id j = 0; j < trees.size(b); ++j) expected.push_back(m.attends(b, v, j) ? attends : hidden);
        }
    }
    ASSERT_EQ(starts[8], static_cast<std::int64_t>(expected.size()));
    // Aligned and unaligned addresses: aligned runs are stored as a whole.
    for (std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
        std::vector<T> got(expected.size() + 2, T(9));
        write_ragged_masks(host_threads(2), trees,
                           ragged_masks<T>{got.data() + shift, starts[8], starts.data(), m.contexts.data()}, attends,
                           hidden);
        EXPECT_EQ(std::vector<T>(got.begin() + static_cast<std::ptrdiff_t>(shift),
                                 got.end() - 2 + static_cast<std::ptrdiff_t>(shift)),
                  expected);
        EXPECT_EQ(got[shift == 0 ? got.size() - 2 : 0], T(9));
    }
    std::vector<T> got(expected.size(), T(9));
    ragged_masks<T> out{got.data(), starts[8] + 1, starts.data(), m.contexts.data()};
    EXPECT_THROW(write_ragged_masks(host_threads(1), trees, out, attends, hidden), invalid_input);
    auto const bad = std::vector<std::int32_t>(8, -1);
    out = {got.data(), starts[8], starts.data(), bad.data()};
    EXPECT_THROW(write_ragged_masks(host_threads(1), trees, out, attends, hidden), invalid_input);
}

TEST(engine_masks, of_requests_without_nodes_are_empty) {
    std::vector<std::int64_t> const offsets{0, 2, 2, 3};
    std::vector<node_id> const parents{none, 0, none};
    std::vector<token_id> const tokens(3, 1);
    tree_batch const trees{3, 3, offsets.data(), parents.data(), tokens.data()};
    std::vector<std::int64_t> starts(4, -1);
    write_mask_starts(host_threads(1), trees, nullptr, 1, starts.data());
    EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 4, 4, 5}));
    std::vector<std::uint8_t> got(5, 9);
    write_ragged_masks(host_threads(1), trees, ragged_masks<std::uint8_t>{got.data(), 5, starts.data(), nullptr},
                       std::uint8_t{1}, std::uint8_t{0});
    EXPECT_EQ(got, (std::vector<std::uint8_t>{1, 0, 1, 1, 1}));
}

TEST(engine_masks, are_ragged_over_context_and_tree) {
    writes_ragged<std::uint8_t>(1, 0);
    writes_ragged<float>(0.0F, -1e30F);
}

TEST(engine_masks, are_ragged_bits) {
    masked const m;
    auto const trees = m.all.view();
    for (bool const with_contexts : {true, false}) {
        auto const* const contexts = with_contexts ? m.contexts.data() : nullptr;
        std::vector<std::int64_t> starts(9, -1);
        write_mask_starts(host_threads(1), trees, contexts, 8, starts.data());
        std::vector<std::uint8_t> expected;
        for (std::int32_t b = 0; b < 8; ++b) {
            EXPECT_EQ(starts[at(b)], static_cast<std::int64_t>(expected.size()));
            unsigned byte = 0, bits = 0;
            auto const push = [&](bool bit) {
                byte |= (bit ? 1U : 0U) << bits;
                if (++bits < 8) return;
                expected.push_back(static_cast<std::uint8_t>(byte));
                byte = bits = 0;
            };
            for (node_id v = 0; v < trees.size(b); ++v) {
                for (std::int32_t c = 0; with_contexts && c < m.contexts[at(b)]; ++c) push(true);
                for (node_id j = 0; j < trees.size(b); ++j) push(m.attends(b, v, j));
            }
            while (bits != 0) push(false);
        }
        ASSERT_EQ(starts[8], static_cast<std::int64_t>(expected.size()));
        std::vector<std::uint8_t> got(expected.size(), 77);
        write_ragged_bits(host_threads(2), trees, {got.data(), starts[8], starts.data(), contexts});
        EXPECT_EQ(got, expected);
    }
}

TEST(engine_masks, of_an_empty_batch_are_empty) {
    std::vector<std::int64_t> starts(1, -1);
    std::vector<std::uint64_t> words;
    std::vector<std::uint8_t> bytes;
    write_masks(host_threads(1), tree_batch{}, words.data(), 1);
    write_mask_starts(host_threads(1), tree_batch{}, nullptr, 1, starts.data());
    EXPECT_EQ(starts[0], 0);
    EXPECT_EQ(
        mt::refusal([&] { write_mask_starts(host_threads(1), tree_batch{.requests = -1}, nullptr, 1, starts.data()); }),
        "trees.requests = -1: a batch has 0 requests or more");
    write_ragged_bits(host_threads(1), tree_batch{}, {bytes.data(), 0, starts.data(), nullptr});
}

}  // namespace
}  // namespace engine_trees_test
