// Rows and parameters in engines' formats: arrays by slot, a draft with a smaller vocabulary, q of drawn tokens, lists
// of caches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

namespace engine_rows_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The parameters of some requests in separate arrays, at permuted slots.
struct by_slot {
    explicit by_slot(mt::ragged<float> const& b) : slots(at(b.size())) {
        auto const n = slots.size();
        for (auto* array : {&temperature, &top_p, &min_p}) array->assign(n + 2, -1.0F);
        top_k.assign(n + 2, -1);
        packed.assign(n + 2, sampling_params{.temperature = -1.0F});
        seeds.assign(n + 2, 0);
        ids.assign(n + 2, 0);
        positions.assign(n + 2, -1);
        for (std::size_t k = 0; k < n; ++k) {
            auto const slot = (k * 5 + 3) % (n + 2);  // n + 2 = 8 slots of 6 requests
            slots[k] = static_cast<std::int32_t>(slot);
            temperature[slot] = b.sampling[k].temperature;
            top_k[slot] = b.sampling[k].top_k;
            top_p[slot] = b.sampling[k].top_p;
            min_p[slot] = b.sampling[k].min_p;
            packed[slot] = b.sampling[k];
            seeds[slot] = b.seeds[k];
            ids[slot] = b.ids[k];
            positions[slot] = b.positions[k];
        }
    }
    [[nodiscard]] request_batch requests() const { return {seeds.data(), positions.data(), ids.data(), slots.data()}; }
    [[nodiscard]] logit_batch<float> in_arrays(logit_batch<float> rows) const {
        rows.sampling = nullptr;
        rows.arrays = {temperature.data(), top_k.data(), top_p.data(), min_p.data()};
        rows.slot_of = slots.data();
        return rows;
    }
    [[nodiscard]] logit_batch<float> in_one(logit_batch<float> rows) const {
        rows.sampling = packed.data();
        rows.slot_of = slots.data();
        return rows;
    }
    std::vector<std::int32_t> slots;
    std::vector<float> temperature, top_p, min_p;
    std::vector<index_t> top_k;
    std::vector<sampling_params> packed;
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint32_t> ids;
    std::vector<std::int32_t> positions;
};

TEST(engine_rows, have_parameters_in_arrays_by_slot) {
    using verifier = verify::recursive_rejection<law::sequential>;
    mt::ragged<float> b(mt::ragged_shapes, 300, mt::samplings_of_all_kinds);
    mt::ragged<float> again = b;
    b.draw_alone(draft::sequential{});
    by_slot const slots(again);
    host_threads const pool(2);
    again.draw_levels(
        [&](level_batch const& level, logit_batch<float> const& rows, request_batch const&, children_batch const& out) {
            draft_batch(pool, draft::sequential{}, level, draft_rows(slots.in_arrays(rows)), slots.requests(), out);
        });
    EXPECT_EQ(again.tokens, b.tokens);
    auto const expected = b.verify_alone<detail::host_batch_group>(verifier{});
    auto const check = [&](logit_batch<float> const& p, logit_batch<float> const& q) {
        mt::verdict_memory got(b.trees(), 0);
        verify_batch(pool, verifier{}, drawn_by<law::sequential>(b.trees()), target_rows(p), draft_rows(q),
                     slots.requests(), got.view());
        EXPECT_EQ(got.outcomes(b.trees()), expected);
        validation_report report;
        validate_batch(pool, tree_rules{}, drawn_by<law::sequential>(b.trees()), target_rows(p), draft_rows(q),
                       slots.requests(), &report);
        EXPECT_EQ(report.what, batch_argument::nothing);
    };
    check(slots.in_arrays(b.target_logits()), slots.in_arrays(b.draft_logits()));
    check(slots.in_one(b.target_logits()), b.draft_logits());  // target and draft may store them differently
    check(b.target_logits(), slots.in_arrays(b.draft_logits()));
}

