// The result of a step: where the text ends, which nodes are kept, the log-probabilities.
#include "multidraft/decode/accepted_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace accepted_text_test {
namespace {

using namespace multidraft;
using multidraft::testing::random_conditional;
using multidraft::testing::refusal;
using multidraft::testing::table_model;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

template <class T>
std::vector<std::int32_t> list(T const& numbers) {
    return {numbers.begin(), numbers.end()};
}

struct step {
    std::vector<node_id> parents{-1, 0, 0, 1, 2, 4};
    std::vector<token_id> tokens{9, 4, 5, 6, 7, 8};
    std::vector<node_id> path{2, 4, 5, 0};
    [[nodiscard]] tree_view tree() const { return {parents, tokens}; }
};

TEST(accepted_text, tokens_and_nodes) {
    step const s;
    accepted_text out(s.tree(), s.path, {3, 1});
    EXPECT_EQ(list(out.tokens()), (std::vector<std::int32_t>{5, 7, 8, 1}));
    EXPECT_EQ(list(out.nodes()), (std::vector<std::int32_t>{0, 2, 4, 5}));
    EXPECT_FALSE(out.ended());
    out.assign(s.tree(), s.path, {0, 3});
    EXPECT_EQ(list(out.tokens()), (std::vector<std::int32_t>{3}));
    EXPECT_EQ(list(out.nodes()), (std::vector<std::int32_t>{0}));
}

TEST(accepted_text, ends) {
    step const s;
    std::vector<token_id> const stop{7, 1};
    accepted_text out;
    auto const with = [&](std::int32_t left, span<token_id const> stops) {
        out.assign(s.tree(), s.path, {3, 1}, {left, stops});
        EXPECT_EQ(out.tokens().size(), out.nodes().size());
        return out.count();
    };
    EXPECT_EQ(with(9, stop), 2) << "inside of the accepted path";
    EXPECT_EQ(out.end(), stop_reason::stop_token);
    EXPECT_EQ(list(out.nodes()), (std::vector<std::int32_t>{0, 2}));
    EXPECT_EQ(with(2, stop), 2) << "both ends at once: as the loops say";
    EXPECT_EQ(out.end(), stop_reason::stop_token);
    EXPECT_EQ(with(1, stop), 1);
    EXPECT_EQ(out.end(), stop_reason::max_tokens);
    EXPECT_EQ(with(4, {}), 4) << "the last token that may be emitted";
    EXPECT_EQ(out.end(), stop_reason::max_tokens);
    EXPECT_EQ(with(5, {}), 4);
    EXPECT_FALSE(out.ended());
    EXPECT_EQ(with(5, span<token_id const>(stop).subspan(1)), 4) << "the token behind the path";
    EXPECT_EQ(out.end(), stop_reason::stop_token);
    EXPECT_EQ(with(0, {}), 0);
    EXPECT_EQ(out.end(), stop_reason::max_tokens);
    EXPECT_TRUE(out.nodes().empty());
    with(9, {});
    out.truncate(3);
    EXPECT_EQ(list(out.tokens()), (std::vector<std::int32_t>{5, 7, 8}));
    EXPECT_EQ(list(out.nodes()), (std::vector<std::int32_t>{0, 2, 4}));
    EXPECT_EQ(out.end(), stop_reason::callback);
}

TEST(accepted_text, refuses_verdicts_that_are_none) {
    step s;
    accepted_text out(s.tree(), s.path, {1, 3});
    EXPECT_EQ(refusal([&] {
                  out.assign(s.tree(), s.path, {1, none});
              }),
              "verdict.next = -1: the verdict has no token: a row was no distribution");
    EXPECT_EQ(refusal([&] { out.assign(s.tree(), s.path, {5, 3}); }), "verdict.accepted = 5: the path has 4 nodes");
    EXPECT_EQ(refusal([&] {
                  out.assign(s.tree(), s.path, {4, 3});
              }),
              "path[3] = 0: a path goes from a node to a child of it");
    s.path[1] = 3;
    EXPECT_EQ(refusal([&] {
                  out.assign(s.tree(), s.path, {2, 3});
              }),
              "path[1] = 3: a path goes from a node to a child of it");
    s.path[0] = 6;
    EXPECT_EQ(refusal([&] {
                  out.assign(s.tree(), s.path, {1, 3});
              }),
              "path[0] = 6: a path goes from a node to a child of it");
    EXPECT_EQ(refusal([&] {
                  out.assign(s.tree(), s.path, {0, 3}, {-1});
              }),
              "limits.max_tokens = -1: the number of tokens is 0 or larger");
    EXPECT_EQ(refusal([&] { out.truncate(3); }), "count = 3: the step has 2 tokens");
    EXPECT_EQ(list(out.tokens()), (std::vector<std::int32_t>{5, 3})) << "nothing was changed";
}

TEST(accepted_text, log_probabilities) {
    step const s;
    accepted_text const out(s.tree(), s.path, {2, 1});
    constexpr index_t vocabulary = 9;
    std::vector<float> logits;
    for (int i = 0; i < 6 * vocabulary; ++i) logits.push_back(static_cast<float>((i * 29) % 17) * 0.3F);
    logits[4 * vocabulary + 1] = -200;  // a probability that no float has
    rows_view<float> const view(logits.data(), 6, vocabulary);
    std::vector<double> found(3);
    for (sampling_params const& w : {sampling_params{}, {.temperature = 0.5F}, {.temperature = 2, .top_k = 8}}) {
        out.write_log_probabilities(logit_rows<float>(view, w), found);
        for (std::size_t k = 0; k < 3; ++k) {
            float const* const row = logits.data() + at(out.nodes()[k]) * at(vocabulary);
            long double sum = 0;
            float least = std::numeric_limits<float>::infinity();
            for (index_t i = 0; i < vocabulary; ++i) least = std::min(least, row[i]);
            for (index_t i = 0; i < vocabulary; ++i)
                if (w.top_k == 0 || row[i] > least)
                    sum += std::exp(static_cast<long double>(row[i]) / static_cast<long double>(w.temperature));
            auto const wanted = static_cast<double>(static_cast<long double>(row[out.tokens()[k]]) /
                                                        static_cast<long double>(w.temperature) -
                                                    std::log(sum));
            if (w.top_k > 0 && !(row[out.tokens()[k]] > least))
                EXPECT_EQ(found[k], -std::numeric_limits<double>::infinity());
            else
                EXPECT_NEAR(found[k], wanted, 1e-6 * (1 + std::abs(wanted)));
        }
    }
    out.write_log_probabilities(logit_rows<float>(view, {.temperature = 0}), found);
    for (double const x : found) EXPECT_TRUE(x == 0 || x == -std::numeric_limits<double>::infinity());

    std::vector<double> const p{0.25, 0.75, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_EQ(log_probability(probabilities<double>(p.data(), 9), 1), std::log(0.75));
    EXPECT_EQ(log_probability(probabilities<double>(p.data(), 9), 2), -std::numeric_limits<double>::infinity());

    EXPECT_EQ(refusal([&] { out.write_log_probabilities(logit_rows<float>(view, {}), span<double>(found).first(2)); }),
              "out.size = 2: 3 tokens count");
    rows_view<float> const few(logits.data(), 4, vocabulary);
    EXPECT_EQ(refusal([&] { out.write_log_probabilities(logit_rows<float>(few, {}), found); }),
              "rows.rows = 4: there is one row per node");
    rows_view<float> const narrow(logits.data(), 6, 6);
    EXPECT_EQ(refusal([&] { out.write_log_probabilities(logit_rows<float>(narrow, {}), found); }),
              "tokens[1] = 7: a token is in the rows' vocabulary");
}

/// A whole generation by the pieces - growth, masks, verdict, this, compaction - is that of the loop: its tokens, its
/// end and its caches.
TEST(accepted_text, a_generation_of_ones_own_is_the_loops) {
    constexpr std::int32_t vocabulary = 12;
    using verifier = verify::recursive_rejection<law::sequential>;
    topology const shape = branching({2, 2, 1});
    std::vector<token_id> const prompt{1, 2, 3};
    auto const p = random_conditional(vocabulary, 3, 2);
    auto const q = random_conditional(vocabulary, 4, 2, 3);
    int stopped = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        generation_options options;
        options.max_tokens = 20;
        options.stop_tokens = {5};
        options.seed = seed;
        options.sampling = {.temperature = 0.9F, .top_k = 10};
        table_model<float> target(vocabulary, p);
        table_model<float> drafting(vocabulary, q);
        auto loop = make_speculative<draft::sequential, verifier>(target, drafting, shape);
        auto const expected = loop(prompt, options);

        table_model<float> mine(vocabulary, p);
        table_model<float> my_draft(vocabulary, q);
        host_group const g;
        addressed_source source{addressed_uniforms(seed)};
        draft::tree_growth<law::sequential> tree;
        accepted_text out;
        std::vector<token_id> text = prompt;
        std::vector<float> logits, draft_logits;
        auto const left = [&] { return 20 - static_cast<std::int32_t>(text.size() - prompt.size()); };
        while (!out.ended()) {
            auto const position = static_cast<std::int32_t>(text.size()) - 1;
            // Both models have read the text up to its root; the draft reads further nodes that it has not read yet.
            for (table_model<float>* model : {&mine, &my_draft}) {
                std::vector<token_id> const rest(text.begin() + model->length(), text.begin() + position);
                std::vector<std::int32_t> places;
                for (std::int32_t i = model->length(); i < position; ++i) places.push_back(i);
                if (!rest.empty()) model->forward({rest, places, model->length(), {}}, {});
            }
            tree.start(text.back(), position, shape, std::min(3, left() - 1));
            draft_logits.clear();
            draft_logits.reserve(at(shape.size()) * at(vocabulary));
            for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
                draft_logits.resize(draft_logits.size() + in.size() * at(vocabulary));
                my_draft.forward({in.tokens, in.positions, position, in.mask},
                                 std::span<float>(draft_logits).subspan(at(in.first_row) * at(vocabulary)));
                for (std::size_t k = 0; k < in.size(); ++k) {
                    std::size_t const row = at(in.first_row) + k;
                    auto sampled = process_logits(
                        g, row_view<float>(draft_logits.data() + row * at(vocabulary), vocabulary), options.sampling);
                    tree.draw(in.nodes[k], draft::sequential{}, sampled.row, sampled.sums, source);
                }
            }
            logits.assign(at(tree.size()) * at(vocabulary), 0.0F);
            mine.forward({tree.tokens(), tree.positions(), position, tree.mask()}, logits);
            logit_rows<float> const rows({logits.data(), tree.size(), vocabulary}, options.sampling);
            logit_rows<float> const of_draft(
                {draft_logits.data(), static_cast<index_t>(draft_logits.size()) / vocabulary, vocabulary},
                options.sampling);
            std::vector<node_id> path(3);
            auto const drafts = verify::drafts_for(verifier{}, tree);
            auto const v =
                verifier{}(g, drafts, target_rows(rows), draft_rows(indexed_rows(of_draft, tree.row_of_node())), source,
                           position, span<node_id>(path));
            out.assign(drafts.tree, path, v, {left(), options.stop_tokens});
            std::vector<double> logs(at(out.count()));
            out.write_log_probabilities(rows, logs);
            for (double const x : logs) EXPECT_TRUE(x <= 0 && x > -50);
            text.insert(text.end(), out.tokens().begin(), out.tokens().end());
            mine.keep(position, out.nodes());
            my_draft.keep(position, tree.draft_entries(out.nodes()));
            EXPECT_EQ(mine.length(), static_cast<std::int32_t>(text.size()) - 1);
        }
        EXPECT_EQ(std::vector<token_id>(text.begin() + 3, text.end()), expected.tokens);
        EXPECT_EQ(out.end(), expected.reason);
        EXPECT_EQ(mine.length(), target.length());
        stopped += expected.reason == stop_reason::stop_token ? 1 : 0;
    }
    EXPECT_GT(stopped, 5);
    EXPECT_LT(stopped, 40);
}

}  // namespace
}  // namespace accepted_text_test
