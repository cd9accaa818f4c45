// Every operation of the Kokkos groups against the host group, bit for bit, on every member of teams of every size.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kokkos/emulated_team.hpp"
#include "kokkos/machine.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/testing/test_numbers.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

// Sums in a team's memory are used once: a sampler that removes tokens from them leaves none to draw from again.
static_assert(std::is_move_constructible_v<shared_chunk_sums<float>> &&
              !std::is_copy_constructible_v<shared_chunk_sums<float>>);

template <class Real>
struct entries {
    Real const* data;
    MULTIDRAFT_HD Real operator()(index_t i) const { return data[i]; }
};

/// Terms of both signs, all finite.
template <class Real>
struct finite_of {
    Real const* data;
    MULTIDRAFT_HD Real operator()(index_t i) const {
        Real const x = data[i];
        return x > -50 ? x : Real(0.3);
    }
};

/// The bin of an entry; some lie outside on either side.
template <class Real>
struct bin_of {
    Real const* data;
    index_t bins;
    MULTIDRAFT_HD index_t operator()(index_t i) const {
        Real const x = data[i];
        if (!(x > -50) || !(x < 50)) return none;
        return static_cast<index_t>((x + 10) * static_cast<Real>(bins) / 19);
    }
};
struct mass_of {
    MULTIDRAFT_HD std::int32_t operator()(index_t i) const { return i % 7; }
};

/// An entry's bin and two masses.
template <class Real>
struct pair_of {
    bin_of<Real> bin;
    MULTIDRAFT_HD binned_pair operator()(index_t i) const { return {bin(i), i % 7, i % 3}; }
};

constexpr std::size_t most = 6000;

/// Collects the results of one member.
struct results {
    double* at;
    std::size_t used = 0;
    template <class T>
    MULTIDRAFT_HD void operator()(T value) {
        at[used++] = static_cast<double>(value);
    }
};

/// Calls every operation on a row of weights and a row of logits.
template <class G, class Real>
MULTIDRAFT_HD void probe(G const& g, index_t n, Real const* weights, Real const* logits, bool ordered, bool counting,
                         token_id* shared_out, results& put) {
    entries<Real> const w{weights};
    entries<Real> const x{logits};
    finite_of<Real> const finite{logits};
    put(g.sum(n, finite));
    put(g.sum(n, w));
    put(g.max(n, x));
    put(g.max(n, w));
    put(g.argmax(n, x));
    put(g.argmax(n, w));

    if (ordered) {
        token_id own_out[9];
        g.top_k(n, x, span<token_id>(own_out, 9));
        for (token_id const t : own_out) put(t);
        g.top_k(n, w, span<token_id>(shared_out, 5));
        for (int k = 0; k < 5; ++k) put(shared_out[k]);
    }

    auto sums = g.sum_chunks(n, w);
    put(sums.total);
    for (double const u : {0.0, 1e-12, 0.1, 0.5, 0.77, 0.999, 1.0 - 0x1p-53, 1.0, 1.5})
        put(g.inverse_cdf(sums, n, w, u, {}));
    put(g.sum(n, finite));  // does not change the chunk sums
    token_id taken[4];
    for (std::size_t k = 0; k < 4; ++k) {
        span<token_id const> const before(taken, k);
        token_id const token = g.inverse_cdf(sums, n, w, 0.3, before);
        put(token);
        if (token == none) break;
        taken[k] = token;
        g.update_chunk(sums, n, w, span<token_id const>(taken, k + 1), token);
        put(sums.total);
    }

    auto soft = g.softmax(n, x, static_cast<Real>(0.7));
    put(soft.largest);
    put(soft.sums.total);
    auto const weight = [x, largest = soft.largest, of = exp_nonpositive<Real>(static_cast<Real>(0.7))](index_t i) {
        return of(x(i) - largest);
    };
    for (double const u : {0.0, 0.2, 0.6, 0.95}) put(g.inverse_cdf(soft.sums, n, weight, u, {}));

    if (counting) {
        std::uint64_t bins[3000];
        for (index_t const count : {1, 37, 2048, 3000}) {
            g.histogram(n, bin_of<Real>{logits, count}, mass_of{},
                        span<std::uint64_t>(bins, static_cast<std::size_t>(count)));
            std::uint64_t hash = 0;
            for (index_t b = 0; b < count; ++b) hash = (hash * 31 + bins[b]) % 1000003;
            put(hash);
            index_t const pairs = (count + 1) / 2;
            g.histogram_pairs(n, pair_of<Real>{{logits, pairs}},
                              span<std::uint64_t>(bins, 2 * static_cast<std::size_t>(pairs)));
            hash = 0;
            for (index_t b = 0; b < 2 * pairs; ++b) hash = (hash * 31 + bins[b]) % 1000003;
            put(hash);
        }
    }
    put(put.used);
}