TEST(engine_rows, in_arrays_have_the_default_where_there_is_no_array) {
    float const temperature[] = {0.5F, 0.25F};
    std::int32_t const slots[] = {1, 0};
    logit_batch<float> rows;
    rows.default_sampling = {.temperature = 3.0F, .top_k = 7};
    EXPECT_EQ(rows.sampling_of(1), rows.default_sampling);
    rows.arrays.temperature = temperature;
    rows.slot_of = slots;
    EXPECT_EQ(rows.sampling_of(0), (sampling_params{.temperature = 0.25F, .top_k = 7}));
    EXPECT_EQ(rows.sampling_of(1), (sampling_params{.temperature = 0.5F, .top_k = 7}));
}

TEST(engine_rows, refuse_invalid_slots_and_parameters) {
    mt::ragged<float> b(mt::ragged_shapes, 30, {sampling_params{}});
    b.draw_alone(draft::sequential{});
    host_threads const pool(1);
    by_slot slots(b);
    auto const reason = [&] {
        mt::verdict_memory got(b.trees(), 0);
        try {
            verify_batch(pool, verify::recursive_rejection<law::sequential>{}, drawn_by<law::sequential>(b.trees()),
                         target_rows(slots.in_arrays(b.target_logits())), draft_rows(b.draft_logits()),
                         slots.requests(), got.view());
        } catch (invalid_input const& e) {
            EXPECT_TRUE(got.is_unwritten());
            return e.argument() + '[' + std::to_string(e.index()) + ']';
        }
        return std::string("taken");
    };
    EXPECT_EQ(reason(), "taken");
    auto const slot = at(slots.slots[2]);
    slots.top_p[slot] = 0;
    EXPECT_EQ(reason(), "target.top_p[2]");
    slots.temperature[slot] = -1;
    EXPECT_EQ(reason(), "target.temperature[2]");
    slots.slots[2] = -1;
    EXPECT_EQ(reason(), "slot_of[2]");
    auto const own = slots.slots;
    slots = by_slot(b);
    auto p = slots.in_arrays(b.target_logits());
    p.slot_of = own.data();
    validation_report report;
    validate_batch(pool, tree_rules{}, drawn_by<law::sequential>(b.trees()), target_rows(p),
                   draft_rows(b.draft_logits()), slots.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::target_slot_of);
    EXPECT_EQ(report.request, 2);
    validate_batch(pool, tree_rules{}, drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                   draft_rows(p), slots.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::draft_slot_of);
}

TEST(engine_rows, give_q_of_drawn_tokens) {
    mt::ragged<float> b(mt::ragged_shapes, 40, mt::samplings_of_all_kinds);
    std::vector<float> chances(b.tokens.size(), 77.0F);
    b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows, request_batch const& requests,
                      children_batch out) {
        out.probabilities = chances.data();
        draft_batch(host_threads(2), draft::sequential{}, level, draft_rows(rows), requests, out);
        for (std::int32_t e = 0; e < level.entries; ++e) {
            auto const q = rows(host_group{}, e, level.requests[e]);
            for (std::int32_t k = 0; k < level.wanted[e]; ++k) {
                auto const i = at(out.first[e] + k);
                EXPECT_EQ(chances[i], is_absent(b.tokens[i]) ? 0.0F : q(b.tokens[i]));
            }
        }
    });
    EXPECT_EQ(std::count(chances.begin(), chances.end(), 77.0F), b.size());  // the roots
}

/// A batch whose draft has every other token of the target's vocabulary, and a copy with rows in the full vocabulary.
struct narrow {
    static constexpr index_t small = 150, large = 300;
    narrow() : b(mt::ragged_shapes, small, mt::samplings_of_all_kinds), wide(at(b.trees().nodes * large), 0.0F) {
        mt::test_numbers numbers(5);
        for (index_t k = 0; k < small; ++k) token_of.push_back((k * 2 + 1) % large);
        for (index_t k = small - 1; k > 0; --k) std::swap(token_of[at(k)], token_of[at(numbers.below(k + 1))]);
        draft_of.resize(at(large));
        invert_vocabulary(token_of, draft_of);
        for (std::int64_t i = 0; i < b.trees().nodes * large; ++i)
            target.push_back(static_cast<float>(2.5 * numbers.normal() - 4));
        // The target is close to the draft on the draft's tokens.
        for (std::int64_t i = 0; i < b.trees().nodes; ++i)
            for (index_t k = 0; k < small; ++k)
                target[at(i * large + token_of[at(k)])] = b.draft[at(i * small + k)] + static_cast<float>(numbers());
    }
    [[nodiscard]] logit_batch<float> target_logits() const {
        return {target.data(), large, large, nullptr, b.sampling.data()};
    }
    [[nodiscard]] vocabulary_map map() const { return {draft_of.data(), large}; }

