// Every operation, sampler and verifier over a Kokkos team: the bits of the host group, whatever the team.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kokkos/machine.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/group_programs.hpp"

namespace kokkos_programs_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;
using mt::memory;
using mt::operations;
using mt::program_input;
using mt::recorder;
using mt::samplers;
using mt::space;
using mt::verifiers;
using bits = std::vector<std::uint64_t>;

/// Logits with ties, minus infinities and a few large ones.
template <class T>
std::vector<T> logits(index_t n, std::uint64_t seed) {
    mt::test_numbers numbers(seed);
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

/// Every member of every team records its results.
template <template <class> class Group, class Program, class T>
struct program_kernel {
    using member = Kokkos::TeamPolicy<space>::member_type;

    Program program;
    Kokkos::View<T*, memory> p;
    Kokkos::View<T*, memory> q;
    sampling_params w;
    std::uint64_t seed;
    Kokkos::View<token_id*, memory> tokens;  ///< 64 per team
    Kokkos::View<node_id*, memory> path;     ///< 16 per team
    Kokkos::View<std::byte*, memory> scratch;
    Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory> out;
    Kokkos::View<int*, memory> sizes;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        auto const league = static_cast<std::size_t>(team.league_rank());
        std::size_t const who =
            league * static_cast<std::size_t>(team.team_size()) + static_cast<std::size_t>(team.team_rank());
        auto const n = static_cast<index_t>(p.extent(0));
        recorder record(&out(who, 0));
        program(
            g,
            program_input<T>{row_view<T>(p.data(), n), row_view<T>(q.data(), n), w, seed, tokens.data() + 64 * league,
                             path.data() + 16 * league, scratch.data() + mt::tree_program_scratch * league},
            record);
        sizes(who) = record.size();
    }
};

template <class Kind, class Program, class T>
void expect_parity(Program const& program, index_t n, std::uint64_t seed, sampling_params const& w) {
    auto const p = logits<T>(n, seed);
    auto q = p;
    auto const other = logits<T>(n, seed + 100);
    for (std::size_t i = 0; i < q.size(); i += 3) q[i] = other[i];
    q[static_cast<std::size_t>(n) / 2] = T(0.5F);

    bits expected(recorder::capacity);
    std::vector<token_id> own_tokens(64);
    std::vector<node_id> own_path(16);
    std::vector<std::byte> own_scratch(mt::tree_program_scratch);
    recorder record(expected.data());
    program(host_group{},
            program_input<T>{row_view<T>(p.data(), n), row_view<T>(q.data(), n), w, seed, own_tokens.data(),
                             own_path.data(), own_scratch.data()},
            record);
    ASSERT_LE(record.size(), recorder::capacity);

    constexpr int league = 2;
    for (int const members : mt::team_sizes()) {
        auto const all = static_cast<std::size_t>(league * members);
        program_kernel<Kind::template type, Program, T> const kernel{
            program,
            mt::to_machine(p),
            mt::to_machine(q),
            w,
            seed,
            Kokkos::View<token_id*, memory>("tokens", 64 * league),
            Kokkos::View<node_id*, memory>("path", 16 * league),
            Kokkos::View<std::byte*, memory>("scratch", mt::tree_program_scratch * league),
            Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory>("out", all, recorder::capacity),
            Kokkos::View<int*, memory>("sizes", all)};
        Kokkos::parallel_for("programs", kokkos::team_policy<Kind::template type>(space(), league, {members}), kernel);
        space().fence();
        auto const out = mt::to_host(kernel.out);
        auto const sizes = mt::to_host(kernel.sizes);
        for (std::size_t who = 0; who < all; ++who) {
            ASSERT_EQ(sizes[who], record.size());
            for (std::size_t k = 0; k < static_cast<std::size_t>(record.size()); ++k)
                ASSERT_EQ(out[who * recorder::capacity + k], expected[k])
                    << "V " << n << ", team of " << members << ", member " << who << ", result " << k;
        }
    }
}

template <class Kind>
class kokkos_programs : public ::testing::Test {};

using kinds = ::testing::Types<mt::own_group, mt::device_group>;
TYPED_TEST_SUITE(kokkos_programs, kinds);

constexpr sampling_params sampling[] = {{}, {.temperature = 0.7F, .top_k = 40, .top_p = 0.95F}, {.temperature = 0.0F}};

TYPED_TEST(kokkos_programs, operations_have_the_bits_of_the_host_group) {
    for (index_t const n : {1, 31, 257, 4097, 32000})
        expect_parity<TypeParam, operations, float>({}, n, static_cast<std::uint64_t>(n), {});
    expect_parity<TypeParam, operations, float16>({}, 4097, 5, {});
    expect_parity<TypeParam, operations, bfloat16>({}, 257, 6, {});
}

TYPED_TEST(kokkos_programs, samplers_draw_the_tokens_of_the_host_group) {
    for (sampling_params const& w : sampling)
        for (index_t const n : {1, 31, 4097, 32000})
            expect_parity<TypeParam, samplers, float>({}, n, static_cast<std::uint64_t>(n) + 1, w);
    expect_parity<TypeParam, samplers, bfloat16>({}, 152064, 4, sampling[1]);
}

TYPED_TEST(kokkos_programs, verifiers_decide_as_with_the_host_group) {
    for (sampling_params const& w : sampling)
        for (index_t const n : {1, 31, 4097, 32000})
            expect_parity<TypeParam, verifiers, float>({}, n, static_cast<std::uint64_t>(n) + 2, w);
    expect_parity<TypeParam, verifiers, bfloat16>({}, 152064, 4, sampling[1]);
    expect_parity<TypeParam, verifiers, float16>({}, 4097, 9, {});
}

}  // namespace
}  // namespace kokkos_programs_test
