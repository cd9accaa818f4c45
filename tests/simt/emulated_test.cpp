// The source of the CUDA groups, run thread by thread on the CPU: every result has the bits of the host group.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/cuda/simt_group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/emulated_lanes.hpp"
#include "support/group_programs.hpp"

namespace emulated_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;
using mt::operations;
using mt::program_input;
using mt::recorder;
using mt::samplers;
using mt::searches;
using mt::simt_emulator;
using mt::test_numbers;
using mt::verifiers;

// Sums in shared memory are used once: a sampler that removes tokens from them leaves none to draw from again.
static_assert(std::is_move_constructible_v<shared_chunk_sums<float>> &&
              !std::is_copy_constructible_v<shared_chunk_sums<float>>);

using bits = std::vector<std::uint64_t>;
using order = simt_emulator::order;

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

/// Rows, and the memory that the lanes of a group share.
template <class T>
struct fixture {
    fixture(index_t n, std::uint64_t seed, sampling_params w_) : p(logits<T>(n, seed)), q(p), w(w_), seed_(seed) {
        auto const other = logits<T>(n, seed + 100);
        for (std::size_t i = 0; i < q.size(); i += 3) q[i] = other[i];
        q[static_cast<std::size_t>(n) / 2] = T(0.5F);
    }
    [[nodiscard]] program_input<T> input() {
        auto const n = static_cast<index_t>(p.size());
        return {row_view<T>(p.data(), n), row_view<T>(q.data(), n), w, seed_, tokens, path, scratch};
    }
    std::vector<T> p, q;
    sampling_params w;
    std::uint64_t seed_;
    token_id tokens[64] = {};
    node_id path[16] = {};
    alignas(16) std::byte scratch[mt::tree_program_scratch] = {};
};

template <class Program, class Input>
bits on_host(Program const& program, Input const& in) {
    bits out(recorder::capacity);
    recorder record(out.data());
    program(host_group{}, in, record);
    EXPECT_LE(record.size(), recorder::capacity);
    out.resize(static_cast<std::size_t>(record.size()));
    return out;
}

/// Runs the program on an emulated group; every thread must get the host group's results.
template <int Threads, int Split, class Program, class T, int Wide = 1>
void expect_parity(int ranks, Program const& program, index_t n, std::uint64_t seed, sampling_params w, order o) {
    using lanes = mt::emulated_lanes<Threads>;
    using group_type = cuda::simt_group<lanes, Split, float, Wide>;
    static_assert(group<group_type>);
    using storage = typename group_type::storage;

    fixture<T> rows(n, seed, w);
    bits const expected = on_host(program, rows.input());
    std::vector<node_id> const path(rows.path, rows.path + 16);
    std::fill(rows.path, rows.path + 16, 0);

    std::vector<storage> shared(static_cast<std::size_t>(ranks));
    simt_emulator emulator(ranks, Threads, o);
    auto const in = rows.input();
    int wrong = 0;
    std::string first;
    emulator.run([&](int rank, int thread) {
        bits got(recorder::capacity);
        recorder record(got.data());
        group_type const g(lanes(emulator, rank, thread, sizeof(storage)), shared[static_cast<std::size_t>(rank)]);
        program(g, in, record);
        got.resize(static_cast<std::size_t>(record.size()));
        if (got == expected) return;
        if (wrong++ == 0) {
            std::size_t k = 0;
            while (k < got.size() && k < expected.size() && got[k] == expected[k]) ++k;
            first = "rank " + std::to_string(rank) + " thread " + std::to_string(thread) + " result " +
                    std::to_string(k) + " of " + std::to_string(expected.size());
            if (k < got.size() && k < expected.size())
                first += ": " + std::to_string(got[k]) + " instead of " + std::to_string(expected[k]);
        }
    });
    EXPECT_EQ(wrong, 0) << "ranks " << ranks << ", threads " << Threads << ", split " << Split << ", V " << n
                        << ", order " << static_cast<int>(o) << ", first at " << first;
    EXPECT_EQ(std::vector<node_id>(rows.path, rows.path + 16), path);
}

