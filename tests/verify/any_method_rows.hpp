// Any method against its sampler and its verifier: the same trees, verdicts and paths, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/methods/any_method.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shapes.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

inline constexpr index_t any_vocabulary = 37;
inline constexpr std::int64_t any_stride = 40;

/// A shape of up to that many nodes that a method accepts.
inline topology any_shape(allowed_trees trees, std::uint64_t seed, node_id most = 12) {
    addressed_uniforms const u(seed, 77);
    auto const below = [&](std::int32_t n, index_t k) {
        return static_cast<std::int32_t>(u.uniform<double>({0, 0, purpose::test, k}) * n);
    };
    if (trees == allowed_trees::chains) return chain(below(5, 0));
    if (trees == allowed_trees::forks) return fork(1 + below(3, 0), 1 + below(3, 1));
    std::vector<node_id> parents{none};
    node_id parent = 0;
    std::int32_t children = 0;
    auto const nodes = 1 + below(most, 0);
    for (node_id v = 1; v < nodes; ++v) {
        node_id const next = parent + below(v - parent, v);
        bool const full = next == parent && trees == allowed_trees::pairs && children == 2;
        node_id const up = full ? parent + 1 : next;
        if (up >= v) break;
        children = up == parent ? children + 1 : 1;
        parent = up;
        parents.push_back(parent);
    }
    return topology::from_parents(parents);
}

/// Rows of random numbers, one per node, with padding: functions of the text up to the node, as those of a model.
template <class T, bool Probabilities>
struct any_rows {
    std::vector<T> values;
    index_t nodes;
    sampling_params w;
    addressed_uniforms numbers;

    any_rows(node_id n, sampling_params const& of, std::uint64_t seed)
        : values(static_cast<std::size_t>(any_stride * n), T(0.0F)), nodes(n), w(of), numbers(seed, 78) {}

    /// Writes the row of node v, whose text is known by this number.
    void fill(node_id v, std::int32_t number) {
        std::vector<double> row(static_cast<std::size_t>(any_vocabulary));
        double sum = 0;
        for (index_t i = 0; i < any_vocabulary; ++i) {
            double const x = 4 * numbers.uniform<double>({number, 0, purpose::test, i});
            row[static_cast<std::size_t>(i)] = Probabilities ? (x < 1 ? 0.0 : x * x) : x;
            sum += row[static_cast<std::size_t>(i)];
        }
        for (index_t i = 0; i < any_vocabulary; ++i)
            values[static_cast<std::size_t>(v * any_stride + i)] =
                T(static_cast<float>(row[static_cast<std::size_t>(i)] / (Probabilities ? sum : 1.0)));
    }
    [[nodiscard]] auto rows() const {
        rows_view<T> const view(values.data(), nodes, any_vocabulary, any_stride);
        if constexpr (Probabilities)
            return probability_rows<T>(view);
        else
            return logit_rows<T>(view, w);
    }
    [[nodiscard]] drawn_children draw(auto const& method, node_id row, draw_key const& key, parent_node const& at,
                                      span<token_id> out) const {
        row_view<T> const view = rows_view<T>(values.data(), nodes, any_vocabulary, any_stride)(row);
        if constexpr (Probabilities)
            return method.draw(probabilities<T>(view), key, at, out);
        else
            return method.draw(view, w, key, at, out);
    }
    /// By the sampler itself.
    template <class Sampler>
    [[nodiscard]] drawn_children draw(Sampler const& sampler, node_id row, addressed_source& source, draw_site site,
                                      span<token_id> out) const {
        host_group const g;
        row_view<T> const view = rows_view<T>(values.data(), nodes, any_vocabulary, any_stride)(row);
        if constexpr (Probabilities) {
            probabilities<T> const q(view);
            auto sums = g.sum_chunks(any_vocabulary, weight_of{q});
            return sampler(g, q, sums, source, site, out);
        } else {
            auto q = process_logits(g, view, w);
            return sampler(g, q.row, q.sums, source, site, out);
        }
    }
};

struct any_tree {
    std::vector<node_id> parents{none};
    std::vector<token_id> tokens{0};
    std::vector<index_t> certain{};
    std::vector<std::int32_t> depths{0};
    std::vector<std::int32_t> texts{1};  ///< a number for the text up to each node

