// Allocations of methods by name.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "costs/allocations.hpp"
#include "multidraft/methods/any_method.hpp"
#include "multidraft/rows/logit_rows.hpp"

namespace any_method_costs_test {
namespace {

using namespace multidraft;
using multidraft::testing::allocations;

// Methods by name allocate nothing, and with `method_memory` nothing from the second call on. Remembered rows make no
// difference.
TEST(costs, methods_by_name_allocate_nothing) {
    constexpr index_t vocabulary = 50;
    std::vector<float> logits;
    for (index_t i = 0; i < 5 * vocabulary; ++i) logits.push_back(static_cast<float>((i * 37) % 23) * 0.2F);
    logit_rows<float> const rows(rows_view<float>(logits.data(), 5, vocabulary), sampling_params{});
    auto const row = [&](std::size_t v) { return row_view<float>(logits.data() + v * vocabulary, vocabulary); };
    for (std::string_view const name : method_names()) {
        any_method const m = parse_method(name);
        std::vector<node_id> const parents{none, 0, 1, 2, 3};
        std::vector<token_id> tokens(5);
        std::vector<index_t> certain(5);
        std::vector<node_id> path(5);
        std::vector<std::byte> scratch(m.scratch_bytes(5, 4));
        method_memory<logit_rows<float>> memory;
        draw_key const key{.seed = 3, .position = 7};
        allocations = 0;
        for (std::size_t v = 0; v < 4; ++v)
            certain[v] = m.draw(row(v), sampling_params{}, key, {static_cast<node_id>(v), static_cast<std::int32_t>(v)},
                                {tokens.data() + v + 1, 1})
                             .certain;
        any_drafted const drafts{{parents, tokens}, certain, m.law_name()};
        verdict const first = m.verify(drafts, target_rows(rows), draft_rows(rows), key, path, scratch);
        EXPECT_EQ(allocations, 0) << name;
        verdict const second = m.verify(drafts, target_rows(rows), draft_rows(rows), key, path, memory);
        allocations = 0;
        verdict const third = m.verify(drafts, target_rows(rows), draft_rows(rows), key, path, memory);
        EXPECT_EQ(allocations, 0) << name;
        for (verdict const& v : {second, third}) {
            EXPECT_EQ(v.accepted, first.accepted) << name;
            EXPECT_EQ(v.next, first.next) << name;
        }
    }
}

}  // namespace
}  // namespace any_method_costs_test
