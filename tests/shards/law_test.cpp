// The exact law of the emitted tokens for rows in shards, by enumeration: every rank has a token with mass, and the
// ranges of ranks end inside of chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <vector>

#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/thread_ranks.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace law_test {
namespace {

/// The tokens with mass, one per chunk, and the size of the vocabulary.
constexpr token_id live[] = {7, 4100, 8192};
constexpr index_t tokens_with_mass = 3;
constexpr index_t vocabulary = 8193;
constexpr int ranks = 3;

/// The index of a token in `live`.
[[nodiscard]] index_t number_of(token_id x) {
    index_t k = 0;
    while (live[k] != x) ++k;
    return k;
}

/// Enumerates the draws among the tokens with mass.
struct source_of_live {
    enumerating_source& branches;

    template <class Real>
    [[nodiscard]] bool bernoulli(address a, Real numerator, Real denominator) {
        return branches.bernoulli(a, numerator, denominator);
    }
    template <group G, class Sums, class W>
    [[nodiscard]] index_t categorical(G const& g, Sums const& sums, index_t, W const& w, span<token_id const> taken,
                                      address a) {
        std::vector<token_id> numbers;
        for (token_id const x : taken) numbers.push_back(number_of(x));
        index_t const k = branches.categorical(
            g, sums, tokens_with_mass, [&w](index_t i) { return w(live[i]); }, span<token_id const>(numbers), a);
        return k == none ? none : live[k];
    }
    template <class Real>
    [[nodiscard]] Real uniform(address a) {
        return branches.uniform<Real>(a);
    }
};

/// Rows of logits for each context: the start, or the last token.
struct model {
    static constexpr std::size_t contexts = 1 + tokens_with_mass;
    std::vector<double> logits;

    explicit model(std::uint64_t seed) : logits(contexts * vocabulary, -std::numeric_limits<double>::infinity()) {
        test_numbers numbers(seed);
        for (std::size_t c = 0; c < contexts; ++c)
            for (token_id const x : live) logits[c * vocabulary + static_cast<std::size_t>(x)] = 1.5 * numbers.normal();
    }
    [[nodiscard]] row_view<double> row(std::size_t context) const {
        return {logits.data() + context * vocabulary, vocabulary};
    }
    [[nodiscard]] double probability(std::size_t context, index_t k) const {
        return process_logits(host_group{}, row(context), {}).row(live[k]);
    }
};

/// The rows of the nodes of a tree: processed in advance, one per context.
template <class Row>
struct rows_of_nodes {
    std::vector<Row> const* rows_by_context;
    std::vector<std::size_t> const* contexts;

