// Batches with grammar masks and logit bias: the tokens of rows that were changed beforehand; errors.
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace adjusted_batch_test {
namespace {

static_assert(logit_row_batch<adjusted_batch<float16>>);
static_assert(std::is_trivially_copyable_v<adjusted_batch<float>>, "it is an argument of launches");

/// A pool of masks and of biases, of which every third node has none.
struct grammar {
    grammar(ragged<float> const& b, std::uint64_t seed) : vocabulary(b.vocabulary), words((b.vocabulary + 31) / 32) {
        test_numbers numbers(seed);
        for (std::size_t m = 0; m < 3; ++m)
            for (index_t i = 0; i < 32 * words; ++i) {
                if (i % 32 == 0) bits.push_back(0);
                if (i == static_cast<index_t>(m) || numbers() < 0.4) bits.back() |= 1U << i % 32;
            }
        for (std::size_t m = 0; m < 4; ++m) {
            for (token_id x = static_cast<token_id>(m); x < vocabulary; x += 11 + static_cast<token_id>(m)) {
                ids.push_back(x);
                values.push_back(static_cast<float>(2 * numbers() - 1));
            }
            offsets.push_back(static_cast<std::int64_t>(ids.size()));
        }
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(b.parents.size()); ++i) {
            mask_of.push_back(i % 3 - 1 + (i % 2 == 0 ? 1 : 0));
            bias_of.push_back(i % 5 - 1);
        }
    }

    [[nodiscard]] logit_adjustments adjustments() const {
        return {{bits, words}, mask_of.data(), {ids, values, offsets}, bias_of.data()};
    }
    /// The code of an engine without these rows.
    void change(std::vector<float>& matrix) const {
        for (std::size_t at = 0; at < matrix.size(); ++at) {
            std::size_t const node = at / static_cast<std::size_t>(vocabulary);
            auto const token = static_cast<token_id>(at % static_cast<std::size_t>(vocabulary));
            if (std::int64_t const r = bias_of[node]; r >= 0)
                for (std::int64_t k = offsets[static_cast<std::size_t>(r)];
                     k < offsets[static_cast<std::size_t>(r) + 1]; ++k)
                    if (ids[static_cast<std::size_t>(k)] == token) matrix[at] += values[static_cast<std::size_t>(k)];
            if (std::int64_t const m = mask_of[node]; m >= 0)
                if ((bits[static_cast<std::size_t>(m * words + token / 32)] >> token % 32 & 1U) == 0)
                    matrix[at] = -std::numeric_limits<float>::infinity();
        }
    }

    index_t vocabulary;
    std::int64_t words;
    std::vector<std::uint32_t> bits;
    std::vector<token_id> ids;
    std::vector<float> values;
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int64_t> mask_of, bias_of;
};

/// Draft and target with different grammars.
template <class Verifier, class Sampler>
void expect_tokens_of_changed_rows(Verifier const& verifier, Sampler const& sampler, index_t vocabulary) {
    ragged<float> b(ragged_shapes, vocabulary, samplings_of_all_kinds);
    grammar const of_target(b, 1);
    grammar const of_draft(b, 2);
    ragged<float> changed = b;
    of_target.change(changed.target);
    of_draft.change(changed.draft);
    changed.draw_alone(sampler);
    auto const expected = changed.template verify_alone<silent_group>(verifier);

    host_threads const pool(2);
    b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows, request_batch const& requests,
                      children_batch out) {
        // Entries of a level have masks by their own numbers.
        std::vector<std::int64_t> masks;
        std::vector<std::int64_t> biases;
        for (std::int32_t e = 0; e < level.entries; ++e) {
            auto const node = static_cast<std::size_t>(rows.row_of[e]);
            masks.push_back(of_draft.mask_of[node]);
            biases.push_back(of_draft.bias_of[node]);
        }
        logit_adjustments adjustments = of_draft.adjustments();
        adjustments.allowed_of = masks.data();
        adjustments.bias_of = biases.data();
        out.states = nullptr;
        draft_batch(pool, sampler, level, draft_rows(adjusted_batch(rows, adjustments)), requests, out);
    });
    EXPECT_EQ(b.tokens, changed.tokens);
    EXPECT_EQ(b.certain, changed.certain);

    verdict_memory out(b.trees(), 0);
    verify::scratch_memory memory;
    auto const drafts = drawn_by<typename Verifier::law>(b.trees());
    target_rows const p(adjusted_batch(b.target_logits(), of_target.adjustments()));
    draft_rows const q(adjusted_batch(b.draft_logits(), of_draft.adjustments()));
    verify_batch(pool, verifier, drafts, p, q, b.requests(), out.view(),
                 memory.of(verify_workspace_size<Verifier>(pool, b.size(), 10, 9)));
    EXPECT_EQ(out.outcomes(b.trees()), expected);
    validation_report report;
    validate_batch(pool, tree_rules{}, drafts, p, q, b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::nothing);
}

TEST(adjusted_batch, has_the_tokens_of_rows_changed_beforehand) {
    expect_tokens_of_changed_rows(verify::recursive_rejection<law::sequential>{}, draft::sequential{}, 300);
    expect_tokens_of_changed_rows(verify::traversal<law::sequential>{}, draft::sequential{}, 5000);
    expect_tokens_of_changed_rows(verify::nested_ranked_block<law::stratified>{}, draft::stratified{}, 300);
}