    mt::ragged<float> b;
    std::vector<float> wide, target;
    std::vector<token_id> token_of;
    std::vector<index_t> draft_of;
};

template <class Verifier>
void verifies_widened(narrow& n) {
    host_threads const pool(2);
    auto const trees = n.b.trees();
    verify::scratch_memory scratch;
    auto const bytes = verify_workspace_size<Verifier>(pool, trees.requests, 10, 9);
    auto const verify_with = [&](auto const& q) {
        mt::verdict_memory got(trees, 0);
        verify_batch(pool, Verifier{}, drawn_by<typename Verifier::law>(trees), target_rows(n.target_logits()),
                     draft_rows(q), n.b.requests(), got.view(), scratch.of(bytes));
        return got.outcomes(trees);
    };
    auto const expected = verify_with(probability_batch<float>{n.wide.data(), narrow::large, narrow::large});
    EXPECT_EQ(verify_with(widened_batch(n.b.draft_logits(), n.map())), expected);
    EXPECT_EQ(verify_with(widened_batch(n.b.prepared(), n.map())), expected);
    EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [](auto const& one) { return !one.path.empty(); }));
}

TEST(engine_rows, may_have_a_smaller_vocabulary) {
    narrow n;
    std::vector<float> chances(n.b.tokens.size());
    n.b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows, request_batch const& requests,
                        children_batch out) {
        out.token_of = n.token_of.data();
        out.probabilities = chances.data();
        draft_batch(host_threads(2), draft::sequential{}, level, draft_rows(rows), requests, out);
        for (std::int32_t e = 0; e < level.entries; ++e) {
            auto const q = rows(host_group{}, e, level.requests[e]);
            std::int64_t const i = out.node_index[e];
            for (index_t k = 0; k < narrow::small; ++k) n.wide[at(i * narrow::large + n.token_of[at(k)])] = q(k);
            for (std::int32_t k = 0; k < level.wanted[e]; ++k) {
                auto const child = at(out.first[e] + k);
                token_id const x = n.b.tokens[child];
                if (is_absent(x)) continue;
                EXPECT_EQ(chances[child], n.wide[at(i * narrow::large + x)]);
                EXPECT_GT(chances[child], 0.0F);
            }
        }
    });
    verifies_widened<verify::recursive_rejection<law::sequential>>(n);
    verifies_widened<verify::traversal<law::sequential>>(n);
    // Invalid draft rows are found, and the vocabulary is the target's.
    host_threads const pool(1);
    validation_report report;
    auto const validate = [&](auto const& q) {
        validate_batch(pool, tree_rules{}, drawn_by<law::sequential>(n.b.trees()), target_rows(n.target_logits()),
                       draft_rows(q), n.b.requests(), &report);
        return report.what;
    };
    EXPECT_EQ(validate(widened_batch(n.b.draft_logits(), n.map())), batch_argument::nothing);
    n.b.draft[at(narrow::small + 3)] = std::numeric_limits<float>::quiet_NaN();  // of node 1, which has children
    EXPECT_EQ(validate(widened_batch(n.b.draft_logits(), n.map())), batch_argument::draft);
    EXPECT_EQ(report.index, 1);
    EXPECT_EQ(report.token, 3);
    auto cold = n.b.draft_logits();
    cold.sampling = nullptr;
    cold.default_sampling.temperature = -1;
    EXPECT_EQ(validate(widened_batch(cold, n.map())), batch_argument::draft_temperature);
    EXPECT_THROW(validate(widened_batch(n.b.draft_logits(), {nullptr, narrow::large})), invalid_input);
    EXPECT_THROW(validate(widened_batch(n.b.draft_logits(), {n.draft_of.data(), narrow::large - 1})), invalid_input);
    EXPECT_THROW(validate(widened_batch(logit_batch<float>{nullptr, 0, narrow::small}, n.map())), invalid_input);
}

