// The token after the last accepted node: its law, and that it costs no pass beyond the row's normaliser.
#include "multidraft/verify/residual.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/scripted.hpp"

namespace emit_test {
namespace {

using namespace multidraft;

std::vector<float> logits_of(index_t n) {
    std::vector<float> row(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = 4.0F * std::sin(static_cast<float>(i * i % 1009));
    row[0] = minus_infinity<float>;
    return row;
}

// The u of a categorical draw runs through [0, 1) in N equal steps: a token of probability p gets N p of them, to one
// or two.
TEST(emit_at, has_the_law_of_the_row) {
    host_group const g;
    for (index_t const n : {1, 2, 300, 5000}) {
        int const steps = n < 5000 ? 20000 : 5000;
        std::vector<float> row = logits_of(n);
        if (n == 1) row[0] = 3.0F;
        for (sampling_params const& w : {sampling_params{}, sampling_params{0.5F, 0, 1.0F, 0.0F},
                                         sampling_params{1.0F, 40, 0.9F, 0.0F}, sampling_params{0.0F, 0, 1.0F, 0.0F}}) {
            logit_rows<float> const target(rows_view<float>(row.data(), 1, n), w);
            auto const p = target(g, 0);
            std::vector<int> counts(static_cast<std::size_t>(n));
            for (int k = 0; k < steps; ++k) {
                std::array<double, 1> const u{(k + 0.5) / steps};
                multidraft::testing::scripted_source source{span<double const>(u)};
                token_id const token = verify::emit_at(g, target, 0, source, draw_site{0, 0});
                ASSERT_TRUE(token >= 0 && token < n);
                ++counts[static_cast<std::size_t>(token)];
            }
            for (index_t i = 0; i < n; ++i) {
                ASSERT_NEAR(counts[static_cast<std::size_t>(i)], steps * static_cast<double>(p(i)), 2)
                    << i << " of " << n;
                ASSERT_TRUE(p(i) > 0.0F || counts[static_cast<std::size_t>(i)] == 0);
            }
        }
    }
}

/// A host group that counts its passes.
struct counting_group : host_group {
    int* passes;

    template <class W>
    [[nodiscard]] auto sum_chunks(index_t n, W const& w) const {
        ++*passes;
        return host_group::sum_chunks(n, w);
    }
    template <class X, class Real>
    [[nodiscard]] softmax_sums<Real> softmax(index_t n, X const& x, Real scale) const {
        ++*passes;
        return host_group::softmax(n, x, scale);
    }
};
static_assert(group<counting_group>);

/// A group that may not throw, as on a device.
struct silent_group : host_group {
    static constexpr bool throws = false;
};

TEST(emit_at, makes_one_pass_over_logits_and_one_over_probabilities) {
    index_t const n = 5000;
    std::vector<float> const row = logits_of(n);
    int passes = 0;
    counting_group g;
    g.passes = &passes;
    addressed_source source{addressed_uniforms(7, 0)};
    std::array<node_id, 1> const parents{none};
    std::array<token_id, 1> const tokens{0};
    drafted<law::sequential> const tree{tree_view{span<node_id const>(parents), span<token_id const>(tokens)}};
    std::array<node_id, 1> path{};
    logit_rows<float> const target(rows_view<float>(row.data(), 1, n), sampling_params{});
    verdict const v = verify::recursive_rejection<law::sequential>{}(g, tree, target_rows(target), draft_rows(target),
                                                                     source, 0, path);
    EXPECT_NE(v.next, none);
    EXPECT_EQ(passes, 1);
}

TEST(emit_at, gives_no_token_of_a_row_without_mass) {
    silent_group const g;
    addressed_source source{addressed_uniforms(7, 0)};
    for (float const bad : {minus_infinity<float>, std::nanf(""), -minus_infinity<float>}) {
        std::vector<float> const row(300, bad);
        logit_rows<float> const target(rows_view<float>(row.data(), 1, 300), sampling_params{});
        EXPECT_EQ(verify::emit_at(g, target, 0, source, draw_site{0, 0}), none);
    }
}

// A residual that vanished by rounding: the draw has the address of a residual, which no other draw of the node has.
TEST(emit_undrafted, draws_from_the_other_tokens_at_the_address_of_a_residual) {
    host_group const g;
    std::vector<double> const row{0.1, 0.2, 0.3, 0.4};
    probabilities<double> const p{row.data(), 4};
    std::vector<token_id> const rejected{3, 1};
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        addressed_source source{addressed_uniforms(seed, 0)};
        draw_site const site{5, 2};
        weight_of const w{p};
        auto sums = g.sum_chunks(4, w);
        for (token_id const x : rejected) g.update_chunk(sums, 4, w, span<token_id const>(rejected), x);
        token_id const expected =
            source.categorical(g, sums, 4, w, span<token_id const>(rejected), site(purpose::residual, 0));
        EXPECT_TRUE(expected == 0 || expected == 2);
        EXPECT_EQ(verify::emit_undrafted(g, p, span<token_id const>(rejected), source, site), expected) << seed;
    }
}

}  // namespace
}  // namespace emit_test
