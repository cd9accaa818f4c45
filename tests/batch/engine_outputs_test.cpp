// Verdicts in engines' formats, compared with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace engine_outputs_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Many requests with their verdicts; one request could not be decided.
struct decided {
    explicit decided(std::int64_t path_stride) {
        batch.draw_alone(draft::sequential{});
        verdicts.emplace_back(batch.trees(), path_stride);
        verify_batch(host_threads(1), verify::recursive_rejection<law::sequential>{},
                     drawn_by<law::sequential>(batch.trees()), target_rows(batch.target_logits()),
                     draft_rows(batch.draft_logits()), batch.requests(), out());
        verdicts[0].next[3] = none;
        verdicts[0].accepted[3] = 0;
    }
    [[nodiscard]] verdict_batch out() { return verdicts[0].view(); }
    [[nodiscard]] std::vector<mt::outcome> outcomes() { return verdicts[0].outcomes(batch.trees()); }
    [[nodiscard]] token_id token(std::int32_t b, node_id v) const { return batch.tokens[at(batch.offsets[at(b)] + v)]; }

    static std::vector<std::vector<node_id>> many() {
        std::vector<std::vector<node_id>> result;
        for (int k = 0; k < 40; ++k) result.push_back(mt::ragged_shapes[at(k) % mt::ragged_shapes.size()]);
        return result;
    }
    mt::ragged<float> batch{many(), 30, mt::samplings_of_all_kinds};
    std::vector<mt::verdict_memory> verdicts;
};

template <class Id>
void writes_tokens(std::int64_t path_stride) {
    decided d(path_stride);
    constexpr std::int64_t stride = 6;
    auto const requests = d.batch.size();
    std::vector<Id> tokens(at(requests * stride), 99);
    std::vector<std::int32_t> counts(at(requests), 99);
    write_accepted_tokens(host_threads(2), d.batch.trees(), d.out(),
                          accepted_tokens<Id>{tokens.data(), stride, counts.data()});
    auto const outcomes = d.outcomes();
    for (std::int32_t b = 0; b < requests; ++b) {
        std::vector<Id> expected;
        for (node_id const v : outcomes[at(b)].path) expected.push_back(d.token(b, v));
        if (outcomes[at(b)].next != none) expected.push_back(outcomes[at(b)].next);
        EXPECT_EQ(counts[at(b)], static_cast<std::int32_t>(expected.size()));
        expected.resize(at(stride), -1);
        auto const* const mine = tokens.data() + b * stride;
        EXPECT_EQ(std::vector<Id>(mine, mine + stride), expected) << b;
    }
    EXPECT_EQ(counts[3], 0);
    EXPECT_TRUE(std::any_of(counts.begin(), counts.end(), [](auto n) { return n > 2; }));
}

TEST(accepted_tokens, are_the_path_what_follows_and_padding) {
    writes_tokens<std::int32_t>(0);
    writes_tokens<std::int64_t>(0);
    writes_tokens<std::int64_t>(5);
}

TEST(accepted_tokens, without_a_place_are_refused_on_a_host_and_left_out_in_a_launch) {
    decided d(0);
    auto const requests = d.batch.size();
    std::vector<std::int32_t> tokens(at(requests * 2), 99), counts(at(requests), 99);
    accepted_tokens<> const out{tokens.data(), 2, counts.data()};
    EXPECT_THROW(write_accepted_tokens(host_threads(1), d.batch.trees(), d.out(), out), invalid_input);
    EXPECT_EQ(tokens, std::vector<std::int32_t>(tokens.size(), 99));
    detail::write_accepted_token<token_id> const body{d.batch.trees(), d.out(), out};
    for (std::int64_t k = 0; k < requests * 2; ++k) body(k);
    auto const outcomes = d.outcomes();
    for (std::int32_t b = 0; b < requests; ++b) {
        auto const& one = outcomes[at(b)];
        EXPECT_EQ(counts[at(b)], one.next == none ? 0 : std::min(static_cast<int>(one.path.size()) + 1, 2));
        if (one.path.size() >= 2) {
            EXPECT_EQ(tokens[at(b * 2 + 1)], d.token(b, one.path[1]));
        }
    }
    EXPECT_THROW(write_accepted_tokens(host_threads(1), d.batch.trees(), d.out(), accepted_tokens<>{nullptr, 6}),
                 invalid_input);
    EXPECT_THROW(write_accepted_tokens(host_threads(1), d.batch.trees(), d.out(), accepted_tokens<>{tokens.data(), 0}),
                 invalid_input);
    write_accepted_tokens(host_threads(1), tree_batch{}, verdict_batch{}, accepted_tokens<>{});  // an empty batch
}