TEST(adjusted_batch, without_adjustments_is_the_plain_batch) {
    ragged<float> b(ragged_shapes, 300, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    using verifier = verify::recursive_rejection<law::sequential>;
    verdict_memory out(b.trees(), 0);
    verify_batch(host_threads(1), verifier{}, drawn_by<law::sequential>(b.trees()),
                 target_rows(adjusted_batch(b.target_logits(), {})), draft_rows(b.draft_logits()), b.requests(),
                 out.view());
    EXPECT_EQ(out.outcomes(b.trees()), b.verify_alone<silent_group>(verifier{}));
}

// A grammar that allows no token affects its request only.
TEST(adjusted_batch, answers_none_where_every_token_is_forbidden) {
    ragged<float> b(ragged_shapes, 300, {{}});
    b.draw_alone(draft::sequential{});
    using verifier = verify::recursive_rejection<law::sequential>;
    std::vector<std::uint32_t> const nothing(10);
    std::vector<std::int64_t> mask_of(b.parents.size(), -1);
    mask_of[static_cast<std::size_t>(b.offsets[1])] = 0;
    target_rows const p(adjusted_batch(b.target_logits(), {{nothing, 10}, mask_of.data(), {}, nullptr}));
    verdict_memory out(b.trees(), 0);
    auto const drafts = drawn_by<law::sequential>(b.trees());
    verify_batch(host_threads(2), verifier{}, drafts, p, draft_rows(b.draft_logits()), b.requests(), out.view());
    auto expected = b.verify_alone<silent_group>(verifier{});
    expected[1] = {{}, none};
    EXPECT_EQ(out.outcomes(b.trees()), expected);
    validation_report report;
    validate_batch(host_threads(1), tree_rules{}, drafts, p, draft_rows(b.draft_logits()), b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::target);
    EXPECT_EQ(report.request, 1);
    EXPECT_EQ(report.index, 0);
}

/// Whether a call names the argument and writes nothing.
template <class Break>
void expect_refused(Break const& broken, std::string const& argument, std::int64_t index) {
    ragged<float> b(ragged_shapes, 300, {{}});
    b.draw_alone(draft::sequential{});
    grammar of_target(b, 1);
    grammar of_draft(b, 2);
    broken(of_target, of_draft);
    verdict_memory out(b.trees(), 0);
    auto const call = [&](auto const& use) {
        try {
            use();
            ADD_FAILURE() << argument;
        } catch (invalid_input const& e) {
            EXPECT_EQ(e.argument(), argument);
            EXPECT_EQ(e.index(), index);
        }
    };
    call([&] {
        verify_batch(host_threads(1), verify::recursive_rejection<law::sequential>{},
                     drawn_by<law::sequential>(b.trees()),
                     target_rows(adjusted_batch(b.target_logits(), of_target.adjustments())),
                     draft_rows(adjusted_batch(b.draft_logits(), of_draft.adjustments())), b.requests(), out.view());
    });
    EXPECT_TRUE(out.is_unwritten());
}

TEST(adjusted_batch, refuses_a_bias_that_is_none) {
    expect_refused([](grammar& p, grammar&) { p.ids[3] = p.ids[2]; }, "target.bias", 1);
    expect_refused([](grammar&, grammar& q) { q.ids.back() = 300; }, "draft.bias", 4);
    expect_refused([](grammar&, grammar& q) { q.bias_of[0] = 4; }, "draft.bias", 0);
    expect_refused([](grammar& p, grammar&) { p.offsets[1] = 1000; }, "target.bias", 1);
    expect_refused([](grammar& p, grammar&) { p.values.pop_back(); }, "target.bias.values.size", -1);
}

TEST(adjusted_batch, is_not_prepared) {
    ragged<float> b(ragged_shapes, 300, {{}});
    grammar const g(b, 1);
    auto const level = b.level_of(0);
    try {
        draft_batch(host_threads(1), draft::sequential{}, level.view(),
                    draft_rows(adjusted_batch(b.draft_logits(), g.adjustments())), b.requests(), b.children_of(level));
        ADD_FAILURE();
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), "out.states");
    }
}

TEST(rows_of_a_batch, take_their_fields_by_name) {
    std::vector<float> const numbers(20, 0.1F);
    std::vector<std::int64_t> const row_of{1, 0};
    logit_batch<float> const logits({.data = numbers.data(), .vocabulary = 10, .row_of = row_of.data()},
                                    {.default_sampling = {.temperature = 0.5F}});
    EXPECT_EQ(logits.view(1).size(), 10);
    EXPECT_EQ(logits.row(0), 1);
    EXPECT_EQ(logits.sampling_of(3).temperature, 0.5F);
    EXPECT_EQ(logit_batch<float>({.data = numbers.data(), .vocabulary = 10}).sampling_of(0), sampling_params{});
    probability_batch<float> const probabilities({.data = numbers.data(), .row_stride = 10, .vocabulary = 10});
    EXPECT_EQ(probabilities(host_group{}, 1, 0)(9), 0.1F);
    std::vector<row_state> const states(2);
    prepared_batch<float> const prepared({.data = numbers.data(), .vocabulary = 10}, states.data());
    EXPECT_EQ(prepared.states, states.data());
}

}  // namespace
}  // namespace adjusted_batch_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