TEST(engine_rows, caches_of_a_list_are_compacted_in_one_call) {
    // Three layers with separate keys and values, each [slots, 2 heads, 4 floats]; a table with a slot per token.
    constexpr std::int64_t slots = 24, heads = 2, width = 4, entry = heads * width;
    std::vector<std::vector<float>> caches(6, std::vector<float>(slots * entry));
    std::vector<void*> list;
    for (std::size_t c = 0; c < caches.size(); ++c) {
        for (std::size_t i = 0; i < caches[c].size(); ++i) caches[c][i] = static_cast<float>(c * 1000 + i);
        list.push_back(caches[c].data());
    }
    auto const before = caches;
    std::vector<std::int32_t> const table{5, 0, 7, 3, 9, 11, 2, 23, 20, 21, 4, 1};  // two requests of six tokens
    std::vector<node_id> const nodes{2, 3, 1, 3};
    std::vector<std::int32_t> const counts{2, 2};
    std::vector<std::int64_t> const bases{1, 2};
    kept_batch const kept{2, nodes.data(), 2, counts.data(), bases.data()};
    paged_cache cache;
    cache.pages.table = table.data();
    cache.pages.table_stride = 6;
    cache.pages.entries = 1;
    cache.pages.page_stride = entry * 4;
    cache.entry_stride = entry * 4;
    cache.entry_bytes = entry * 4;
    cache.list = list.data();
    cache.listed = 6;
    cache.list_alignment = 4;
    auto expected = before;
    for (std::size_t c = 0; c < caches.size(); ++c)
        for (int b = 0; b < 2; ++b)
            for (int k = 0; k < 2; ++k) {
                auto const slot = [&](std::int64_t t) { return table[at(b * 6 + bases[at(b)] + t)]; };
                std::copy_n(before[c].begin() + slot(nodes[at(b * 2 + k)]) * entry, entry,
                            expected[c].begin() + slot(1 + k) * entry);
            }
    compact_caches(host_threads(2), cache, kept);
    EXPECT_EQ(caches, expected);

    // One allocation per layer, separate heads, no pages.
    caches = before;
    contiguous_cache flat;
    flat.list = list.data();
    flat.listed = 6;
    flat.list_alignment = 4;
    flat.request_stride = 12 * entry * 4;
    flat.entry_stride = entry * 4;
    flat.entry_bytes = width * 4;
    flat.axes[0] = {heads, width * 4};
    expected = before;
    for (std::size_t c = 0; c < caches.size(); ++c)
        for (int b = 0; b < 2; ++b)
            for (int k = 0; k < 2; ++k)
                std::copy_n(before[c].begin() + (b * 12 + bases[at(b)] + nodes[at(b * 2 + k)]) * entry, entry,
                            expected[c].begin() + (b * 12 + bases[at(b)] + 1 + k) * entry);
    compact_caches(host_threads(1), flat, kept);
    EXPECT_EQ(caches, expected);

    auto const refuses = [&](auto&& change) {
        auto wrong = flat;
        change(wrong);
        EXPECT_THROW(compact_caches(host_threads(1), wrong, kept), invalid_input);
    };
    refuses([](auto& c) { c.listed = 0; });
    refuses([](auto& c) { c.list = nullptr; });
    refuses([](auto& c) { c.entry_stride = 1; });
    refuses([](auto& c) { c.axes[0].stride = 0; });
    EXPECT_EQ(caches, expected);
    compact_caches(host_threads(1), contiguous_cache{}, kept_batch{});  // an empty batch
}

}  // namespace
}  // namespace engine_rows_test
