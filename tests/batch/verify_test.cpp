// Batches verified on host threads: the verdicts of each request alone, for any number of threads; errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traversal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace verify_test {
namespace {

/// Pools of several sizes, and one that runs tasks one after another, the last first.
template <class Use>
void with_policies(Use const& use) {
    for (int const threads : {1, 2, 3, 8}) {
        SCOPED_TRACE("threads: " + std::to_string(threads));
        use(host_threads(threads));
    }
    SCOPED_TRACE("one after another");
    use(host_tasks(3, [](int count, auto const& task) {
        while (count > 0) task(--count);
    }));
}

template <host_policy P, class Verifier, class T, class Target, class Draft>
std::vector<outcome> verify_all(P const& policy, Verifier const& verifier, ragged<T> const& b, Target const& target,
                                Draft const& draft, std::int64_t stride) {
    verify::scratch_memory memory;
    verdict_memory out(b.trees(), stride);
    auto const bytes = memory.of(verify_workspace_size<Verifier>(policy, b.size(), 10, 9));
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    verify_batch(policy, verifier, drawn_by<typename Verifier::law>(b.trees()), target_rows(target), draft_rows(draft),
                 b.requests(), out.view(), bytes);
    return out.outcomes(b.trees());
}

/// Logits in place, and prepared normalisers.
template <class T, class Verifier, class Sampler>
void expect_verdicts_of_requests_alone(Verifier const& verifier, Sampler const& sampler, index_t vocabulary,
                                       std::vector<std::vector<node_id>> const& shapes = ragged_shapes) {
    ragged<T> b(shapes, vocabulary, samplings_of_all_kinds);
    b.draw_alone(sampler);
    auto const expected = b.template verify_alone<silent_group>(verifier);
    for (int const threads : {1, 3}) {
        host_threads const pool(threads);
        EXPECT_EQ(verify_all(pool, verifier, b, b.target_logits(), b.draft_logits(), 0), expected);
        if constexpr (std::is_same_v<real_of<T>, float>) {
            EXPECT_EQ(verify_all(pool, verifier, b, b.target_logits(), b.prepared(), 0), expected);
        }
    }
}

// Rows in another order, entries apart, paths with a stride, on every policy.
TEST(batch_verify, reads_rows_where_they_lie) {
    index_t const vocabulary = 300;
    verify::recursive_rejection<law::sequential> const verifier;
    ragged<float> b(ragged_shapes, vocabulary, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    auto const expected = b.verify_alone<silent_group>(verifier);
    // The same rows, in reverse order in a pool.
    std::vector<std::int64_t> turned(b.parents.size());
    std::iota(turned.rbegin(), turned.rend(), std::int64_t{0});
    std::vector<float> pool(b.target.size());
    for (std::size_t i = 0; i < turned.size(); ++i)
        std::copy_n(b.target.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary, vocabulary,
                    pool.begin() + turned[i] * vocabulary);
    logit_batch<float> elsewhere = b.target_logits();
    elsewhere.data = pool.data();
    elsewhere.row_of = turned.data();
    // And as columns of a matrix.
    auto const rows = static_cast<std::int64_t>(b.parents.size());
    std::vector<float> columns(b.target.size());
    for (std::int64_t r = 0; r < rows; ++r)
        for (index_t i = 0; i < vocabulary; ++i)
            columns[static_cast<std::size_t>(i * rows + r)] = b.target[static_cast<std::size_t>(r * vocabulary + i)];
    logit_batch<float, strided> const apart{columns.data(), 1, vocabulary, nullptr, b.sampling.data(), {}, {rows}};
    with_policies([&](auto const& policy) {
        EXPECT_EQ(verify_all(policy, verifier, b, b.target_logits(), b.draft_logits(), 0), expected);
        EXPECT_EQ(verify_all(policy, verifier, b, b.target_logits(), b.draft_logits(), 9), expected);
        EXPECT_EQ(verify_all(policy, verifier, b, elsewhere, b.draft_logits(), 0), expected);
        EXPECT_EQ(verify_all(policy, verifier, b, apart, b.draft_logits(), 0), expected);
    });
}

TEST(batch_verify, decides_as_requests_alone_do) {
    std::vector<std::vector<node_id>> const forks{{none, 0, 0, 0, 1, 2, 3}, {none, 0, 1, 2}, {none},
                                                  {none, 0, 0, 1, 2},       {none, 0},       {none, 0, 0, 1, 2, 3, 4}};
    using namespace verify;
    expect_verdicts_of_requests_alone<float>(recursive_rejection<law::sequential>{}, draft::sequential{}, 300);
    expect_verdicts_of_requests_alone<bfloat16>(recursive_rejection<law::sequential>{}, draft::sequential{}, 5000);
    expect_verdicts_of_requests_alone<double>(recursive_rejection<law::sequential>{}, draft::sequential{}, 300);
    expect_verdicts_of_requests_alone<float>(naive<law::deterministic>{}, draft::top_n{}, 300);
    expect_verdicts_of_requests_alone<float16>(traversal<law::sequential>{}, draft::sequential{}, 300);
    expect_verdicts_of_requests_alone<double>(traversal<law::iid>{}, draft::iid{}, 300);
    expect_verdicts_of_requests_alone<float>(multi_path_block{}, draft::iid{}, 300, forks);
    expect_verdicts_of_requests_alone<float>(ranked_block<law::stratified>{}, draft::stratified{}, 300);
    expect_verdicts_of_requests_alone<float>(nested_ranked_block<law::stratified>{}, draft::stratified{}, 5000);
}

TEST(batch_verify, takes_rows_of_probabilities_and_none_of_the_draft) {
    using verifier = verify::recursive_rejection<law::iid>;
    ragged<float> b(ragged_shapes, 200, {{}});
    b.draw_alone(draft::iid{});
    for (auto* matrix : {&b.target, &b.draft})
        for (auto row = matrix->begin(); row != matrix->end(); row += 200) {
            float sum = 0;
            for (auto x = row; x != row + 200; ++x) sum += (*x = std::exp(*x));
            for (auto x = row; x != row + 200; ++x) *x /= sum;
        }
    auto const rows_of = [&](std::vector<float> const& matrix, std::int32_t r) {
        return probability_rows<float>(matrix.data() + b.offsets[static_cast<std::size_t>(r)] * 200, b.trees().size(r),
                                       200);
    };
    auto const expected = b.verify_alone<host_group>(verifier{}, rows_of);
    auto const naive = b.verify_alone<host_group>(verify::naive<law::iid>{}, rows_of);
    probability_batch<float> const p{b.target.data(), 200, 200};
    probability_batch<float> const q{b.draft.data(), 200, 200};
    with_policies([&](auto const& policy) {
        EXPECT_EQ(verify_all(policy, verifier{}, b, p, q, 0), expected);
        EXPECT_EQ(verify_all(policy, verify::naive<law::iid>{}, b, p, verify::no_draft_rows{}, 0), naive);
    });
}

// Shared noise: if the draft's rows are the target's, whole paths are accepted.
TEST(batch_verify, shares_randomness_with_the_draft) {
    ragged<float> b({{none, 0, 1, 2}, {none, 0, 0, 1}}, 300, {{}});
    b.draft = b.target;
    for (std::size_t row = 1; row < 8; ++row)  // one row for all nodes of a depth: texts of other candidates too
        std::copy_n(b.draft.begin(), 300, b.draft.begin() + static_cast<std::ptrdiff_t>(300 * row));
    b.target = b.draft;
    host_threads const pool(2);
    b.draw_levels([&](auto const& level, auto const& rows, auto const& requests, auto const& out) {
        draft_batch(pool, draft::shared_randomness{}, level, draft_rows(rows), requests, out);
    });
    auto const all = verify_all(pool, verify::shared_randomness{}, b, b.target_logits(), verify::no_draft_rows{}, 0);
    EXPECT_EQ(all[0].path, (std::vector<node_id>{1, 2, 3}));
    EXPECT_GE(all[1].path.size(), 1U);
}

/// Rows of an engine's own type: uniform, without an array.
struct even_rows {
    index_t vocabulary = 7;
    struct row {
        index_t vocabulary;
        index_t size() const { return vocabulary; }
        float operator()(index_t) const { return 1.0F / static_cast<float>(vocabulary); }
        float weight(index_t) const { return 1.0F; }
    };
    template <group G>
    row operator()(G const&, std::int64_t, std::int32_t) const {
        return {vocabulary};
    }
};
static_assert(row_batch<even_rows> && row_batch<logit_batch<float16>> && !row_batch<request_batch>);

TEST(batch_verify, takes_rows_of_another_kind) {
    ragged<float> b(ragged_shapes, 7, {{}});
    for (std::size_t i = 0; i < b.tokens.size(); ++i) b.tokens[i] = static_cast<token_id>(i % 7);
    auto const all = verify_all(host_threads(2), verify::naive<law::iid>{}, b, even_rows{}, even_rows{}, 0);
    for (outcome const& one : all) EXPECT_NE(one.next, none);
}

TEST(batch_verify, takes_a_batch_of_no_requests) {
    verify_batch(host_threads(2), verify::naive<law::iid>{}, drawn_by<law::iid>({}), target_rows(logit_batch<float>{}),
                 draft_rows(verify::no_draft_rows{}), {}, {});
}

// A row that is not a distribution affects its request only; children that could not be drawn are ignored.
TEST(batch_verify, answers_none_where_rows_are_bad) {
    ragged<float> b(ragged_shapes, 300, {{}});
    b.draw_alone(draft::sequential{});
    using verifier = verify::recursive_rejection<law::sequential>;
    auto expected = b.verify_alone(verifier{});
    for (index_t i = 0; i < 300; ++i)
        b.target[static_cast<std::size_t>(b.offsets[3] * 300 + i)] = -std::numeric_limits<float>::infinity();
    expected[3] = {};
    with_policies([&](auto const& policy) {
        EXPECT_EQ(verify_all(policy, verifier{}, b, b.target_logits(), b.draft_logits(), 0), expected);
        validation_report report;
        validate_batch(policy, tree_rules{}, drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                       draft_rows(b.draft_logits()), b.requests(), &report);
        EXPECT_EQ(report.what, batch_argument::target);
        EXPECT_EQ(report.request, 3);
        EXPECT_EQ(report.index, 0);
    });
}

// --- Errors: by name, index and value, and nothing is written.

template <class Change>
void expect_refused(Change const& change, std::string const& argument, std::int64_t index, std::string const& value) {
    SCOPED_TRACE(argument);
    using verifier = verify::traversal<law::sequential>;
    ragged<float> b(ragged_shapes, 300, {{}});
    b.draw_alone(draft::sequential{});
    verdict_memory out(b.trees(), 9);
    struct {
        tree_batch trees;
        logit_batch<float> p, q;
        request_batch requests;
        verdict_batch out;
        workspace scratch;
    } call{b.trees(), b.target_logits(), b.draft_logits(), b.requests(), out.view(), {}};
    host_threads const pool(2);
    verify::scratch_memory memory;
    call.scratch = memory.of(verify_workspace_size<verifier>(pool, 6, 10, 9) + 16);
    auto const run = [&] {
        verify_batch(pool, verifier{}, drawn_by<law::sequential>(call.trees), target_rows(call.p), draft_rows(call.q),
                     call.requests, call.out, call.scratch);
    };
    run();  // no error
    std::fill(out.path.begin(), out.path.end(), verdict_memory::unwritten);
    std::fill(out.accepted.begin(), out.accepted.end(), verdict_memory::unwritten);
    std::fill(out.next.begin(), out.next.end(), verdict_memory::unwritten);
    change(b, call);
    try {
        run();
        ADD_FAILURE() << "not refused";
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), argument) << e.what();
        EXPECT_EQ(e.index(), index) << e.what();
        EXPECT_TRUE(value.empty() || e.value() == value) << e.what();
    }
    EXPECT_TRUE(out.is_unwritten());
}

