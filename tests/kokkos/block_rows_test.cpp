// Rows of a block drafter through Kokkos, with a term of the node's own token or of a few candidates: they give the
// verdicts of rows that were written out.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kokkos/machine.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/rows/low_rank_term.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/batches.hpp"
#include "support/candidate_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

/// The verdicts on the trees of `host` over these rows of the draft, for every size of teams.
template <class Rows>
void expect_verdicts(batch<float> const& host, index_t vocabulary, verdicts const& expected, Rows const& make_rows) {
    using verifier = verify::recursive_rejection<law::sequential>;
    auto const target = to_machine(host.target);
    auto const offsets = to_machine(host.offsets);
    auto const parents = to_machine(host.parents);
    auto const tokens = to_machine(host.tokens);
    auto const seeds = to_machine(host.seeds);
    auto const positions = to_machine(host.positions);
    auto const ids = to_machine(host.ids);
    auto const path = to_machine(std::vector<node_id>(expected.path.size(), -7));
    auto const accepted = to_machine(std::vector<std::int32_t>(expected.accepted.size()));
    auto const next = to_machine(std::vector<token_id>(expected.next.size()));
    tree_batch const trees{host.size(), static_cast<std::int64_t>(host.parents.size()), offsets.data(), parents.data(),
                           tokens.data()};
    logit_batch<float> const p{target.data(), vocabulary, vocabulary, nullptr, nullptr, host.w};
    auto const q = make_rows(tokens.data());
    for (int const size : team_sizes()) {
        auto const here = kokkos::on<own_group::type>(space(), {size});
        verify_batch(here, verifier{}, drawn_by<law::sequential>(trees), target_rows(p), draft_rows(q),
                     {seeds.data(), positions.data(), ids.data()},
                     {path.data(), host.path_stride, accepted.data(), next.data()});
        space().fence();
        EXPECT_EQ(to_host(accepted), expected.accepted);
        EXPECT_EQ(to_host(next), expected.next);
    }
}

TEST(kokkos_block_rows, with_a_term_of_the_parent_are_those_written_out) {
    constexpr index_t rank = 3;
    for (index_t const vocabulary : {300, 4999}) {
        batch<float> host(vocabulary, {.temperature = 0.9F, .top_p = 0.98F});
        host.draft_on_host(draft::sequential{});
        test_numbers numbers(7);
        std::vector<float> of_token(static_cast<std::size_t>(vocabulary * rank)), of_entry(of_token.size());
        for (auto* const weights : {&of_token, &of_entry})
            for (float& x : *weights) x = static_cast<float>(numbers() - 0.5);
        auto const w1 = to_machine(of_token);
        auto const w2 = to_machine(of_entry);
        auto const base = to_machine(host.draft);
        low_rank_term<float> const term{of_token.data(), of_entry.data(), rank};
        for (std::size_t i = 0; i < host.tokens.size(); ++i) {
            if (host.tokens[i] < 0) continue;
            float* const data = host.draft.data() + static_cast<std::ptrdiff_t>(i) * vocabulary;
            auto const row = term(row_view<float>(data, vocabulary), host.tokens[i]);
            for (index_t x = 0; x < vocabulary; ++x) data[x] = row(x);
        }
        auto const expected = host.verify_on_host(verify::recursive_rejection<law::sequential>{});
        expect_verdicts(host, vocabulary, expected, [&](token_id const* tokens) {
            return low_rank_batch(logit_batch<float>{base.data(), vocabulary, vocabulary, nullptr, nullptr, host.w},
                                  low_rank_term<float>{w1.data(), w2.data(), rank}, tokens);
        });
    }
}

TEST(kokkos_block_rows, of_candidates_are_those_written_out) {
    constexpr index_t candidates = 40;
    for (index_t const vocabulary : {300, 4999}) {
        batch<float> host(vocabulary, {.temperature = 0.9F, .top_p = 0.98F});
        auto const listed = keep_candidates(host.draft, vocabulary, candidates);
        host.draft_on_host(draft::sequential{});
        auto const logits = to_machine(listed.logits);
        auto const tokens = to_machine(listed.tokens);
        auto const expected = host.verify_on_host(verify::recursive_rejection<law::sequential>{});
        expect_verdicts(host, vocabulary, expected, [&](token_id const*) {
            return candidate_batch(logit_batch<float>{logits.data(), 0, vocabulary, nullptr, nullptr, host.w},
                                   tokens.data(), candidates);
        });
    }
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
