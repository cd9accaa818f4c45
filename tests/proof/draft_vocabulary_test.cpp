// Drafts with a smaller vocabulary, whose tokens are numbered in another order than the target's: exact laws where the
// draft's most likely tokens are tied, and the noise of shared randomness.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/widened_row.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/verifier.hpp"

namespace draft_vocabulary_test {

using namespace multidraft;
namespace mt = multidraft::testing;
using numbers = std::vector<double>;
using tokens = std::vector<token_id>;

/// The law of the first token after a root with two children, drawn from q over the draft's vocabulary.
template <class Sampler, class Verifier>
numbers law_of_first_token(numbers const& p, numbers const& q, tokens const& token_of) {
    constexpr host_group g;
    auto const vocabulary = static_cast<index_t>(p.size());
    std::vector<index_t> draft_of(p.size());
    invert_vocabulary(token_of, draft_of);
    numbers law(p.size(), 0.0);
    mt::enumerate([&](mt::enumerating_source& source) {
        probabilities<double> const row(q.data(), static_cast<index_t>(q.size()));
        tokens children(2, none);
        drawn_children const drawn = Sampler{}(g, row, g.sum_chunks(row.size(), weight_of{row}), source,
                                               draw_site{0, 0}, span<token_id>(children));
        std::vector<node_id> parents{none};
        tokens of_nodes{0};
        std::vector<index_t> certain{drawn.certain};
        for (index_t k = 0; k < drawn.count; ++k) {
            parents.push_back(0);
            of_nodes.push_back(token_of[static_cast<std::size_t>(children[static_cast<std::size_t>(k)])]);
            certain.push_back(0);
        }
        auto const nodes = static_cast<index_t>(parents.size());
        numbers of_target;
        numbers of_draft;
        for (index_t v = 0; v < nodes; ++v) {
            of_target.insert(of_target.end(), p.begin(), p.end());
            of_draft.insert(of_draft.end(), q.begin(), q.end());
        }
        probability_rows<double> const target(of_target.data(), nodes, vocabulary);
        probability_rows<double> const draft(of_draft.data(), nodes, static_cast<index_t>(q.size()));
        auto const widened = widened_rows(draft, vocabulary_map{draft_of.data(), vocabulary});
        std::vector<node_id> path(parents.size());
        verify::scratch_memory memory;
        verdict const v = verify::verify_tree(
            Verifier{}, g,
            make_drafted<typename Sampler::law>(tree_view{parents, of_nodes}, span<index_t const>(certain)),
            target_rows(target), draft_rows(widened), source, 0, span<node_id>(path),
            memory.of(verify::scratch_bytes<Verifier>(nodes, 1)));
        token_id const emitted = v.accepted > 0 ? of_nodes[static_cast<std::size_t>(path[0])] : v.next;
        ASSERT_GE(emitted, 0);
        law[static_cast<std::size_t>(emitted)] += source.probability();
    });
    return law;
}

template <class Sampler, class Verifier>
void expect_the_target() {
    numbers const p{0.6, 0.2, 0.1, 0.1};
    for (tokens const& token_of : {tokens{0, 1, 2}, tokens{2, 1, 0}, tokens{1, 2, 3}, tokens{3, 0, 2}})
        for (numbers const& q : {numbers{1. / 3, 1. / 3, 1. / 3}, numbers{0.4, 0.4, 0.2}, numbers{0.5, 0.3, 0.2}}) {
            SCOPED_TRACE("draft " + std::to_string(q[0]) + ", its first token is " + std::to_string(token_of[0]));
            numbers const law = law_of_first_token<Sampler, Verifier>(p, q, token_of);
            for (std::size_t x = 0; x < p.size(); ++x) EXPECT_NEAR(law[x], p[x], 1e-12) << "token " << x;
        }
}

TEST(draft_vocabulary, spec_hub_is_lossless_in_any_order_of_tied_tokens) {
    expect_the_target<draft::top_paired, verify::spec_hub<law::top_paired>>();
}

TEST(draft_vocabulary, greedy_optimal_is_lossless_in_any_order_of_tied_tokens) {
    expect_the_target<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>();
}

TEST(draft_vocabulary, ranked_is_lossless_in_any_order_of_tied_tokens) {
    expect_the_target<draft::stratified, verify::ranked<law::stratified>>();
}

TEST(draft_vocabulary, shared_randomness_accepts_where_draft_and_target_agree) {
    constexpr index_t vocabulary = 100;
    constexpr index_t small = 90;
    host_threads const pool(1);
    for (auto const& [begin, from] : {std::pair{0, 0}, std::pair{10, 0}, std::pair{1, 5}}) {
        tokens token_of;
        for (index_t k = 0; k < small; ++k) token_of.push_back(k < from ? k : k + begin);
        std::vector<float> p(vocabulary, -60.0F);
        std::vector<float> q(small);
        for (index_t k = 0; k < small; ++k) {
            q[static_cast<std::size_t>(k)] = 0.3F * static_cast<float>(k * 37 % 11);
            p[static_cast<std::size_t>(token_of[static_cast<std::size_t>(k)])] = q[static_cast<std::size_t>(k)];
        }
        int accepted = 0;
        constexpr int steps = 1000;
        for (std::uint64_t seed = 0; seed < steps; ++seed) {
            std::int32_t const position = 3;
            std::int32_t const request = 0;
            std::int32_t const wanted = 1;
            std::int32_t const depth = 0;
            node_id const node = 0;
            std::int64_t const first = 1;
            std::int64_t const row = 0;
            tokens of_nodes{0, none};
            request_batch const requests{&seed, &position};
            children_batch children;
            children.tokens = of_nodes.data();
            children.first = &first;
            children.token_of = token_of.data();
            draft_batch(pool, draft::shared_randomness{}, level_batch{1, &request, &node, &wanted, &depth},
                        draft_rows(logit_batch<float>{q.data(), small, small, &row}), requests, children);
            std::vector<std::int64_t> const offsets{0, 2};
            std::vector<node_id> const parents{none, 0};
            std::vector<std::int64_t> const rows{0, 0};
            std::vector<node_id> path(2);
            std::int32_t of_path = 0;
            token_id next = none;
            verify_batch(
                pool, verify::shared_randomness{},
                drawn_by<law::shared_randomness>(tree_batch{1, 2, offsets.data(), parents.data(), of_nodes.data()}),
                target_rows(logit_batch<float>{p.data(), vocabulary, vocabulary, rows.data()}),
                draft_rows(verify::no_draft_rows{}), requests, verdict_batch{path.data(), 0, &of_path, &next});
            accepted += of_path;
        }
        EXPECT_EQ(accepted, steps);
    }
}

}  // namespace draft_vocabulary_test