TEST(batch_verify, refuses_what_cannot_be) {
    auto const none_at = [](auto member) { return [member](auto&, auto& call) { member(call) = nullptr; }; };
    expect_refused(none_at([](auto& c) -> auto& { return c.trees.offsets; }), "trees.offsets", -1, "null");
    expect_refused(none_at([](auto& c) -> auto& { return c.trees.tokens; }), "trees.tokens", -1, "null");
    expect_refused(none_at([](auto& c) -> auto& { return c.requests.seeds; }), "requests.seeds", -1, "null");
    expect_refused(none_at([](auto& c) -> auto& { return c.p.data; }), "target.data", -1, "null");
    expect_refused(none_at([](auto& c) -> auto& { return c.out.next; }), "out.next", -1, "null");
    expect_refused([](auto&, auto& c) { c.trees.requests = -1; }, "trees.requests", -1, "-1");
    expect_refused([](auto&, auto& c) { c.trees.nodes -= 1; }, "offsets", 6, "37");
    expect_refused([](auto&, auto& c) { c.q.vocabulary = 299; }, "draft.vocabulary", -1, "299");
    expect_refused([](auto&, auto& c) { c.p.vocabulary = 0; }, "target.vocabulary", -1, "0");
    expect_refused([](auto& b, auto&) { b.offsets[1] = 0; }, "offsets", 1, "0");
    expect_refused([](auto& b, auto&) { b.parents[12] = 4; }, "parents", 2, "4");
    expect_refused([](auto& b, auto&) { b.tokens[7] = 300; }, "tokens", 7, "300");
    expect_refused([](auto& b, auto&) { b.tokens[2] = b.tokens[1] = 5; }, "tokens", 2, "5");
    expect_refused([](auto& b, auto&) { b.positions[4] = -3; }, "positions", 4, "-3");
    expect_refused([](auto& b, auto&) { b.sampling[1].top_p = 0.0F; }, "target.top_p", 1, "0");
    static std::vector<sampling_params> of_draft(6);
    of_draft[2].temperature = -1.0F;
    expect_refused([](auto&, auto& c) { c.q.sampling = of_draft.data(); }, "draft.temperature", 2, "-1");
    static std::vector<std::int64_t> rows(36);
    rows[11] = -5;
    expect_refused([](auto&, auto& c) { c.q.row_of = rows.data(); }, "draft.row_of", 1, "-5");
    expect_refused([](auto&, auto& c) { c.out.path_stride = 3; }, "out.path_stride", -1, "3");
    expect_refused([](auto&, auto& c) { c.out.path_stride = -1; }, "out.path_stride", -1, "-1");
    expect_refused([](auto&, auto& c) { c.scratch = {}; }, "workspace.size", -1, "0");
    ragged<float> b(ragged_shapes, 300, {{}});
    verdict_memory out(b.trees(), 0);
    tree_batch untold = b.trees();
    untold.certain = nullptr;
    try {
        verify_batch(host_threads(1), verify::ranked_block<law::stratified>{}, drawn_by<law::stratified>(untold),
                     target_rows(b.target_logits()), draft_rows(b.draft_logits()), b.requests(), out.view());
        ADD_FAILURE();
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), "trees.certain");
    }
}

TEST(batch_verify, refuses_a_workspace_that_is_not_aligned) {
    expect_refused(
        [](auto&, auto& c) {
            c.scratch = {static_cast<std::byte*>(c.scratch.data) + 1, c.scratch.size};
        },
        "workspace.data", -1, "");
}

}  // namespace
}  // namespace verify_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