/// The same for the blocks of a grid, which exchange data in memory.
template <int Threads, int Split, class Program, class T, int Wide = 1>
void expect_grid_parity(int ranks, Program const& program, index_t n, std::uint64_t seed, sampling_params w, order o) {
    using lanes = mt::emulated_grid_lanes<Threads>;
    using group_type = cuda::simt_group<lanes, Split, float, Wide>;
    static_assert(group<group_type>);
    using storage = typename group_type::storage;
    fixture<T> rows(n, seed, w);
    bits const expected = on_host(program, rows.input());
    std::vector<storage> shared(static_cast<std::size_t>(ranks));
    auto const memory = std::make_unique<mt::emulated_grid_memory<storage>>();
    simt_emulator emulator(ranks, Threads, o);
    auto const in = rows.input();
    int wrong = 0;
    emulator.run([&](int rank, int thread) {
        bits got(recorder::capacity);
        recorder record(got.data());
        storage& mine = shared[static_cast<std::size_t>(rank)];
        group_type const g(lanes(emulator, rank, thread, mine, *memory), mine);
        program(g, in, record);
        got.resize(static_cast<std::size_t>(record.size()));
        wrong += got == expected ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0) << "blocks " << ranks << ", threads " << Threads << ", split " << Split << ", V " << n
                        << ", order " << static_cast<int>(o);
}

#if FIBRE_ASAN
constexpr index_t sizes[] = {1, 257, 4097};
constexpr bool sanitized = true;  // one of each kind: sanitizers make this ten times slower
#else
constexpr index_t sizes[] = {1, 31, 255, 257, 4095, 4097, 32000};
constexpr bool sanitized = false;
#endif
constexpr order orders[] = {order::first_come, order::last_come, order::warp_by_warp};

/// A warp, a block and a cluster; one and several warps per chunk.
template <class Program>
void all_groups(Program const& program, index_t n, std::uint64_t seed, sampling_params w, order o) {
    expect_parity<32, 1, Program, float>(1, program, n, seed, w, o);
    expect_parity<256, 1, Program, float>(1, program, n, seed, w, o);
    expect_parity<256, 4, Program, float>(1, program, n, seed, w, o);
    expect_parity<64, 2, Program, float>(2, program, n, seed, w, o);
    expect_parity<64, 1, Program, float>(4, program, n, seed, w, o);
}

class emulated : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    }
};

TEST_F(emulated, operations_have_the_bits_of_the_host_group) {
    for (index_t const n : sizes) all_groups(operations{}, n, static_cast<std::uint64_t>(n), {}, orders[n % 3]);
    for (order const o : orders) all_groups(operations{}, 4097, 7, {}, o);
}

TEST_F(emulated, operations_over_half_and_bfloat16) {
    for (index_t const n : {257, 4097}) {
        expect_parity<256, 8, operations, float16>(1, {}, n, 5, {}, order::first_come);
        expect_parity<64, 2, operations, bfloat16>(2, {}, n, 6, {}, order::last_come);
    }
}

// Threads that read more adjacent entries than they have lanes: two, four and eight rows at once.
TEST_F(emulated, operations_that_read_several_rows_at_once) {
    for (index_t const n : sizes) {
        order const o = orders[n % 3];
        expect_parity<64, 2, operations, bfloat16, 8>(2, {}, n, 11, {}, o);
        expect_parity<128, 4, operations, bfloat16, 8>(1, {}, n, 12, {}, o);
        expect_parity<256, 8, operations, float, 8>(1, {}, n, 13, {}, o);
        expect_parity<128, 4, operations, float, 4>(3, {}, n, 14, {}, o);
    }
    if (sanitized) return;
    expect_parity<256, 2, operations, bfloat16, 8>(8, {}, 128256, 1, {}, order::first_come);
    expect_grid_parity<256, 2, operations, bfloat16, 8>(16, {}, 151937, 2, {}, order::warp_by_warp);
}