    friend bool operator==(any_tree const&, any_tree const&) = default;
};

/// The tree of a shape as far as `draw(node, depth, wanted)` gives children; `fill(node, number)` comes before, for
/// all.
template <class Fill, class Draw>
any_tree grow(topology const& wanted, Fill const& fill, Draw const& draw) {
    any_tree tree;
    std::vector<node_id> like{0};
    for (std::size_t v = 0; v < like.size(); ++v) {
        std::vector<token_id> out(static_cast<std::size_t>(wanted.child_count(like[v])), -9);
        drawn_children drawn;
        fill(static_cast<node_id>(v), tree.texts[v]);
        if (!out.empty()) drawn = draw(static_cast<node_id>(v), tree.depths[v], out);
        tree.certain.push_back(drawn.certain);
        for (index_t k = 0; k < drawn.count; ++k) {
            tree.parents.push_back(static_cast<node_id>(v));
            tree.tokens.push_back(out[static_cast<std::size_t>(k)]);
            tree.depths.push_back(tree.depths[v] + 1);
            tree.texts.push_back(static_cast<std::int32_t>(
                (static_cast<std::uint32_t>(tree.texts[v]) * 31U + static_cast<std::uint32_t>(tree.tokens.back())) &
                0x7fffffffU));
            like.push_back(wanted.first_child(like[v]) + k);
        }
    }
    return tree;
}

inline std::vector<sampling_params> const any_warps{
    {}, {.temperature = 0.0F}, {.temperature = 0.5F, .top_k = 2}, {.top_k = 9, .top_p = 0.8F}, {.min_p = 0.3F}};

/// Memory aligned to 16 bytes, with arbitrary content.
struct garbage {
    explicit garbage(std::size_t bytes) : blocks(bytes / 16 + 1), size(bytes) {
        for (auto& one : blocks)
            for (auto& byte : one.bytes) byte = std::byte{0xa7};
    }
    struct alignas(16) block {
        std::byte bytes[16];
    };
    [[nodiscard]] span<std::byte> bytes() { return {blocks[0].bytes, size}; }
    std::vector<block> blocks;
    std::size_t size;
};