template <class Id>
void writes_indices(bool with_order, bool with_index) {
    decided d(0);
    constexpr std::int64_t stride = 6;
    auto const trees = d.batch.trees();
    // After the root the engine's nodes are in reverse order; its arrays have another order of nodes.
    std::vector<node_id> order(at(trees.nodes));
    std::vector<std::int64_t> index(at(trees.nodes));
    for (std::int32_t b = 0; b < trees.requests; ++b)
        for (node_id v = 0; v < trees.size(b); ++v)
            order[at(trees.offsets[b] + v)] = v == 0 || !with_order ? v : trees.size(b) - v;
    for (std::int64_t i = 0; i < trees.nodes; ++i) index[at(i)] = with_index ? trees.nodes - 1 - i : i;
    std::vector<Id> predicts(at(trees.nodes), 99), accept(at(trees.requests * stride), 99), num(at(trees.requests), 99);
    accepted_index<Id> const out{predicts.data(),
                                 accept.data(),
                                 stride,
                                 num.data(),
                                 with_order ? order.data() : nullptr,
                                 with_index ? index.data() : nullptr};
    write_accepted_index(host_threads(2), trees, d.out(), out);
    auto const outcomes = d.outcomes();
    std::vector<Id> expected(predicts.size(), 99);
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        auto const& one = outcomes[at(b)];
        std::vector<node_id> nodes{0};
        nodes.insert(nodes.end(), one.path.begin(), one.path.end());
        EXPECT_EQ(num[at(b)], static_cast<Id>(one.path.size()));
        for (std::size_t k = 0; k < at(stride); ++k) {
            Id const got = accept[at(b * stride) + k];
            if (k >= nodes.size()) {
                EXPECT_EQ(got, -1);
                continue;
            }
            std::int64_t const i = index[at(trees.offsets[b] + order[at(trees.offsets[b] + nodes[k])])];
            EXPECT_EQ(got, i);
            expected[at(i)] = k + 1 < nodes.size() ? d.token(b, nodes[k + 1]) : one.next;
        }
    }
    EXPECT_EQ(predicts, expected);
}

TEST(accepted_index, has_the_nodes_and_what_follows_each) {
    writes_indices<std::int32_t>(false, false);
    writes_indices<std::int64_t>(false, true);
    writes_indices<std::int32_t>(true, false);
    writes_indices<std::int32_t>(true, true);
}

TEST(accepted_index, of_a_shorter_stride_has_the_first_nodes) {
    decided d(0);
    auto const trees = d.batch.trees();
    std::vector<std::int32_t> predicts(at(trees.nodes), 99), accept(at(trees.requests * 2)), num(at(trees.requests));
    accepted_index<> const out{predicts.data(), accept.data(), 2, num.data()};
    EXPECT_THROW(write_accepted_index(host_threads(1), trees, d.out(), out), invalid_input);
    detail::write_accepted_index<std::int32_t> const body{trees, d.out(), out};
    for (std::int64_t k = 0; k < trees.requests * 2; ++k) body(k);
    auto const outcomes = d.outcomes();
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        auto const& path = outcomes[at(b)].path;
        EXPECT_EQ(num[at(b)], std::min(static_cast<int>(path.size()), 1));
        if (path.size() > 1) {
            EXPECT_EQ(predicts[at(accept[at(b * 2 + 1)])], d.token(b, path[1]));
        }
    }
}

TEST(verify_predictions, is_naive_verification_at_temperature_0) {
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        mt::ragged<float> batch(decided::many(), 7, {sampling_params{.temperature = 0.0F}}, seed);
        mt::test_numbers numbers(seed);
        for (token_id& x : batch.tokens) x = numbers.below(7);
        std::vector<std::int64_t> predicted, rows;
        for (std::int64_t i = 0; i < batch.trees().nodes; ++i) {
            auto const row = batch.target.begin() + i * 7;
            predicted.insert(predicted.begin(), std::max_element(row, row + 7) - row);
            rows.push_back(batch.trees().nodes - 1 - i);
        }
        mt::verdict_memory expected(batch.trees(), 0), got(batch.trees(), 0);
        verify_batch(host_threads(1), verify::naive<law::iid>{}, drawn_by<law::iid>(batch.trees()),
                     target_rows(batch.target_logits()), draft_rows(verify::no_draft_rows{}), batch.requests(),
                     expected.view());
        verify_predictions(host_threads(2), batch.trees(), prediction_batch<>{predicted.data(), rows.data()},
                           got.view());
        EXPECT_EQ(got.outcomes(batch.trees()), expected.outcomes(batch.trees()));
    }
}

TEST(verify_predictions, has_no_token_where_a_tree_a_path_or_a_prediction_cannot_be) {
    std::vector<std::int64_t> const offsets{0, 3, 6, 9};
    std::vector<node_id> const parents{none, 0, 1, none, 2, 1, none, 0, 1};
    std::vector<token_id> const tokens{0, 5, 6, 0, 5, 6, 0, 5, 6};
    std::vector<std::int32_t> const predicted{5, -1, 3, 5, 6, 3, 5, 6, 3};
    tree_batch const trees{3, 9, offsets.data(), parents.data(), tokens.data()};
    mt::verdict_memory got(trees, 1);
    verify_predictions(host_threads(1), trees, prediction_batch<std::int32_t>{predicted.data()}, got.view());
    EXPECT_EQ(got.next, (std::vector<token_id>{none, none, none}));
    EXPECT_EQ(got.accepted, (std::vector<std::int32_t>{0, 0, 0}));
    EXPECT_THROW(verify_predictions(host_threads(1), trees, prediction_batch<>{}, got.view()), invalid_input);
}

}  // namespace
}  // namespace engine_outputs_test