    [[nodiscard]] index_t rows() const { return static_cast<index_t>(contexts->size()); }
    [[nodiscard]] index_t size() const { return vocabulary; }
    template <group G>
    [[nodiscard]] Row operator()(G const&, node_id v) const {
        return (*rows_by_context)[(*contexts)[static_cast<std::size_t>(v)]];
    }
};

/// The tree: a root with two children, which have one child each.
std::vector<node_id> const parents{none, 0, 0, 1, 2};
constexpr std::size_t text_length = 3;
constexpr std::size_t texts = 27;

/// The probabilities of all texts of three tokens.
using law_of_text = std::vector<double>;

/// Adds the probabilities of all continuations of a text under the target.
void complete(law_of_text& law, std::vector<std::vector<double>> const& target, std::size_t context, std::size_t length,
              std::size_t text, double chance) {
    if (length == text_length) {
        law[text] += chance;
        return;
    }
    for (std::size_t k = 0; k < tokens_with_mass; ++k)
        complete(law, target, 1 + k, length + 1, text * tokens_with_mass + k, chance * target[context][k]);
}

/// The law of the texts on one rank. `known_draft`: the draft's rows that the verifier reads.
template <class Sampler, class Verifier>
law_of_text law_on_rank(thread_rank& rank, model const& target, model const& draft, model const& known_draft) {
    shards::column_range const mine = columns_by(cut::even, vocabulary, ranks, rank.rank());
    shards::rank_team team(rank, mine);
    shards::shard_group const g(team);
    // The columns of this rank only.
    auto const columns_of = [&](model const& m) {
        std::vector<double> part;
        for (std::size_t c = 0; c < model::contexts; ++c) {
            auto const first = m.logits.begin() + static_cast<std::ptrdiff_t>(c * vocabulary);
            part.insert(part.end(), first + mine.begin, first + mine.end);
        }
        return part;
    };
    std::vector<double> const p_columns = columns_of(target);
    std::vector<double> const q_columns = columns_of(known_draft);
    shards::shard_batch<double> p_rows{p_columns.data(), mine.size(), vocabulary};
    shards::shard_batch<double> q_rows{q_columns.data(), mine.size(), vocabulary};
    q_rows.first_row = model::contexts;
    std::vector<std::int64_t> const contexts{0, 1, 2, 3};
    std::vector<std::byte> p_tails, q_tails;
    team.complete(shards::incomplete_rows<double, contiguous>{&p_rows, contexts, {}, &p_tails},
                  shards::incomplete_rows<double, contiguous>{&q_rows, contexts, {}, &q_tails});
    using row_in_shards = softmax_row<shards::shard_view<double>>;
    std::vector<row_in_shards> p, q;
    std::vector<softmax_row<row_view<double>>> drawn_from;
    std::vector<std::vector<double>> wanted(model::contexts);
    for (std::size_t c = 0; c < model::contexts; ++c) {
        p.push_back(process_logits(g, p_rows.view(static_cast<std::int64_t>(c)), {}).row);
        q.push_back(process_logits(g, q_rows.view(static_cast<std::int64_t>(c)), {}).row);
        drawn_from.push_back(process_logits(host_group{}, draft.row(c), {}).row);
        for (index_t k = 0; k < tokens_with_mass; ++k) wanted[c].push_back(target.probability(c, k));
    }
    law_of_text law(texts, 0.0);
    enumerate([&](enumerating_source& branches) {
        source_of_live source{branches};
        std::vector<token_id> tokens(parents.size(), 0);
        std::vector<index_t> certain(parents.size(), 0);
        std::vector<std::size_t> context(parents.size(), 0);
        tree_view const tree{parents, tokens};
        for (node_id v = 0; v < tree.size(); ++v) {
            auto const at = static_cast<std::size_t>(v);
            if (v > 0) context[at] = 1 + static_cast<std::size_t>(number_of(tokens[at]));
            node_range const children = tree.children(v);
            if (children.empty()) continue;
            auto const& row = drawn_from[context[at]];
            auto sums = host_group{}.sum_chunks(vocabulary, weight_of{row});
            auto const drawn =
                Sampler{}(host_group{}, row, sums, source, draw_site{5, v},
                          span<token_id>(tokens.data() + children.first, static_cast<std::size_t>(children.count)));
            certain[at] = drawn.certain;
        }
        std::vector<node_id> path(parents.size(), none);
        verify::scratch_memory memory;
        auto const scratch = memory.of(verify::scratch_bytes<Verifier>(tree.size(), 2));
        verdict const made = verify::verify_tree(Verifier{}, g, make_drafted<typename Sampler::law>(tree, certain),
                                                 target_rows(rows_of_nodes<row_in_shards>{&p, &context}),
                                                 draft_rows(rows_of_nodes<row_in_shards>{&q, &context}), source, 5,
                                                 span<node_id>(path), scratch);
        ASSERT_NE(made.next, none);
        std::size_t text = 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(made.accepted); ++k)
            text = text * tokens_with_mass + context[static_cast<std::size_t>(path[k])] - 1;
        auto const last = static_cast<std::size_t>(number_of(made.next));
        complete(law, wanted, 1 + last, static_cast<std::size_t>(made.accepted) + 1, text * tokens_with_mass + last,
                 branches.probability());
    });
    return law;
}

/// The largest difference from the target's law, over all texts and ranks.
template <class Sampler, class Verifier>
double distance(std::uint64_t seed, bool knows_draft = true) {
    model const target(seed);
    model const draft(seed + 1);
    law_of_text wanted(texts, 0.0);
    std::vector<std::vector<double>> rows(model::contexts);
    for (std::size_t c = 0; c < model::contexts; ++c)
        for (index_t k = 0; k < tokens_with_mass; ++k) rows[c].push_back(target.probability(c, k));
    complete(wanted, rows, 0, 0, 0, 1.0);
    double worst = 0;
    std::mutex one_at_a_time;
    run_ranks(ranks, [&](thread_rank& rank) {
        auto const law = law_on_rank<Sampler, Verifier>(rank, target, draft, knows_draft ? draft : target);
        std::scoped_lock const lock(one_at_a_time);
        for (std::size_t k = 0; k < law.size(); ++k) worst = std::max(worst, std::abs(law[k] - wanted[k]));
    });
    std::printf("    %.1e\n", worst);
    return worst;
}

TEST(shard_law, equals_that_of_the_target) {
    using namespace verify;
    constexpr double rounding = 1e-12;  // thousands of sums of doubles
    EXPECT_LT((distance<draft::sequential, naive<law::sequential>>(1)), rounding);
    EXPECT_LT((distance<draft::sequential, recursive_rejection<law::sequential>>(2)), rounding);
    EXPECT_LT((distance<draft::sequential, traversal<law::sequential>>(3)), rounding);
    EXPECT_LT((distance<draft::stratified, ranked_block<law::stratified>>(4)), rounding);
    EXPECT_LT((distance<draft::stratified, ranked_block<law::stratified>>(5)), rounding);
}

/// A verifier that reads another draft's rows is not lossless, and the test detects it.
TEST(shard_law, differs_for_another_draft) {
    EXPECT_GT((distance<draft::sequential, verify::recursive_rejection<law::sequential>>(2, false)), 1e-3);
}

}  // namespace
}  // namespace law_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