TEST_F(emulated, operations_over_a_large_vocabulary) {
    if (sanitized) GTEST_SKIP() << "slow with sanitizers";
    expect_parity<256, 1, operations, float>(1, {}, 128256, 1, {}, order::first_come);
    expect_parity<256, 4, operations, float>(4, {}, 128256, 2, {}, order::warp_by_warp);
    expect_parity<64, 1, operations, float>(8, {}, 151936, 3, {}, order::last_come);
}

// More chunks than the kept sums: sums are computed in windows.
TEST_F(emulated, operations_over_more_chunks_than_sums_are_kept_of) {
    if (sanitized) GTEST_SKIP() << "slow with sanitizers";
    expect_parity<64, 1, operations, float>(2, {}, 257 * 4096 + 300, 4, {}, order::first_come);
    expect_parity<64, 2, operations, float>(1, {}, 257 * 4096 + 300, 5, {}, order::last_come);
}

// Searches over up to eight windows of a warp, and in rows with more chunks than the kept sums.
TEST_F(emulated, searches_find_the_tokens_of_the_host_group) {
    for (index_t const n : sizes) all_groups(searches{}, n, static_cast<std::uint64_t>(n) + 3, {}, orders[n % 3]);
    for (order const o : orders) {
        all_groups(searches{}, 4097, 8, {}, o);
        expect_grid_parity<64, 2, searches, float>(3, {}, 9000, 9, {}, o);
        expect_parity<128, 4, searches, bfloat16>(2, {}, 9000, 10, {}, o);
    }
    if (sanitized) return;
    for (index_t const chunks : {33, 64, 100, 256})
        expect_parity<64, 1, searches, float>(1, {}, chunks * 4096 - 7, 11, {}, orders[chunks % 3]);
    expect_parity<256, 2, searches, float>(2, {}, 256 * 4096 + 1, 12, {}, order::warp_by_warp);
}

TEST_F(emulated, operations_of_a_grid_have_the_bits_of_the_host_group) {
    for (index_t const n : sizes)
        expect_grid_parity<64, 1, operations, float>(5, {}, n, static_cast<std::uint64_t>(n), {}, orders[n % 3]);
    for (order const o : orders) {
        expect_grid_parity<64, 2, operations, float>(3, {}, 4097, 7, {}, o);
        expect_grid_parity<128, 4, operations, bfloat16>(7, {}, 9000, 8, {}, o);
        expect_grid_parity<64, 1, samplers, float>(4, {}, 9000, 9, {}, o);
        expect_grid_parity<64, 2, verifiers, float>(6, {}, 9000, 10, {.temperature = 0.7F, .top_p = 0.9F}, o);
    }
    if (sanitized) return;
    expect_grid_parity<256, 4, operations, float>(33, {}, 128256, 2, {}, order::warp_by_warp);
    expect_grid_parity<256, 4, verifiers, float>(16, {}, 1 << 20, 2, {}, order::first_come);
    expect_grid_parity<64, 1, operations, float>(32, {}, 257 * 4096 + 300, 4, {}, order::last_come);
}

constexpr sampling_params samplings[] = {{}, {.temperature = 0.7F, .top_k = 40, .top_p = 0.95F}, {.temperature = 0.0F}};

TEST_F(emulated, samplers_draw_the_tokens_of_the_host_group) {
    for (index_t const n : sizes)
        all_groups(samplers{}, n, static_cast<std::uint64_t>(n) + 1, samplings[n % 3], orders[n % 3]);
    for (sampling_params const& w : samplings) all_groups(samplers{}, 4097, 1, w, order::first_come);
    if (sanitized) return;
    expect_parity<256, 1, samplers, float>(1, {}, 128256, 3, {}, order::first_come);
    expect_parity<256, 4, samplers, bfloat16>(4, {}, 128256, 4, samplings[1], order::last_come);
    expect_parity<256, 2, samplers, bfloat16, 8>(2, {}, 32003, 4, samplings[1], order::warp_by_warp);
}