template <template <class> class Group, class Real>
struct probe_kernel {
    using member = Kokkos::TeamPolicy<space>::member_type;
    index_t n;
    Kokkos::View<Real*, memory> weights;
    Kokkos::View<Real*, memory> logits;
    std::size_t offset;
    bool ordered;
    Kokkos::View<token_id*, memory> shared_out;
    Kokkos::View<double**, Kokkos::LayoutRight, memory> out;

    MULTIDRAFT_HD void operator()(member const& team) const {
        Group<member> const g(team);
        auto const league = static_cast<std::size_t>(team.league_rank());
        std::size_t const row =
            league * static_cast<std::size_t>(team.team_size()) + static_cast<std::size_t>(team.team_rank());
        results put{&out(row, 0)};
        probe(g, n, weights.data() + offset, logits.data() + offset, ordered, true, shared_out.data() + 5 * league,
              put);
    }
};

enum class row_kind { usual, constant, empty, not_a_number };

template <class Real>
void fill(std::vector<Real>& weights, std::vector<Real>& logits, row_kind kind, std::uint64_t seed) {
    test_numbers numbers(seed);
    Real const inf = std::numeric_limits<Real>::infinity();
    for (std::size_t i = 0; i < weights.size(); ++i) {
        double const z = numbers();
        weights[i] = z < 0.2 ? Real(0) : static_cast<Real>(std::exp(20 * z - 18));
        // A quarter of the logits lie on a coarse grid, so that there are ties; some have no mass.
        double const x = 2.5 * numbers.normal();
        logits[i] = static_cast<Real>(numbers() < 0.25 ? std::round(4 * x) / 4 : x);
        if (numbers() < 0.05) logits[i] = -inf;
        if (kind == row_kind::constant) weights[i] = logits[i] = Real(1);
        if (kind == row_kind::empty) {
            weights[i] = 0;
            logits[i] = -inf;
        }
    }
    if (kind == row_kind::not_a_number) weights[weights.size() / 2] = std::numeric_limits<Real>::quiet_NaN();
}

template <class Case>
class kokkos_group : public ::testing::Test {};
using cases = ::testing::Types<std::tuple<own_group, float>, std::tuple<own_group, double>,
                               std::tuple<device_group, float>, std::tuple<device_group, double>>;
TYPED_TEST_SUITE(kokkos_group, cases);

template <class Case>
void check_row(index_t n, row_kind kind, std::size_t offset) {
    using kind_of_group = std::tuple_element_t<0, Case>;
    using real = std::tuple_element_t<1, Case>;
    std::vector<real> weights(static_cast<std::size_t>(n) + offset);
    std::vector<real> logits(weights.size());
    fill(weights, logits, kind, static_cast<std::uint64_t>(n) * 10 + offset);

    bool const ordered = kind != row_kind::not_a_number;  // `top_k` is not for NaN
    std::vector<double> expected(most);
    std::vector<token_id> out(5);
    results put{expected.data()};
    probe(host_group{}, n, weights.data() + offset, logits.data() + offset, ordered, true, out.data(), put);
    ASSERT_LT(put.used, most);

    constexpr int league = 3;
    for (int const size : team_sizes()) {
        Kokkos::View<double**, Kokkos::LayoutRight, memory> results_of("results",
                                                                       static_cast<std::size_t>(league * size), most);
        using kernel = probe_kernel<kind_of_group::template type, real>;
        Kokkos::parallel_for(
            kokkos::team_policy<kind_of_group::template type>(space(), league, kokkos::launch_options{size}),
            kernel{n, to_machine(weights), to_machine(logits), offset, ordered,
                   Kokkos::View<token_id*, memory>("out", 5 * league), results_of});
        auto const found = to_host(results_of);
        for (std::size_t row = 0; row < static_cast<std::size_t>(league * size); ++row)
            for (std::size_t k = 0; k < put.used; ++k)
                ASSERT_TRUE(found[row * most + k] == expected[k] ||
                            (std::isnan(found[row * most + k]) && std::isnan(expected[k])))
                    << "V " << n << ", team of " << size << ", member " << row << ", result " << k << ": "
                    << found[row * most + k] << " and not " << expected[k];
    }
}

