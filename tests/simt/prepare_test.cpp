// Rows prepared on emulated lanes: the numbers, the predictions and the verdicts over them are the host's.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "batch/prepared.hpp"
#include "batch/ragged.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/emulated_group.hpp"

namespace prepare_test {
namespace {

using namespace multidraft;
namespace md = multidraft::detail;
namespace mt = multidraft::testing;

struct silent_host : host_group {
    static constexpr bool throws = false;
};

class simt_prepare : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    }
};

template <class Method, class T, int Threads, int Split>
void prepare_and_verify(int ranks, index_t vocabulary, std::uint64_t seed) {
    using verifier = typename Method::verifier;
    mt::ragged<T> b(mt::ragged_shapes_for(Method::trees), vocabulary, mt::samplings_of_all_kinds, seed);
    b.draw_alone(typename Method::sampler{});
    // One row of the target is not a distribution.
    for (index_t i = 0; i < vocabulary; ++i)
        b.target[static_cast<std::size_t>(b.offsets[5] * vocabulary + i)] = T(std::numeric_limits<float>::quiet_NaN());
    mt::prepared_memory host_p(b.trees().nodes, vocabulary), host_q = host_p, p = host_p, q = host_p;
    std::vector<std::int64_t> host_predicted(b.tokens.size(), 99), predicted = host_predicted;
    host_threads const pool(1);
    prepare_batch(pool, b.trees(), target_rows(b.target_logits()), host_p.out_with_runs());
    prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), host_q.out_with_runs());
    predict_batch(pool, b.trees(), target_rows(b.target_logits()), host_predicted.data());
    auto const on_lanes = [&](auto const& body) {
        for (std::int64_t i = 0; i < b.trees().nodes; ++i)
            mt::on_group<Threads, Split>(ranks, [&](auto const& g) { body(g, i); });
    };
    on_lanes(md::prepare_row<logit_batch<T>>{b.trees(), batch_argument::target, b.target_logits(), p.out_with_runs()});
    on_lanes(md::prepare_row<logit_batch<T>>{b.trees(), batch_argument::draft, b.draft_logits(), q.out_with_runs()});
    on_lanes(md::predict_row<logit_batch<T>, std::int64_t>{b.trees(), b.target_logits(), predicted.data()});
    for (std::size_t i = 0; i < b.tokens.size(); ++i) {
        EXPECT_TRUE(mt::same_state(p.states[i], host_p.states[i])) << i;
        EXPECT_TRUE(mt::same_state(q.states[i], host_q.states[i])) << i;
    }
    EXPECT_EQ(p.sums, host_p.sums);
    EXPECT_EQ(q.sums, host_q.sums);
    EXPECT_EQ(p.runs, host_p.runs);
    EXPECT_EQ(q.runs, host_q.runs);
    EXPECT_EQ(predicted, host_predicted);

    auto const verify_on = [&](auto const& target, auto const& draft, auto const& on_group) {
        std::vector<std::byte> scratch(verify::scratch_bytes<verifier>(10, 9));
        mt::verdict_memory got(b.trees(), 0);
        for (std::int32_t r = 0; r < b.size(); ++r) {
            scratch.assign(scratch.size(), std::byte{0xff});
            on_group([&](auto const& g) {
                md::verify_request(g, verifier{}, r, drawn_by<typename Method::law>(b.trees()), target_rows(target),
                                   draft_rows(draft), b.requests(), got.view(), span<std::byte>(scratch));
            });
        }
        return got.outcomes(b.trees());
    };
    auto const expected = verify_on(b.target_logits(), b.draft_logits(), [](auto const& body) { body(silent_host{}); });
    EXPECT_EQ(verify_on(p.rows_with_runs(b.target), q.rows_with_runs(b.draft),
                        [&](auto const& body) { mt::on_group<Threads, Split>(ranks, body); }),
              expected);
    EXPECT_EQ(expected[5].next, none);
    EXPECT_NE(expected[0].next, none);
}

TEST_F(simt_prepare, prepares_and_decides_as_the_host_does) {
    prepare_and_verify<methods::recursive_rejection_sequential, float, 32, 1>(1, 300, 1);
    prepare_and_verify<methods::recursive_rejection_sequential, bfloat16, 64, 2>(2, 9000, 2);
    prepare_and_verify<methods::traversal_sequential, float, 64, 1>(2, 5000, 3);
    prepare_and_verify<methods::naive_deterministic, float16, 64, 1>(1, 5000, 4);
}

// Chunk sums from memory, several times in a row and between sums of the group's own: every lane sees its own ones.
TEST_F(simt_prepare, reads_chunk_sums_from_memory) {
    constexpr index_t n = 5 * chunk_size + 7;
    std::vector<float> row(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i) row[static_cast<std::size_t>(i)] = static_cast<float>((i * 7919) % 101) * 0.01F;
    auto const w = [&row](index_t i) { return row[static_cast<std::size_t>(i)]; };
    auto const twice = [&row](index_t i) { return 2 * row[static_cast<std::size_t>(i)]; };
    auto const expected = host_group{}.sum_chunks(n, w);
    mt::on_group<64, 2>(4, [&](auto const& g) {
        for (int k = 0; k < 5; ++k) {
            double const u = 0.07 + 0.19 * k;
            auto const other = g.sum_chunks(n, twice);
            EXPECT_EQ(g.inverse_cdf(other, n, twice, u, {}), host_group{}.inverse_cdf(expected, n, w, u));
            auto const sums = g.sums_from(n, expected.values, expected.total);
            EXPECT_EQ(sums.total, expected.total);
            EXPECT_EQ(g.inverse_cdf(sums, n, w, u, {}), host_group{}.inverse_cdf(expected, n, w, u));
            index_t const only = 4099 * (k + 1) % n;
            auto const one = g.template sums_of_one<float>(n, only);
            auto const is_it = [only](index_t i) { return i == only ? 1.0F : 0.0F; };
            EXPECT_EQ(g.inverse_cdf(one, n, is_it, u, {}), only);
        }
    });
}

}  // namespace
}  // namespace prepare_test
