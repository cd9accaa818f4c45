// Nodes with the same context share a row: which they are, what the target reads, and that no verdict changes.
#include "multidraft/tree/shared_contexts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/table_model.hpp"

namespace shared_contexts_test {
namespace {

using namespace multidraft;
using multidraft::testing::random_conditional;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

TEST(shared_contexts, of_a_tree_with_repeated_tokens) {
    // 0: 5; below it 1, 2, 1; below the first 1: 3, 4; below 2: 3; below the second 1: 4, 6; below their 4s: 7, 7.
    std::vector<node_id> const parents{-1, 0, 0, 0, 1, 1, 2, 3, 3, 5, 7};
    std::vector<token_id> const tokens{5, 1, 2, 1, 3, 4, 3, 4, 6, 7, 7};
    shared_contexts contexts;
    for (int step = 0; step < 2; ++step) {
        contexts.build({parents, tokens}, 20);
        EXPECT_EQ(contexts.size(), 8);
        EXPECT_EQ(std::vector<index_t>(contexts.entries().begin(), contexts.entries().end()),
                  (std::vector<index_t>{0, 1, 2, 1, 3, 4, 5, 4, 6, 7, 7}));
        EXPECT_EQ(std::vector<node_id>(contexts.nodes().begin(), contexts.nodes().end()),
                  (std::vector<node_id>{0, 1, 2, 4, 5, 6, 8, 9}));
        EXPECT_EQ(std::vector<index_t>(contexts.parents().begin(), contexts.parents().end()),
                  (std::vector<index_t>{-1, 0, 0, 1, 1, 2, 1, 4}));
        EXPECT_EQ(std::vector<token_id>(contexts.tokens().begin(), contexts.tokens().end()),
                  (std::vector<token_id>{5, 1, 2, 3, 4, 3, 6, 7}));
        EXPECT_EQ(contexts.positions()[7], 23);
        EXPECT_TRUE(contexts.mask()(6, 1) && contexts.mask()(6, 6) && contexts.mask()(6, 0) && !contexts.mask()(6, 4));
        std::vector<node_id> const path{0, 3, 7, 10};
        auto const kept = contexts.entries_of(path);
        EXPECT_EQ(std::vector<index_t>(kept.begin(), kept.end()), (std::vector<index_t>{0, 1, 4, 7}));
    }
}

TEST(shared_contexts, refuses_what_is_no_tree) {
    shared_contexts contexts;
    std::vector<node_id> const parents{-1, 0};
    std::vector<token_id> const tokens{1, 2};
    std::vector<node_id> const none_of_it{-1, 1};
    std::vector<token_id> const one{1};
    std::vector<node_id> const far{2};
    EXPECT_THROW(contexts.build({none_of_it, tokens}, 0), invalid_input);
    EXPECT_THROW(contexts.build({parents, one}, 0), invalid_input);
    EXPECT_THROW(contexts.build({parents, tokens}, -1), invalid_input);
    EXPECT_THROW(contexts.build({parents, tokens}, 2147483647), invalid_input);
    contexts.build({parents, tokens}, 2147483646);
    EXPECT_THROW((void)contexts.entries_of(far), invalid_input);
}

/// The verdicts of a tree over shared rows are those over one row per node, bit for bit.
template <class Verifier>
void expect_the_same_verdicts() {
    constexpr index_t vocabulary = 5;
    auto const p = random_conditional(vocabulary, 1);
    auto const q = random_conditional(vocabulary, 2);
    host_group const g;
    shared_contexts contexts;
    draft::tree_growth<law::iid> tree;
    topology const shape = branching({3, 2, 2});
    std::int64_t saved = 0;
    std::int64_t accepted = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        tree.start(1, 9, shape);
        std::vector<float> of_p, of_q;
        auto const text_of = [&](node_id v) {
            std::vector<token_id> text;
            for (; v != none; v = tree.parents()[at(v)]) text.insert(text.begin(), tree.tokens()[at(v)]);
            return text;
        };
        auto const row_of = [&](auto const& law, node_id v, std::vector<float>& rows) {
            for (double const x : law(text_of(v))) rows.push_back(static_cast<float>(x));
        };
        for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
            std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
            for (node_id const v : nodes) {
                row_of(q, v, of_q);
                auto sampled = process_logits(g, row_view<float>(of_q.data() + at(v) * at(vocabulary), vocabulary), {});
                tree.draw(v, draft::iid{}, sampled.row, sampled.sums, source);
            }
        }
        for (node_id v = 0; v < tree.size(); ++v) row_of(p, v, of_p);
        auto const drafts = tree.drafts();
        contexts.build(drafts.tree, 9);
        std::vector<float> shared;
        for (node_id const v : contexts.nodes()) row_of(p, v, shared);
        saved += tree.size() - contexts.size();

        logit_rows<float> const rows({of_p.data(), tree.size(), vocabulary}, {});
        logit_rows<float> const few({shared.data(), contexts.size(), vocabulary}, {});
        indexed_rows const by_entry(few, contexts.entries());
        logit_rows<float> const read({of_q.data(), static_cast<index_t>(of_q.size()) / vocabulary, vocabulary}, {});
        indexed_rows const by_node(read, tree.row_of_node());
        std::vector<node_id> path(3), other(3);
        std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(tree.size(), 3));
        auto const a = verify::verify_tree(Verifier{}, g, drafts, target_rows(rows), draft_rows(read), source, 9,
                                           span<node_id>(path), span<std::byte>(scratch));
        auto const b = verify::verify_tree(Verifier{}, g, drafts, target_rows(by_entry), draft_rows(by_node), source, 9,
                                           span<node_id>(other), span<std::byte>(scratch));
        EXPECT_EQ(a.accepted, b.accepted);
        EXPECT_EQ(a.next, b.next);
        EXPECT_EQ(path, other);
        accepted += a.accepted;
    }
    EXPECT_GT(saved, 500);
    EXPECT_GT(accepted, 100);
}

TEST(shared_contexts, no_verdict_changes) {
    expect_the_same_verdicts<verify::recursive_rejection<law::iid>>();
    expect_the_same_verdicts<verify::traversal<law::iid>>();
}

}  // namespace
}  // namespace shared_contexts_test
