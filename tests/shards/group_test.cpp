// Every operation over ranks, one call after another: the bits of the host group, for any number of ranks and any
// ranges of columns.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/group_programs.hpp"
#include "support/thread_ranks.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace group_test {
namespace {

using bits = std::vector<std::uint64_t>;

/// Logits with ties, minus infinities and a few large ones.
template <class T>
std::vector<T> logits(index_t n, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<T> row(static_cast<std::size_t>(n));
    for (T& x : row) {
        double const u = numbers();
        double v = 6 * (numbers() + numbers() + numbers() - 1.5);
        if (u < 0.1) v = -std::numeric_limits<double>::infinity();
        if (u > 0.9) v = 1.25;
        if (u > 0.9995) v += 8;
        x = T(static_cast<float>(v));
    }
    row[static_cast<std::size_t>(n) / 2] = T(0.5F);
    return row;
}

/// The results of a program on two rows of logits.
template <class G, class View, class Program>
bits record_of(G const& g, View const& p, View const& q, sampling_params const& w, std::uint64_t seed,
               Program const& program) {
    std::vector<token_id> tokens(64);
    std::vector<node_id> path(16);
    struct alignas(16) block {
        std::byte bytes[16];
    };
    std::vector<block> scratch(tree_program_scratch / sizeof(block));
    bits out(recorder::capacity);
    recorder record(out.data());
    program(g, program_input_of<View>{p, q, w, seed, tokens.data(), path.data(), scratch.data()->bytes}, record);
    out.resize(static_cast<std::size_t>(record.size()));
    return out;
}

/// Rows of which each rank has some columns, and rows that are on every rank.
template <class T, class Program>
void expect_parity(Program const& program, index_t n, std::uint64_t seed, sampling_params const& w, int ranks,
                   cut how) {
    SCOPED_TRACE(std::to_string(n) + " columns on " + std::to_string(ranks) + " ranks, cut " +
                 std::to_string(static_cast<int>(how)));
    auto const p = logits<T>(n, seed);
    auto q = p;
    auto const other = logits<T>(n, seed + 100);
    for (std::size_t i = 0; i < q.size(); i += 3) q[i] = other[i];
    q[static_cast<std::size_t>(n) / 2] = T(0.5F);
    bits const expected =
        record_of(silent_group{}, row_view<T>(p.data(), n), row_view<T>(q.data(), n), w, seed, program);
    std::mutex one_at_a_time;
    run_ranks(ranks, [&](thread_rank& rank) {
        shards::column_range const mine = columns_by(how, n, ranks, rank.rank());
        shards::rank_team team(rank, mine);
        shards::shard_group const g(team);
        bits const whole = record_of(g, row_view<T>(p.data(), n), row_view<T>(q.data(), n), w, seed, program);
        // This rank's columns only, so that a read of any other is detected.
        std::vector<T> matrix(p.begin() + mine.begin, p.begin() + mine.end);
        matrix.insert(matrix.end(), q.begin() + mine.begin, q.begin() + mine.end);
        matrix.shrink_to_fit();
        shards::shard_batch<T> rows{matrix.data(), mine.size(), n};
        std::vector<std::int64_t> const nodes{0, 1};
        std::vector<std::byte> tails;
        team.complete(shards::incomplete_rows<T, contiguous>{&rows, nodes, {}, &tails});
        bits const parts = record_of(g, rows.view(0), rows.view(1), w, seed, program);
        std::scoped_lock const lock(one_at_a_time);
        EXPECT_EQ(whole, expected) << "rank " << rank.rank();
        EXPECT_EQ(parts, expected) << "rank " << rank.rank();
    });
}

struct operations {
    template <class G, class In>
    void operator()(G const& g, In const& in, recorder& record) const {
        run_operations(g, in, record);
        run_searches(g, in, record);
    }
};

TEST(shard_group, has_the_bits_of_the_host) {
    for (index_t const n : {1, 300, 4096, 9001, 50257}) {
        expect_parity<float>(operations{}, n, 3, {}, 3, cut::uneven);
        expect_parity<bfloat16>(operations{}, n, 4, {}, 2, cut::even);
    }
    for (cut const how : all_cuts)
        for (int const ranks : {1, 5, 8}) expect_parity<float16>(operations{}, 20000, 5, {}, ranks, how);
}

}  // namespace
}  // namespace group_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