/// Draws and verifies trees by `method`, and by the sampler and verifier of `Listed`; `of_target` and `of_draft` are
/// kinds of `any_rows`.
template <class Listed, class OfTarget, class OfDraft, class AnyMethod>
void expect_the_same(AnyMethod const& method, std::uint64_t seeds) {
    using law = typename Listed::law;
    using sampler = typename Listed::sampler;
    using verifier = typename Listed::verifier;
    constexpr bool several = std::is_same_v<law, multidraft::law::independent>;
    method_memory<decltype(std::declval<OfTarget>().rows()), decltype(std::declval<OfDraft>().rows())> memory;
    std::int64_t accepted = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        topology const wanted = any_shape(Listed::trees, seed);
        sampling_params const& w = any_warps[seed % any_warps.size()];
        draw_key const key{seed, static_cast<std::uint32_t>(seed % 3), static_cast<std::int32_t>(5 + seed)};
        OfTarget target(wanted.size(), w, 2 * seed);
        // A draft near the target, another one, and a second model.
        std::vector<OfDraft> models{OfDraft(wanted.size(), w, 2 * seed + seed % 2),
                                    OfDraft(wanted.size(), w, 3 * seed + 1)};
        OfDraft const& draft = models[0];

        auto const fill = [&](node_id v, std::int32_t number) {
            target.fill(v, number);
            for (OfDraft& model : models) model.fill(v, number);
        };
        any_tree const mine = grow(wanted, fill, [&](node_id v, std::int32_t depth, span<token_id> out) {
            if constexpr (several) {
                for (std::size_t k = 0; k < out.size(); ++k) {
                    drawn_children const one =
                        models[k % 2].draw(method, v, key, {v, depth, static_cast<index_t>(k)}, out.subspan(k, 1));
                    if (one.count == 0) return drawn_children{static_cast<index_t>(k)};
                }
                return drawn_children{static_cast<index_t>(out.size())};
            } else {
                return draft.draw(method, v, key, {v, depth}, out);
            }
        });
        addressed_source source{addressed_uniforms(key.seed, key.request)};
        any_tree const theirs = grow(wanted, fill, [&](node_id v, std::int32_t depth, span<token_id> out) {
            constexpr bool by_text = sampler::law::traits.addressed_by_text;
            draw_site const site{key.position + (by_text ? depth : 0), v};
            if constexpr (several) {  // child k: the k-th of several draws from the row of its own model
                std::vector<token_id> all(out.size());
                for (std::size_t k = 0; k < out.size(); ++k) {
                    auto const drawn = models[k % 2].draw(sampler{}, v, source, site, span<token_id>(all));
                    if (drawn.count <= static_cast<index_t>(k)) return drawn_children{static_cast<index_t>(k)};
                    out[k] = all[k];
                }
                return drawn_children{static_cast<index_t>(out.size())};
            } else {
                return draft.draw(sampler{}, v, source, site, out);
            }
        });
        std::string const what = std::string(Listed::name) + ", seed " + std::to_string(seed);
        ASSERT_EQ(mine, theirs) << what;

        auto const nodes = static_cast<node_id>(mine.parents.size());
        std::int32_t const depth = mine.depths.back();
        tree_view const tree{mine.parents, mine.tokens};
        std::size_t const bytes = verify::scratch_bytes<verifier>(nodes, depth);
        ASSERT_EQ(method.scratch_bytes(nodes, depth), bytes) << what;
        garbage scratch(bytes);
        std::vector<node_id> path(static_cast<std::size_t>(depth) + 2, -7);
        std::vector<node_id> expected_path = path;
        std::vector<node_id> path_in_memory = path;
        auto const p = target.rows();
        auto const q = draft.rows();
        std::vector const all{models[0].rows(), models[1].rows()};
        verdict expected;
        if constexpr (several)
            expected = verify::verify_tree(verifier{}, host_group{}, make_drafted<law>(tree, mine.certain),
                                           target_rows(p), draft_rows(rows_of_models<std::decay_t<decltype(q)>>(all)),
                                           source, key.position, span<node_id>(expected_path), scratch.bytes());
        else
            expected =
                verify::verify_tree(verifier{}, host_group{}, make_drafted<law>(tree, mine.certain), target_rows(p),
                                    draft_rows(q), source, key.position, span<node_id>(expected_path), scratch.bytes());
        any_drafted const drafts{tree, mine.certain, method.law_name()};
        garbage again(bytes);
        verdict got;
        if constexpr (several)
            got = method.verify(drafts, target_rows(p), draft_rows(span<std::decay_t<decltype(q)> const>(all)), key,
                                path, again.bytes());
        else
            got = method.verify(drafts, target_rows(p), draft_rows(q), key, path, again.bytes());
        ASSERT_EQ(got.accepted, expected.accepted) << what;
        ASSERT_EQ(got.next, expected.next) << what;
        ASSERT_EQ(path, expected_path) << what;
        accepted += got.accepted;
        if (!several) {
            got = method.verify(drafts, target_rows(p), draft_rows(q), key, path_in_memory, memory);
            ASSERT_EQ(got.accepted, expected.accepted) << what;
            ASSERT_EQ(got.next, expected.next) << what;
            ASSERT_EQ(path_in_memory, expected_path) << what;
        }
        std::vector<node_id> path_unread(path.size(), -7);
        if (method.reads_draft()) {
            EXPECT_THROW(static_cast<void>(method.verify(drafts, target_rows(p), draft_rows(verify::no_draft_rows{}),
                                                         key, path_unread, again.bytes())),
                         invalid_input)
                << what;
            EXPECT_EQ(path_unread, std::vector<node_id>(path.size(), -7)) << what;
        } else {
            got = method.verify(drafts, target_rows(p), draft_rows(verify::no_draft_rows{}), key, path_unread,
                                again.bytes());
            ASSERT_EQ(got.next, expected.next) << what;
            ASSERT_EQ(path_unread, expected_path) << what;
        }
    }
    EXPECT_GT(accepted, 0) << Listed::name << ": no seed accepts anything";
}

/// The same of all methods of a list.
template <class List, class OfTarget, class OfDraft>
void expect_all_the_same(std::uint64_t seeds) {
    List::for_each([&](auto listed) {
        using method = decltype(listed);
        expect_the_same<method, OfTarget, OfDraft>(any_method_of<List>::parse(method::name), seeds);
    });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
