// Rows with masks and biases on the source of the CUDA groups: the bits of the host group, and of rows changed
// beforehand.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/cuda/simt_group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/emulated_lanes.hpp"
#include "support/group_programs.hpp"

namespace adjusted_rows_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;
using mt::operations;
using mt::recorder;
using mt::samplers;
using mt::simt_emulator;
using mt::verifiers;

using bits = std::vector<std::uint64_t>;

/// A row, its mask and bias, and the adjusted row.
template <class T>
struct adjusted_row {
    adjusted_row(index_t n, std::uint64_t seed) : words(static_cast<std::size_t>((n + 31) / 32), ~0U) {
        mt::test_numbers numbers(seed);
        for (index_t i = 0; i < n; ++i) {
            entries.push_back(T(static_cast<float>(6 * (numbers() + numbers() - 1))));
            float y = to_real(entries.back());
            if (numbers() < 0.02) {
                tokens.push_back(i);
                values.push_back(static_cast<float>(4 * (numbers() - 0.5)));
                y = y + values.back();
            }
            bool const allowed = i / 64 % 4 == 1 || i == n / 2 || (i / 64 % 4 != 2 && numbers() < 0.7);
            if (!allowed) {
                words[static_cast<std::size_t>(i / 32)] &= ~(1U << i % 32);
                y = -std::numeric_limits<float>::infinity();
            }
            changed.push_back(y);
        }
    }
    [[nodiscard]] adjusted_view<row_view<T>> view() const {
        return {{entries.data(), static_cast<index_t>(entries.size())}, token_mask(words), {tokens, values}};
    }
    [[nodiscard]] row_view<float> reference() const { return {changed.data(), static_cast<index_t>(changed.size())}; }

    std::vector<T> entries;
    std::vector<std::uint32_t> words;
    std::vector<token_id> tokens;
    std::vector<float> values;
    std::vector<float> changed;
};

/// The memory that a program works in.
struct program_memory {
    token_id tokens[64] = {};
    node_id path[16] = {};
    alignas(16) std::byte scratch[mt::tree_program_scratch] = {};

    template <class View>
    [[nodiscard]] mt::program_input_of<View> input(View p, View q, sampling_params const& w) {
        return {p, q, w, 5, tokens, path, scratch};
    }
};

template <class Program, class G, class In>
bits run(Program const& program, G const& g, In const& in) {
    bits out(recorder::capacity);
    recorder record(out.data());
    program(g, in, record);
    EXPECT_LE(record.size(), recorder::capacity);
    out.resize(static_cast<std::size_t>(record.size()));
    return out;
}

template <class T, class Program>
void on_host(Program const& program, index_t n, sampling_params const& w) {
    adjusted_row<T> const p(n, 1), q(n, 2);
    program_memory memory;
    bits const expected = run(program, host_group{}, memory.input(p.reference(), q.reference(), w));
    EXPECT_EQ(run(program, host_group{}, memory.input(p.view(), q.view(), w)), expected) << "V = " << n;
}

template <class T, int Threads, int Split, class Program>
void on_lanes(Program const& program, int ranks, index_t n, sampling_params const& w) {
    using lanes = mt::emulated_lanes<Threads>;
    using group_type = cuda::simt_group<lanes, Split, float, 1>;
    using storage = typename group_type::storage;
    adjusted_row<T> const p(n, 1), q(n, 2);
    program_memory memory;
    bits const expected = run(program, host_group{}, memory.input(p.reference(), q.reference(), w));
    auto const in = memory.input(p.view(), q.view(), w);
    std::vector<storage> shared(static_cast<std::size_t>(ranks));
    simt_emulator emulator(ranks, Threads, simt_emulator::order::last_come);
    int wrong = 0;
    emulator.run([&](int rank, int thread) {
        group_type const g(lanes(emulator, rank, thread, sizeof(storage)), shared[static_cast<std::size_t>(rank)]);
        wrong += run(program, g, in) == expected ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0) << "V = " << n;
}

class adjusted_rows : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    }
};

TEST_F(adjusted_rows, on_the_host) {
    for (index_t const n : {65, 257, 4097, 9001}) {
        on_host<float>(operations{}, n, {});
        on_host<bfloat16>(samplers{}, n, {.temperature = 0.8F, .top_k = 20});
        on_host<float>(verifiers{}, n, {.temperature = 0.8F, .top_p = 0.9F});
    }
}

TEST_F(adjusted_rows, on_emulated_lanes) {
    for (index_t const n : {257, 4097}) {
        on_lanes<float, 64, 2>(operations{}, 2, n, {});
        on_lanes<bfloat16, 64, 2>(samplers{}, 2, n, {.temperature = 0.8F, .top_k = 20});
        on_lanes<float, 64, 2>(verifiers{}, 2, n, {.temperature = 0.8F, .top_p = 0.9F});
    }
}

}  // namespace
}  // namespace adjusted_rows_test
