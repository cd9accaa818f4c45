// Rows that are prepared all at once: their numbers, their types, the rows that are read, predictions, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "batch/prepared.hpp"
#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/verify/naive.hpp"
#include "support/refusal.hpp"

namespace prepare_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(batch_prepare, takes_the_types_of_rows) {
    mt::expect_verdicts_of_prepared_rows<methods::recursive_rejection_sequential, float16>(5000, 1);
    mt::expect_verdicts_of_prepared_rows<methods::recursive_rejection_sequential, bfloat16>(5000, 2);
    mt::expect_verdicts_of_prepared_rows<methods::traversal_sequential, bfloat16>(300, 3);
    mt::expect_verdicts_of_prepared_rows<methods::nested_ranked_block_stratified, float16>(300, 4);
}

// Parameters that keep every token by a threshold, or that are off by their size.
TEST(batch_prepare, takes_parameters_that_remove_nothing) {
    for (sampling_params const w : {sampling_params{.top_k = 300}, sampling_params{.top_k = 5000},
                                    sampling_params{.top_p = 0.9999999F}, sampling_params{.min_p = 1e-30F}}) {
        mt::ragged<float> b(mt::ragged_shapes, 300, {w});
        b.draw_alone(draft::iid{});
        using verifier = verify::recursive_rejection<law::iid>;
        mt::prepared_memory p(b.trees().nodes, 300);
        prepare_batch(host_threads(2), b.trees(), target_rows(b.target_logits()), p.out());
        EXPECT_EQ(mt::verdicts_of<verifier>(1, b, p.rows(b.target), b.draft_logits()),
                  mt::verdicts_of<verifier>(1, b, b.target_logits(), b.draft_logits()));
    }
}

/// The words of a row by a plain loop.
std::vector<std::uint64_t> runs_of(auto const& row) {
    std::vector<std::uint64_t> words(at(chunks_of(row.size())), 0);
    for (index_t i = 0; i < row.size(); ++i)
        if (row.may_have_mass(i)) words[at(i / 4096)] |= std::uint64_t{1} << (i / 64 % 64);
    return words;
}

// Rows with few tokens, with most, and in between; the other runs of a row are not read for a residual, so that
// whatever is there changes no verdict.
TEST(batch_prepare, marks_the_runs_that_truncation_keeps) {
    constexpr index_t vocabulary = 9000;
    using verifier = verify::recursive_rejection<law::sequential>;
    mt::ragged<float> b(mt::ragged_shapes, vocabulary,
                        {{.top_k = 50, .top_p = 0.9F},
                         {.top_k = 3000},
                         {.temperature = 0.0F},
                         {.min_p = 1e-3F},
                         {},
                         {.temperature = 0.7F, .top_p = 0.5F}});
    b.draw_alone(draft::sequential{});
    auto const expected = mt::verdicts_of<verifier>(1, b, b.target_logits(), b.draft_logits());
    mt::prepared_memory p(b.trees().nodes, vocabulary), q = p;
    prepare_batch(host_threads(2), b.trees(), target_rows(b.target_logits()), p.out_with_runs());
    prepare_batch(host_threads(2), b.trees(), draft_rows(b.draft_logits()), q.out_with_runs());
    std::size_t spoilt = 0;
    for (std::int64_t i = 0; i < b.trees().nodes; ++i) {
        std::int32_t const r = b.trees().request_of(i);
        auto const v = static_cast<node_id>(i - b.offsets[at(r)]);
        auto const* const words = p.runs.data() + 3 * i;
        if (!verify::is_present(b.trees()(r), v)) {
            EXPECT_EQ(std::vector<std::uint64_t>(words, words + 3), std::vector<std::uint64_t>(3, 0)) << i;
            continue;
        }
        auto const row = process_logits(host_group{}, b.target_logits().view(i), b.sampling[at(r)]).row;
        bool const is_whole = row.may_have_all_mass();
        EXPECT_EQ(std::vector<std::uint64_t>(words, words + 3),
                  is_whole ? std::vector<std::uint64_t>(3, ~std::uint64_t{0}) : runs_of(row))
            << i;
        for (index_t t = 0; t < vocabulary; ++t) {
            if ((words[t / 4096] >> (t / 64 % 64) & 1U) != 0) continue;
            b.target[at(i * vocabulary + t)] = nan;
            ++spoilt;
        }
    }
    EXPECT_GT(spoilt, 100000U);
    EXPECT_EQ(mt::verdicts_of<verifier>(2, b, p.rows_with_runs(b.target), q.rows_with_runs(b.draft)), expected);
}