TYPED_TEST(kokkos_group, has_the_bits_of_the_host_group) {
    for (index_t const n : {1,    2,    3,    15,   16,   17,    31,    63,    64,    65,     255,    256,   257,
                            1000, 4095, 4096, 4097, 8191, 12345, 32000, 65535, 65537, 128256, 131073, 152064})
        check_row<TypeParam>(n, row_kind::usual, n % 2 == 0 ? 1 : 3);
}

TYPED_TEST(kokkos_group, has_them_for_rows_of_more_chunks_than_sums_are_kept_of) {
    for (index_t const n : {256 * 4096, 256 * 4096 + 1, 257 * 4096 + 300}) check_row<TypeParam>(n, row_kind::usual, 0);
}

TYPED_TEST(kokkos_group, has_them_for_odd_rows) {
    for (row_kind const kind : {row_kind::constant, row_kind::empty, row_kind::not_a_number})
        for (index_t const n : {1, 5, 300, 4097, 70001}) check_row<TypeParam>(n, kind, 1);
}

/// Teams of host threads, even if Kokkos has one thread only.
TYPED_TEST(kokkos_group, has_them_in_teams_of_threads) {
    using group_type = typename std::tuple_element_t<0, TypeParam>::template type<emulated_member>;
    using real = std::tuple_element_t<1, TypeParam>;
    static_assert(group<group_type>);
    // Without threads, Kokkos's atomic additions are not atomic.
    constexpr bool counting = !std::is_same_v<Kokkos::DefaultHostExecutionSpace, Kokkos::Serial>;
    for (index_t const n : {1, 100, 4097, 60001, 152064}) {
        std::vector<real> weights(static_cast<std::size_t>(n));
        std::vector<real> logits(weights.size());
        fill(weights, logits, row_kind::usual, static_cast<std::uint64_t>(n));
        std::vector<double> expected(most);
        token_id out[5];
        results put{expected.data()};
        probe(host_group{}, n, weights.data(), logits.data(), true, counting, out, put);
        for (int const size : {2, 3, 8}) {
            std::vector<double> found(most * static_cast<std::size_t>(size));
            run_team(size, group_type::scratch_bytes(), [&](emulated_member const& member) {
                group_type const g(member);
                auto const rank = static_cast<std::size_t>(member.team_rank());
                results mine{found.data() + most * rank};
                token_id own_out[5];
                probe(g, n, weights.data(), logits.data(), true, counting, own_out, mine);
            });
            for (std::size_t row = 0; row < static_cast<std::size_t>(size); ++row)
                for (std::size_t k = 0; k < put.used; ++k)
                    ASSERT_EQ(found[row * most + k], expected[k])
                        << "V " << n << ", team of " << size << ", member " << row << ", result " << k;
        }
    }
}

TYPED_TEST(kokkos_group, needs_no_more_scratch_than_a_small_device_has) {
    using member = Kokkos::TeamPolicy<space>::member_type;
    using kind_of_group = std::tuple_element_t<0, TypeParam>;
    EXPECT_LE(kind_of_group::template type<member>::scratch_bytes(), 32U * 1024U);
}

TEST(kokkos_policy, refuses_what_kokkos_cannot_launch) {
    EXPECT_THROW(static_cast<void>(kokkos::team_policy<>(space(), 1, kokkos::launch_options{-1})), invalid_input);
    EXPECT_THROW(static_cast<void>(kokkos::team_policy<>(space(), std::size_t{1} << 31, {})), invalid_input);
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