TEST_F(emulated, verifiers_decide_as_with_the_host_group) {
    for (index_t const n : sizes)
        all_groups(verifiers{}, n, static_cast<std::uint64_t>(n) + 2, samplings[n % 3], orders[(n + 1) % 3]);
    for (sampling_params const& w : samplings) all_groups(verifiers{}, 4097, 1, w, order::first_come);
    if (sanitized) return;
    expect_parity<64, 2, verifiers, float16>(2, {}, 4097, 9, {}, order::first_come);
    expect_parity<256, 1, verifiers, float>(1, {}, 128256, 3, {}, order::first_come);
    expect_parity<256, 4, verifiers, bfloat16>(4, {}, 128256, 4, samplings[1], order::warp_by_warp);
    expect_parity<256, 2, verifiers, bfloat16, 8>(8, {}, 128256, 4, samplings[1], order::first_come);
    expect_parity<256, 2, verifiers, float, 4>(2, {}, 32003, 5, {}, order::last_come);
}

TEST_F(emulated, rows_of_one_value_and_rows_without_mass) {
    using lanes = mt::emulated_lanes<64>;
    using group_type = cuda::simt_group<lanes, 1>;
    constexpr float low = -std::numeric_limits<float>::infinity();
    float const nan = std::numeric_limits<float>::quiet_NaN();
    for (index_t const n : {1, 300, 5000}) {
        for (float const value : {low, 0.0F, 1.0F, nan}) {
            std::vector<float> const row(static_cast<std::size_t>(n), value);
            row_view<float> const x(row.data(), n);
            host_group const host;
            std::vector<group_type::storage> shared(2);
            simt_emulator emulator(2, 64);
            int checked = 0;
            emulator.run([&](int rank, int thread) {
                group_type const g(lanes(emulator, rank, thread, sizeof(group_type::storage)),
                                   shared[static_cast<std::size_t>(rank)]);
                EXPECT_EQ(g.max(n, x), host.max(n, x));
                EXPECT_EQ(g.argmax(n, x), host.argmax(n, x));
                auto const sums = g.softmax(n, x, 1.0F);
                auto const expected = host.softmax(n, x, 1.0F);
                EXPECT_EQ(sums.largest, expected.largest);
                EXPECT_TRUE(sums.sums.total == expected.sums.total ||
                            (sums.sums.total != sums.sums.total && expected.sums.total != expected.sums.total));
                ++checked;
            });
            EXPECT_EQ(checked, 128);
        }
    }
}

// The emulator itself: the faults that it must detect.
TEST(emulator, finds_threads_that_wait_for_ever_and_warps_that_part) {
    simt_emulator emulator(1, 64);
    using lanes = mt::emulated_lanes<64>;
    EXPECT_THROW(emulator.run([&](int rank, int thread) {
        lanes const l(emulator, rank, thread, 0);
        if (thread != 3) l.sync();
    }),
                 std::logic_error);
    EXPECT_THROW(emulator.run([&](int rank, int thread) {
        lanes const l(emulator, rank, thread, 0);
        static_cast<void>(thread < 8 ? l.shuffle_xor(1, 16) : l.shuffle_xor(1, 8));
    }),
                 std::logic_error);
}

TEST(emulator, shows_a_missing_barrier) {
    bool seen = false;
    for (order const o : orders) {
        simt_emulator emulator(1, 64, o);
        int shared[64] = {};
        emulator.run([&](int, int thread) {
            shared[thread] = thread + 1;
            if (shared[63 - thread] != 64 - thread) seen = true;
        });
    }
    EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace emulated_test
