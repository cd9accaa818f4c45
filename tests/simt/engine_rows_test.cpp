// A draft with a smaller vocabulary on emulated lanes: draws, their q and verdicts are those of the host.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/emulated_group.hpp"

namespace engine_rows_test {
namespace {

using namespace multidraft;
namespace md = multidraft::detail;
namespace mt = multidraft::testing;

struct silent_host : host_group {
    static constexpr bool throws = false;
};

TEST(simt_engine_rows, of_a_smaller_vocabulary_are_drawn_and_verified_as_on_a_host) {
    if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    constexpr index_t small = 500, large = 5000;
    mt::test_numbers numbers(5);
    std::vector<token_id> token_of;
    for (index_t k = 0; k < small; ++k) token_of.push_back(large - 1 - 9 * k);
    std::vector<index_t> draft_of(static_cast<std::size_t>(large));
    invert_vocabulary(token_of, draft_of);
    mt::ragged<float> on_host(mt::ragged_shapes, small, mt::samplings_of_all_kinds);
    mt::ragged<float> on_lanes = on_host;
    std::vector<float> q_on_host(on_host.tokens.size(), 77.0F), q_on_lanes = q_on_host, target;
    auto const draw = [&](mt::ragged<float>& b, std::vector<float>& q, auto const& on_group) {
        b.draw_levels([&](level_batch const& level, logit_batch<float> const& rows, request_batch const& requests,
                          children_batch out) {
            out.probabilities = q.data();
            out.token_of = token_of.data();
            for (std::int32_t e = 0; e < level.entries; ++e)
                on_group(
                    [&](auto const& g) { md::draft_entry(g, draft::sequential{}, e, level, rows, requests, out); });
        });
    };
    auto const host = [](auto const& body) { body(silent_host{}); };
    auto const lanes = [](auto const& body) { mt::on_group<64, 2>(2, body); };
    draw(on_host, q_on_host, host);
    draw(on_lanes, q_on_lanes, lanes);
    EXPECT_EQ(on_lanes.tokens, on_host.tokens);
    EXPECT_EQ(q_on_lanes, q_on_host);

    for (std::int64_t i = 0; i < on_host.trees().nodes; ++i) {
        for (token_id x = 0; x < large; ++x) target.push_back(static_cast<float>(numbers.normal()));
        for (index_t k = 0; k < small; ++k)
            target[static_cast<std::size_t>(i * large + token_of[static_cast<std::size_t>(k)])] =
                on_host.draft[static_cast<std::size_t>(i * small + k)] + 2.0F;
    }
    logit_batch<float> const p{target.data(), large, large, nullptr, on_host.sampling.data()};
    auto const verify_on = [&](auto const& q, auto const& on_group) {
        mt::verdict_memory got(on_host.trees(), 0);
        for (std::int32_t b = 0; b < on_host.size(); ++b)
            on_group([&](auto const& g) {
                md::verify_request(g, verify::recursive_rejection<law::sequential>{}, b,
                                   drawn_by<law::sequential>(on_host.trees()), target_rows(p), draft_rows(q),
                                   on_host.requests(), got.view());
            });
        return got.outcomes(on_host.trees());
    };
    vocabulary_map const map{draft_of.data(), large};
    auto const expected = verify_on(widened_batch(on_host.draft_logits(), map), host);
    EXPECT_EQ(verify_on(widened_batch(on_host.draft_logits(), map), lanes), expected);
    EXPECT_EQ(verify_on(widened_batch(on_lanes.prepared(), map), lanes), expected);
    std::size_t accepted = 0;
    for (auto const& one : expected) accepted += one.path.size();
    EXPECT_GT(accepted, 2U);
}

}  // namespace
}  // namespace engine_rows_test
