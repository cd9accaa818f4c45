// A block drafter: one row of the draft for each depth of a request, shared by all nodes there. All draws in one call,
// all nodes by `row_of`: the draws and verdicts of nodes with rows of their own. And rows with a term of the parent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/candidate_rows.hpp"
#include "support/refusal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace block_drafter_test {
namespace {

template <class Sampler, class Verifier>
void expect_rows_of_their_own() {
    constexpr index_t vocabulary = 9001;  // several chunks
    constexpr std::int64_t depths = 6;
    ragged<float> b(ragged_shapes, vocabulary, {{}, {.top_p = 0.9F}, {.top_k = 3}, {.temperature = 0.0F}});
    // The draft's row of request b and depth d is row b * depths + d.
    std::vector<float> block(static_cast<std::size_t>(b.size() * depths * vocabulary));
    std::vector<std::int64_t> row_of_node(b.tokens.size());
    for (std::int32_t r = 0; r < b.size(); ++r) {
        tree_view const tree = b.trees()(r);
        for (node_id v = tree.size() - 1; v >= 0; --v) {  // the first node of a depth comes last
            auto const node = static_cast<std::size_t>(b.offsets[static_cast<std::size_t>(r)] + v);
            row_of_node[node] = r * depths + tree.depth(v);
            std::copy_n(b.draft.begin() + static_cast<std::ptrdiff_t>(node) * vocabulary, vocabulary,
                        block.begin() + row_of_node[node] * vocabulary);
        }
    }
    for (std::size_t i = 0; i < row_of_node.size(); ++i)
        std::copy_n(block.begin() + row_of_node[i] * vocabulary, vocabulary,
                    b.draft.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary);
    ragged<float> once = b;
    b.draw_alone(Sampler{});
    auto const expected = b.template verify_alone<multidraft::detail::host_batch_group>(Verifier{});

    host_threads const pool(2);
    typename ragged<float>::level all;
    for (std::int32_t depth = 0; depth < depths; ++depth) {
        auto const here = once.level_of(depth);
        auto const join = [](auto& to, auto const& from) { to.insert(to.end(), from.begin(), from.end()); };
        join(all.requests, here.requests);
        join(all.nodes, here.nodes);
        join(all.wanted, here.wanted);
        join(all.depths, here.depths);
        join(all.first, here.first);
        join(all.index, here.index);
    }
    std::vector<std::int64_t> row_of_entry;
    for (std::int64_t const i : all.index) row_of_entry.push_back(row_of_node[static_cast<std::size_t>(i)]);
    logit_batch<float> rows{block.data(), vocabulary, vocabulary, row_of_entry.data(), once.sampling.data()};
    draft_batch(pool, Sampler{}, all.view(), draft_rows(rows), once.requests(), once.children_of(all));
    EXPECT_EQ(once.tokens, b.tokens);
    EXPECT_EQ(once.certain, b.certain);

    rows.row_of = row_of_node.data();
    verdict_memory out(once.trees(), 0);
    verify::scratch_memory memory;
    verify_batch(pool, Verifier{}, drawn_by<typename Sampler::law>(once.trees()), target_rows(once.target_logits()),
                 draft_rows(rows), once.requests(), out.view(),
                 memory.of(verify_workspace_size<Verifier>(pool, once.size(), 10, 9)));
    EXPECT_EQ(out.outcomes(once.trees()), expected);
}

TEST(block_drafter, draws_and_verdicts_are_those_of_rows_of_their_own) {
    expect_rows_of_their_own<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_rows_of_their_own<draft::sequential, verify::traversal<law::sequential>>();
    expect_rows_of_their_own<draft::gumbel_top_k, verify::traversal<law::sequential>>();
    expect_rows_of_their_own<draft::iid, verify::recursive_rejection<law::iid>>();
    expect_rows_of_their_own<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}

/// Rows with a term of the node's own token, evaluated as they are read, give what rows written out give.
template <class Sampler, class Verifier>
void expect_rows_written_out() {
    constexpr index_t vocabulary = 4099;  // two chunks
    constexpr index_t rank = 3;
    ragged<float> b(ragged_shapes, vocabulary, {{}, {.top_p = 0.9F}, {.temperature = 0.0F}});
    b.draw_alone(Sampler{});
    test_numbers numbers(5);
    std::vector<float> of_token(static_cast<std::size_t>(vocabulary * rank)), of_entry(of_token.size());
    for (auto* const weights : {&of_token, &of_entry})
        for (float& x : *weights) x = static_cast<float>(numbers() - 0.5);
    low_rank_term<float> const term{of_token.data(), of_entry.data(), rank};
    ragged<float> written = b;
    for (std::size_t i = 0; i < b.tokens.size(); ++i) {
        if (b.tokens[i] < 0) continue;
        auto const at = static_cast<std::ptrdiff_t>(i) * vocabulary;
        auto const row = term(row_view<float>(b.draft.data() + at, vocabulary), b.tokens[i]);
        for (index_t x = 0; x < vocabulary; ++x) written.draft[static_cast<std::size_t>(at + x)] = row(x);
    }
    host_threads const pool(2);
    auto const verdicts = [&](ragged<float>& of, auto const& rows) {
        verdict_memory out(of.trees(), 0);
        verify::scratch_memory memory;
        verify_batch(pool, Verifier{}, drawn_by<typename Sampler::law>(of.trees()), target_rows(of.target_logits()),
                     draft_rows(rows), of.requests(), out.view(),
                     memory.of(verify_workspace_size<Verifier>(pool, of.size(), 10, 9)));
        return out.outcomes(of.trees());
    };
    EXPECT_EQ(verdicts(b, low_rank_batch(b.draft_logits(), term, b.tokens.data())),
              verdicts(written, written.draft_logits()));

    // The children of the roots, whose tokens are those of the text.
    auto const drawn = [&](ragged<float> of, bool as_read) {
        auto const level = of.level_of(0);
        std::vector<token_id> tokens;
        std::vector<std::int64_t> rows_of(level.index.begin(), level.index.end());
        for (std::int64_t const i : rows_of) tokens.push_back(of.tokens[static_cast<std::size_t>(i)]);
        logit_batch<float> const rows{of.draft.data(), vocabulary, vocabulary, rows_of.data(), of.sampling.data()};
        children_batch out = of.children_of(level);
        out.states = nullptr;
        if (as_read)
            draft_batch(pool, Sampler{}, level.view(), draft_rows(low_rank_batch(rows, term, tokens.data())),
                        of.requests(), out);
        else
            draft_batch(pool, Sampler{}, level.view(), draft_rows(rows), of.requests(), out);
        return of.tokens;
    };
    EXPECT_EQ(drawn(b, true), drawn(written, false));
}

/// Rows of a few candidates give what rows written out give: the draws of the roots' children, and all verdicts.
template <class Sampler, class Verifier>
void expect_candidates_written_out() {
    constexpr index_t vocabulary = 4099;  // two chunks
    constexpr index_t candidates = 70;
    ragged<float> b(ragged_shapes, vocabulary, {{}, {.top_p = 0.9F}, {.temperature = 0.0F}});
    auto const kept = keep_candidates(b.draft, vocabulary, candidates);
    ragged<float> listed = b;
    b.draw_alone(Sampler{});
    host_threads const pool(2);
    auto const rows = [&](std::int64_t const* row_of) {
        return candidate_batch(logit_batch<float>{kept.logits.data(), 0, vocabulary, row_of, b.sampling.data()},
                               kept.tokens.data(), candidates);
    };
    for (std::int32_t depth = 0; depth < 6; ++depth) {
        auto const level = listed.level_of(depth);
        std::vector<std::int64_t> const row_of(level.index.begin(), level.index.end());
        children_batch out = listed.children_of(level);
        out.states = nullptr;
        draft_batch(pool, Sampler{}, level.view(), draft_rows(rows(row_of.data())), listed.requests(), out);
    }
    EXPECT_EQ(listed.tokens, b.tokens);
    EXPECT_EQ(listed.certain, b.certain);
    auto const expected = b.template verify_alone<multidraft::detail::host_batch_group>(Verifier{});
    verdict_memory out(b.trees(), 0);
    verify::scratch_memory memory;
    verify_batch(pool, Verifier{}, drawn_by<typename Sampler::law>(b.trees()), target_rows(b.target_logits()),
                 draft_rows(rows(nullptr)), b.requests(), out.view(),
                 memory.of(verify_workspace_size<Verifier>(pool, b.size(), 10, 9)));
    EXPECT_EQ(out.outcomes(b.trees()), expected);
}

TEST(block_drafter, rows_of_candidates_give_what_rows_written_out_give) {
    expect_candidates_written_out<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_candidates_written_out<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}

TEST(block_drafter, mistakes_in_rows_of_candidates_are_refused) {
    ragged<float> b(ragged_shapes, 50, {{}});
    b.draw_alone(draft::iid{});
    std::vector<float> const logits(b.tokens.size() * 3, 0.0F);
    std::vector<token_id> tokens(logits.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<token_id>(i % 3 * 7);
    host_threads const pool(1);
    verdict_memory out(b.trees(), 0);
    auto const refusal = [&](candidate_batch<float> const& rows) -> std::string {
        try {
            verify_batch(pool, verify::naive<law::iid>{}, drawn_by<law::iid>(b.trees()), target_rows(rows),
                         draft_rows(verify::no_draft_rows{}), b.requests(), out.view());
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "";
    };
    logit_batch<float> const rows{logits.data(), 0, 50};
    EXPECT_EQ(refusal({rows, nullptr, 3}), "target.tokens = null: this array is read or written");
    EXPECT_EQ(refusal({rows, tokens.data(), 0}),
              "target.candidates = 0: a row has 1 candidate or more, and no more than its 50 tokens");
    EXPECT_EQ(refusal({rows, tokens.data(), 51}),
              "target.candidates = 51: a row has 1 candidate or more, and no more than its 50 tokens");
    EXPECT_NE(refusal({{logits.data(), 2, 50}, tokens.data(), 3}).find("target.row_stride = 2"), std::string::npos);
    // In a row of the last request: before anything is written of the others.
    auto const last = static_cast<std::size_t>(b.trees().offsets[b.size() - 1]);
    tokens[3 * last + 1] = 0;
    std::int32_t& accepted = *out.view().accepted;
    accepted = -7;
    EXPECT_EQ(
        refusal({rows, tokens.data(), 3}),
        "target.tokens[1] = 0: candidates rise, each in [0, 50), node 0 of request " + std::to_string(b.size() - 1));
    EXPECT_EQ(accepted, -7);
    validation_report report;
    validate_batch(pool, verify::naive<law::iid>{}, drawn_by<law::iid>(b.trees()),
                   target_rows(candidate_batch<float>(rows, tokens.data(), 3)), draft_rows(verify::no_draft_rows{}),
                   b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::target_candidates);
    EXPECT_EQ(report.request, b.size() - 1);
    EXPECT_EQ(multidraft::testing::refusal([&] { refuse_reported(report); }),
              "target.tokens[0] = 0: the candidates of a row are of the vocabulary and rise (token 0), request " +
                  std::to_string(b.size() - 1));
    auto const level = b.level_of(0);
    std::vector<std::int64_t> const row_of(level.index.begin(), level.index.end());
    children_batch children = b.children_of(level);
    children.states = nullptr;
    auto const drawn = b.tokens;
    try {
        draft_batch(
            pool, draft::iid{}, level.view(),
            draft_rows(candidate_batch(logit_batch<float>{logits.data(), 0, 50, row_of.data()}, tokens.data(), 3)),
            b.requests(), children);
        ADD_FAILURE();
    } catch (invalid_input const& e) {
        EXPECT_NE(std::string(e.what()).find("draft.tokens[1] = 0: candidates rise"), std::string::npos) << e.what();
    }
    EXPECT_EQ(b.tokens, drawn);
}

TEST(block_drafter, a_term_of_the_parent_gives_what_rows_written_out_give) {
    expect_rows_written_out<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_rows_written_out<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}

}  // namespace
}  // namespace block_drafter_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