// The numbers are those that `process_logits` makes; `draft_batch` writes the same for the draft.
TEST(batch_prepare, writes_the_numbers_of_processed_rows) {
    constexpr index_t vocabulary = 9000;
    mt::ragged<float> b(mt::ragged_shapes, vocabulary, mt::samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    mt::prepared_memory p(b.trees().nodes, vocabulary), q(b.trees().nodes, vocabulary);
    prepare_batch(host_threads(2), b.trees(), target_rows(b.target_logits()), p.out());
    prepare_batch(host_threads(2), b.trees(), draft_rows(b.draft_logits()), q.out());
    for (std::int64_t i = 0; i < b.trees().nodes; ++i) {
        std::int32_t const r = b.trees().request_of(i);
        auto const v = static_cast<node_id>(i - b.offsets[at(r)]);
        if (!verify::is_present(b.trees()(r), v)) continue;
        auto const expected = process_logits(host_group{}, b.target_logits().view(i), b.sampling[at(r)]);
        EXPECT_TRUE(mt::same_state(p.states[at(i)], state_of(expected.row))) << i;
        ASSERT_EQ(kept_sums(vocabulary), 3);
        for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(p.sums[at(3 * i + c)], expected.sums.values[c]) << i << ' ' << c;
        if (!b.trees()(r).children(v).empty()) {
            EXPECT_TRUE(mt::same_state(q.states[at(i)], b.states[at(i)])) << i;
        }
    }
}

// Rows of nodes that were not drawn, and the draft's of leaves, hold nothing; one row of the target is no distribution.
TEST(batch_prepare, reads_rows_that_a_verifier_may_read) {
    constexpr index_t vocabulary = 30;
    using verifier = verify::recursive_rejection<law::sequential>;
    mt::ragged<float> b(mt::ragged_shapes, vocabulary, {{.top_k = 2}});  // two children at most
    b.draw_alone(draft::sequential{});
    auto const row_of = [&](std::int64_t i) { return i * vocabulary; };
    mt::ragged<float> spoilt = b;
    std::vector<std::int64_t> target_row(at(b.trees().nodes)), draft_row(at(b.trees().nodes));
    int absent = 0;
    for (std::int64_t i = 0; i < b.trees().nodes; ++i) {
        std::int32_t const r = b.trees().request_of(i);
        auto const v = static_cast<node_id>(i - b.offsets[at(r)]);
        bool const is_there = verify::is_present(b.trees()(r), v);
        absent += is_there ? 0 : 1;
        target_row[at(i)] = is_there ? i : -5;
        draft_row[at(i)] = is_there && !b.trees()(r).children(v).empty() ? i : -5;
        if (!is_there) std::fill_n(spoilt.target.begin() + row_of(i), vocabulary, nan);
        if (draft_row[at(i)] < 0) std::fill_n(spoilt.draft.begin() + row_of(i), vocabulary, nan);
    }
    EXPECT_GT(absent, 3);
    std::fill_n(spoilt.target.begin() + row_of(b.offsets[3]), vocabulary, nan);  // the root of request 3
    auto target = spoilt.target_logits(), draft = spoilt.draft_logits();
    target.row_of = target_row.data();
    draft.row_of = draft_row.data();
    mt::prepared_memory p(b.trees().nodes, vocabulary), q(b.trees().nodes, vocabulary);
    prepare_batch(host_threads(2), b.trees(), target_rows(target), p.out());
    prepare_batch(host_threads(2), b.trees(), draft_rows(draft), q.out());
    auto of_target = p.rows(spoilt.target), of_draft = q.rows(spoilt.draft);
    of_target.row_of = target_row.data();
    of_draft.row_of = draft_row.data();
    for (std::int64_t i = 0; i < b.trees().nodes; ++i) {
        float const of_p = p.states[at(i)].mass, of_q = q.states[at(i)].mass;
        EXPECT_EQ(of_p != of_p, target_row[at(i)] < 0 || i == b.offsets[3]) << i;
        EXPECT_EQ(of_q != of_q, draft_row[at(i)] < 0) << i;
        if (of_p != of_p) {
            EXPECT_EQ(p.sums[at(i)], 0.0F) << i;
        }
    }
    auto expected = mt::verdicts_of<verifier>(1, b, b.target_logits(), b.draft_logits());
    expected[3] = {};
    EXPECT_EQ(mt::verdicts_of<verifier>(2, spoilt, of_target, of_draft), expected);
}

template <class Id>
void follows_predictions(mt::ragged<float> const& b, std::vector<mt::outcome> const& expected, auto const& target) {
    std::vector<Id> predicted(at(b.trees().nodes), 99);
    mt::verdict_memory out(b.trees(), 0);
    host_threads const pool(2);
    predict_batch(pool, b.trees(), target_rows(target), predicted.data());
    verify_predictions(pool, b.trees(), prediction_batch<Id>{predicted.data()}, out.view());
    EXPECT_EQ(out.outcomes(b.trees()), expected);
}

// At temperature 0 the walk over predictions has the verdicts of a lossless verifier, ties and bad rows included.
TEST(batch_predict, finds_what_temperature_0_accepts) {
    constexpr index_t vocabulary = 5000;
    mt::ragged<float> b(mt::ragged_shapes, vocabulary, {{.temperature = 1.0F}});
    b.draw_alone(draft::iid{});
    for (std::int64_t i = 0; i < b.trees().nodes; ++i) {
        // Some largest logits twice, some at a child's token.
        std::int32_t const r = b.trees().request_of(i);
        auto const children = b.trees()(r).children(static_cast<node_id>(i - b.offsets[at(r)]));
        auto* const row = b.target.data() + i * vocabulary;
        if (i % 5 != 4 && !children.empty()) row[b.tokens[at(b.offsets[at(r)] + children.first)]] = 40.0F;
        if (i % 7 == 3) row[i] = row[vocabulary - 1 - i] = 40.0F;
    }
    std::vector<sampling_params> const greedy(b.sampling.size(), sampling_params{.temperature = 0.0F});
    logit_batch<float> target = b.target_logits();
    target.sampling = greedy.data();
    auto const expected = [&] { return mt::verdicts_of<verify::naive<law::iid>>(1, b, target, b.draft_logits()); };
    auto const good = expected();
    EXPECT_TRUE(std::any_of(good.begin(), good.end(), [](mt::outcome const& one) { return one.path.size() > 1; }));
    follows_predictions<std::int64_t>(b, good, target);
    b.target[at(b.offsets[1] * vocabulary + 4321)] = nan;
    b.target[at(b.offsets[3] * vocabulary + 1)] = std::numeric_limits<float>::infinity();
    std::fill_n(b.target.begin() + b.offsets[4] * vocabulary, vocabulary, -std::numeric_limits<float>::infinity());
    auto const bad = expected();
    for (std::size_t const r : {1U, 3U, 4U}) EXPECT_EQ(bad[r].next, none);
    EXPECT_NE(bad[0].next, none);
    follows_predictions<std::int32_t>(b, bad, target);
}

TEST(batch_predict, takes_rows_with_masks) {
    constexpr index_t vocabulary = 300;
    mt::ragged<float> b(mt::ragged_shapes, vocabulary, {{.temperature = 0.0F}});
    b.draw_alone(draft::iid{});
    std::vector<std::uint64_t> const odd(5, 0xaaaaaaaaaaaaaaaaULL);
    std::vector<std::int64_t> const mask_of(at(b.trees().nodes), 0);
    logit_adjustments adjustments;
    adjustments.allowed = {odd, 5};
    adjustments.allowed_of = mask_of.data();
    adjusted_batch const target(b.target_logits(), adjustments);
    auto const expected = mt::verdicts_of<verify::naive<law::iid>>(1, b, target, b.draft_logits());
    for (auto const& one : expected) EXPECT_EQ(one.next % 2, 1);
    follows_predictions<std::int64_t>(b, expected, target);
}

TEST(batch_prepare, names_what_is_wrong_and_writes_nothing) {
    constexpr index_t vocabulary = 30;
    host_threads const pool(1);
    mt::ragged<float> const good(mt::ragged_shapes, vocabulary, mt::samplings_of_all_kinds);
    mt::prepared_memory out(good.trees().nodes, vocabulary);
    mt::prepared_memory const before = out;
    std::vector<std::int64_t> predicted(at(good.trees().nodes), 99);
    auto const prepare = [&](mt::ragged<float> const& b, logit_batch<float> const& rows) {
        auto const message = mt::refusal([&] { prepare_batch(pool, b.trees(), target_rows(rows), out.out()); });
        EXPECT_EQ(mt::refusal([&] { predict_batch(pool, b.trees(), target_rows(rows), predicted.data()); }), message);
        EXPECT_EQ(out.sums, before.sums);
        EXPECT_EQ(out.states[0].cut_last, -7);
        EXPECT_EQ(predicted[0], 99);
        return message;
    };
    auto const contains = [](std::string const& message, std::string const& part) {
        return message.find(part) != std::string::npos;
    };
    mt::ragged<float> b = good;
    b.parents[12] = 7;
    EXPECT_TRUE(contains(prepare(b, b.target_logits()), "parents")) << prepare(b, b.target_logits());
    EXPECT_TRUE(contains(prepare(b, b.target_logits()), "request 1")) << prepare(b, b.target_logits());
    b = good;
    b.tokens[3] = 30;
    EXPECT_TRUE(contains(prepare(b, b.target_logits()), "tokens"));
    b = good;
    b.offsets[2] = 9;
    EXPECT_TRUE(contains(prepare(b, b.target_logits()), "offsets"));
    b = good;
    b.sampling[2].top_p = 2;
    EXPECT_TRUE(contains(prepare(b, b.target_logits()), "target.top_p"));
    EXPECT_TRUE(contains(mt::refusal([&] { prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), out.out()); }),
                         "draft.top_p"));
    std::vector<std::int64_t> const nowhere(at(good.trees().nodes), -1);
    logit_batch<float> rows = good.target_logits();
    rows.row_of = nowhere.data();
    EXPECT_TRUE(contains(prepare(good, rows), "target.row_of"));
    rows = good.target_logits();
    rows.data = nullptr;
    EXPECT_TRUE(contains(prepare(good, rows), "target.data"));
    rows = good.target_logits();
    rows.vocabulary = 0;
    EXPECT_TRUE(contains(prepare(good, rows), "target.vocabulary"));

    rows = good.target_logits();
    auto const without = [&](row_state_batch const& output) {
        return mt::refusal([&] { prepare_batch(pool, good.trees(), target_rows(rows), output); });
    };
    EXPECT_TRUE(contains(without({nullptr, out.sums.data()}), "out.states"));
    EXPECT_TRUE(contains(without({out.states.data(), nullptr}), "out.sums"));
    rows.row_stride = 0;
    rows.vocabulary = 513 * chunk_size;
    EXPECT_TRUE(contains(without(out.out_with_runs()), "out.runs"));
    rows = good.target_logits();
    std::int64_t* const nothing = nullptr;
    EXPECT_TRUE(
        contains(mt::refusal([&] { predict_batch(pool, good.trees(), target_rows(rows), nothing); }), "predicted"));
    EXPECT_EQ(out.sums, before.sums);
    // An empty batch needs nothing.
    prepare_batch(pool, tree_batch{}, target_rows(logit_batch<float>{}), {});
    predict_batch(pool, tree_batch{}, target_rows(logit_batch<float>{}), nothing);
    EXPECT_EQ(row_workspace_size(pool, 1000), 0U);
    // Verdicts over prepared rows of the target take their sums.
    mt::verdict_memory verdicts(good.trees(), 0);
    auto const message = mt::refusal([&] {
        prepared_batch<float> p{good.target.data(), vocabulary, vocabulary, out.states.data()};
        verify_batch(pool, verify::naive<law::iid>{}, drawn_by<law::iid>(good.trees()), target_rows(p),
                     draft_rows(verify::no_draft_rows{}), good.requests(), verdicts.view());
    });
    EXPECT_TRUE(contains(message, "target.sums")) << message;
    EXPECT_TRUE(verdicts.is_unwritten());
}

}  // namespace
}  // namespace prepare_test
