// Searches in a row by a CUDA group: the entry that a running sum reaches, and the n-th of some entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_sums.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// A warp looks for entries 32 at a time for each thread, a bit for each.
inline constexpr index_t words_a_chunk = chunk_size / 32;

/// A warp walks over runs as `multidraft::detail::choose_run` does, with the same bits, 32 runs at a time: thread k has
/// the k-th of them and gets the sum of the runs up to it.
struct walk {
    double t = 0;       ///< the value to find
    double passed = 0;  ///< sum of the runs walked over
    double before = 0;  ///< sum of the runs before the one found
    double size = 0;    ///< sum of the run found
    index_t found = none;
};

/// A bit for each of 32 entries: whether it satisfies `is`. Its cheap test, if it has one, comes first.
template <class Is, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE std::uint32_t satisfied(T const& t, index_t word, index_t n,
                                                                       Is const& function) {
    Is const is = function;
    auto const may_be = [&is](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        if constexpr (has_may_be_nonzero<Is>)
            return is.may_be_nonzero(i);
        else
            return is(i);
    };
    std::uint32_t likely = 0;
    if (word < n / 32) {
        MULTIDRAFT_UNROLL
        for (index_t j = 0; j < 32; ++j) likely |= (may_be(32 * word | j) ? 1U : 0U) << j;
    } else {
        MULTIDRAFT_ROLL
        for (index_t i = 32 * word; i < n && i - 32 * word < 32; ++i)
            likely |= (may_be(i) ? 1U : 0U) << (i - 32 * word);
    }
    std::uint32_t result = 0;
    MULTIDRAFT_ROLL
    for (; likely != 0; likely &= likely - 1) {
        int const j = T::lowest_bit(likely);
        if (is(32 * word + j)) result |= 1U << j;
    }
    return result;
}

/// How many entries of chunks first .. last - 1 satisfy `is`, each chunk counted by one warp.
template <class Is, class T>
[[nodiscard]] MULTIDRAFT_HD float const* count_window(T const& t, index_t first, index_t last, index_t n,
                                                      Is const& is) {
    float* const counts = t.template next_temporary<float>();
    MULTIDRAFT_ROLL
    for (index_t c = first + t.warp() * t.lanes().ranks() + t.lanes().rank(); c < last;
         c += T::warps * t.lanes().ranks()) {
        int mine = 0;
        MULTIDRAFT_ROLL
        for (index_t word = 0; word < words_a_chunk; word += warp_size)
            mine += T::bits_set(satisfied(t, c * words_a_chunk + word + t.lane(), n, is));
        MULTIDRAFT_UNROLL
        for (int bit = warp_size / 2; bit > 0; bit /= 2) mine += t.lanes().shuffle_xor(mine, bit);
        t.push(counts, c - first, static_cast<float>(mine));
    }
    t.lanes().sync_all();
    t.collect(counts, last - first);
    return counts;
}

/// The `number`-th entry of chunk c that satisfies `is`, counted from 1, found by every warp.
template <class Is, class T>
[[nodiscard]] MULTIDRAFT_HD index_t number_in_chunk(T const& t, index_t c, index_t n, Is const& is, index_t number) {
    MULTIDRAFT_ROLL
    for (index_t word = 0; word < words_a_chunk; word += warp_size) {
        index_t const here = c * words_a_chunk + word + t.lane();
        std::uint32_t mine = satisfied(t, here, n, is);
        int up_to = T::bits_set(mine);  // including the threads before
        MULTIDRAFT_UNROLL
        for (int step = 1; step < warp_size; step *= 2) {
            int const before = t.lanes().shuffle(up_to, (t.lane() + warp_size - step) % warp_size);
            up_to += t.lane() >= step ? before : 0;
        }
        std::uint32_t const reached = t.lanes().ballot(up_to >= number);
        if (reached == 0) {
            number -= t.lanes().shuffle(up_to, warp_size - 1);
            continue;
        }
        // The thread that has it skips the entries before it.
        MULTIDRAFT_ROLL
        for (index_t k = number - (up_to - T::bits_set(mine)); k > 1; --k) mine &= mine - 1;
        return t.lanes().shuffle(32 * here + (mine == 0 ? 0 : T::lowest_bit(mine)), T::lowest_bit(reached));
    }
    return none;
}

/// Each chunk's entries are counted by one warp; then every warp looks for the entry in its chunk.
template <class Is, class Number, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t nth(T const& t, index_t n, Is const& is, Number const& number) {
    index_t const chunks = chunks_of(n);
    std::uint64_t wanted = 0;
    float const* counts = nullptr;
    // The counts of more chunks than there are slots are computed twice: to add and to choose.
    MULTIDRAFT_ROLL
    for (int round = 0; round < 2; ++round) {
        std::uint64_t total = 0;
        MULTIDRAFT_ROLL
        for (index_t first = 0; first < chunks; first += T::slots) {
            index_t const last = T::window_end(first, chunks);
            if (round == 0 || chunks > T::slots) counts = count_window(t, first, last, n, is);
            MULTIDRAFT_ROLL
            for (index_t c = 0; c < last - first; ++c) {
                auto const here = static_cast<std::uint64_t>(counts[c]);
                if (round == 1 && total + here >= wanted)
                    return number_in_chunk(t, first + c, n, is, static_cast<index_t>(wanted - total));
                total += here;
            }
        }
        if (total == 0) return none;
        wanted = number(total);
    }
    return none;
}

/// The sum of a chunk's values in shared memory, in the fixed order, which the first warp gets.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE Real sum_values(T const& t, Real const* values) {
    Real sum = 0;
    if (t.warp() == 0) {
        Real lanes[8] = {};
        for (index_t r = 0; r < chunk_rows; ++r) {
            MULTIDRAFT_UNROLL
            for (index_t j = 0; j < 8; ++j) lanes[j] += values[r * chunk_lanes + 8 * t.lane() + j];
        }
        sum = fold<1>(t, lanes);
    }
    return sum;
}

/// The weights of chunk c in shared memory; 0 for taken tokens and beyond the row. Ends with a barrier of the rank.
template <class Real, class W, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE Real const* evaluate(T const& t, index_t c, index_t n, W const& function,
                                                                    span<token_id const> taken) {
    W const w = function;
    index_t const begin = c * chunk_size;
    Real* const values = reinterpret_cast<Real*>(t.shared().scratch);
    static_assert(sizeof(Real) * chunk_size <= sizeof(t.shared().scratch));
    index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
    index_t const whole = size / T::wide;
    MULTIDRAFT_ROLL
    for (index_t run = t.lanes().thread(); run < whole; run += T::threads) {
        Real here[T::wide_lanes];
        MULTIDRAFT_UNROLL
        for (int j = 0; j < T::wide; ++j) here[j] = w(T::entry_of(begin / T::wide + run, j));
        MULTIDRAFT_UNROLL
        for (int j = 0; j < T::wide; ++j) values[T::entry_of(run, j)] = here[j];
    }
    MULTIDRAFT_ROLL
    for (index_t i = T::wide * whole + t.lanes().thread(); i < chunk_size; i += T::threads) {
        values[i] = 0;
        if (i < size) values[i] = w(begin + i);
    }
    t.lanes().sync();
    if (!taken.empty()) {
        MULTIDRAFT_ROLL
        for (auto k = static_cast<std::size_t>(t.lanes().thread()); k < taken.size();
             k += static_cast<std::size_t>(T::threads)) {
            token_id const x = taken[k];
            if (x >= begin && x - begin < size) values[x - begin] = 0;
        }
        t.lanes().sync();
    }
    return values;
}

/// Sums chunks first .. last - 1 of a row without some tokens: the chunks that have one are summed again.
template <class Real, class W, class T>
MULTIDRAFT_HD void sum_window_without(T const& t, index_t first, index_t last, index_t n, W const& w,
                                      span<token_id const> taken, Real* sums) {
    sum_window<32>(t, first, last, n, w, sums);
    MULTIDRAFT_ROLL
    for (token_id const x : taken) {
        index_t const c = x / chunk_size;
        if (x < 0 || c < first || c >= last) continue;
        Real const here = sum_values(t, evaluate<Real>(t, c, n, w, taken));
        if (t.lanes().thread() == 0) sums[c - first] = here;
        t.lanes().sync();
    }
}

template <class W, class T>
[[nodiscard]] MULTIDRAFT_HD auto total_without(T const& t, index_t n, W const& w, span<token_id const> taken) {
    using real = multidraft::detail::result_of<W>;
    index_t const chunks = chunks_of(n);
    real total = 0;
    MULTIDRAFT_ROLL
    for (index_t first = 0; first < chunks; first += T::slots) {
        index_t const last = T::window_end(first, chunks);
        real* const sums = t.template next_temporary<real>();
        sum_window_without(t, first, last, n, w, taken, sums);
        total = multidraft::detail::sum_in_order(sums, last - first, total);
    }
    return total;
}

/// Broadcasts the first warp's result to its rank, through one of two places; a barrier of the rank.
template <class T>
[[nodiscard]] MULTIDRAFT_HD index_t broadcast(T const& t, index_t found, int place) {
    if (t.lanes().thread() == 0) t.shared().found[place] = found;
    t.lanes().sync();
    return t.shared().found[place];
}

/// The sum of `passed` and the runs of threads 0 .. lane(), in this order; the first `count` threads have one.
template <class T>
[[nodiscard]] MULTIDRAFT_HD double add_in_order(T const& t, double mine, int count, double passed) {
    MULTIDRAFT_UNROLL_BY(4)
    for (int k = 0; k < count; ++k) {
        double const next = t.lanes().shuffle(mine, k);
        if (k <= t.lane()) passed += next;
    }
    return passed;
}

/// Looks for t among the next runs, which begin with run `first`; `up_to` is the running sum. Returns true if t is
/// passed; otherwise `found` is the last run with mass.
template <class T>
[[nodiscard]] MULTIDRAFT_HD bool passes(T const& t, walk& at, index_t first, double mine, double up_to) {
    std::uint32_t const with_mass = t.lanes().ballot(mine > 0);
    std::uint32_t const beyond = t.lanes().ballot(mine > 0 && up_to > at.t);
    if (with_mass != 0) {
        std::uint32_t const which = beyond != 0 ? beyond & (0U - beyond) : with_mass;
        int const k = warp_size - 1 - T::leading_zeros(which);
        double const before = t.lanes().shuffle(up_to, k > 0 ? k - 1 : 0);
        at.before = k > 0 ? before : at.passed;
        at.size = t.lanes().shuffle(mine, k);
        at.found = first + k;
    }
    at.passed = t.lanes().shuffle(up_to, warp_size - 1);
    return beyond != 0;
}

/// `choose_run` by the first warp: a thread has one of the first 32 runs, or 0; others are read from `sums`.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t choose(T const& t, Real mine, index_t count, Real const* sums,
                                                              double& u) {
    auto const of_window = [=, &t](index_t first) {
        return static_cast<double>(first + t.lane() < count ? sums[first + t.lane()] : Real(0));
    };
    auto const in_window = [count](index_t first) {
        return static_cast<int>(count - first < warp_size ? count - first : warp_size);
    };
    auto const first_runs = static_cast<double>(mine);
    double const up_to = add_in_order(t, first_runs, in_window(0), 0);
    double total = t.lanes().shuffle(up_to, warp_size - 1);

    MULTIDRAFT_ROLL
    for (index_t first = warp_size; first < count; first += warp_size)
        total = t.lanes().shuffle(add_in_order(t, of_window(first), in_window(first), total), warp_size - 1);

    walk at;
    at.t = fp::mul(u, total);
    bool passed = passes(t, at, 0, first_runs, up_to);

    MULTIDRAFT_ROLL
    for (index_t first = warp_size; first < count && !passed; first += warp_size) {
        double const here = of_window(first);
        passed = passes(t, at, first, here, add_in_order(t, here, in_window(first), at.passed));
    }
    u = multidraft::detail::fraction_of_run(at.t, at.before, at.size);
    return at.found;
}

/// The first warp walks over a window of sums that begins with run `first`, to add them or to look for t; returns
/// true if t is passed.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE bool walk_over(T const& t, walk& at, Real const* sums, index_t first,
                                                              index_t count, bool adds) {
    bool passed = false;

    MULTIDRAFT_ROLL
    for (index_t k = 0; k < count && !passed; k += warp_size) {
        int const here = static_cast<int>(count - k < warp_size ? count - k : warp_size);
        auto const mine = static_cast<double>(t.lane() < here ? sums[k + t.lane()] : Real(0));
        double const up_to = add_in_order(t, mine, here, at.passed);
        if (adds)
            at.passed = t.lanes().shuffle(up_to, warp_size - 1);
        else
            passed = passes(t, at, first + k, mine, up_to);
    }
    return passed;
}

/// `choose_run` over the chunks of a row: by the first warp of a rank (doubles are slow on many devices), which
/// broadcasts the result.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD index_t choose_chunk(T const& t, index_t chunks, Real const* sums, double& u) {
    index_t c = none;
    if (t.warp() == 0) {
        Real const mine = t.lane() < chunks ? sums[t.lane()] : Real(0);
        c = choose(t, mine, chunks, sums, u);
    }
    c = broadcast(t, c, 0);
    if (c == none) t.lanes().sync();  // all have read the result before the next search writes one
    return c;
}

/// The chunk, if there are too many to keep their sums: these are computed twice, to add and to choose.
template <class Real, class W, class T>
[[nodiscard]] MULTIDRAFT_HD index_t choose_of_many(T const& t, index_t chunks, index_t n, W const& w,
                                                   span<token_id const> taken, double& u) {
    walk at;
    MULTIDRAFT_ROLL
    for (int round = 0; round < 2; ++round) {
        bool const adds = round == 0;
        MULTIDRAFT_ROLL
        for (index_t first = 0; first < chunks; first += T::slots) {
            index_t const last = T::window_end(first, chunks);
            Real* const sums = t.template next_temporary<Real>();
            sum_window_without(t, first, last, n, w, taken, sums);
            bool const passed = t.warp() == 0 && walk_over(t, at, sums, first, last - first, adds);
            if (adds) continue;
            index_t const c = broadcast(t, passed || last == chunks ? at.found : none, 0);
            if (c == none) continue;
            u = multidraft::detail::fraction_of_run(at.t, at.before, at.size);
            return c;
        }
        at.t = fp::mul(u, at.passed);
        at.passed = 0;
    }
    t.lanes().sync();
    return none;
}

/// By one warp: each of 16 threads has one of the 16 runs of 256 terms.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD index_t term_at(T const& t, Real const* values, Real run_of_256, double u) {
    bool const chooses = t.lane() < 16;
    index_t const a = choose(t, chooses ? run_of_256 : Real(0), 16, values, u);
    if (a == none) return none;
    values += a * 256;
    Real const* const mine = values + t.lane() % 16 * 16;
    Real lanes[16];
    MULTIDRAFT_UNROLL
    for (int l = 0; l < 16; ++l) lanes[l] = mine[l];
    MULTIDRAFT_UNROLL
    for (int half = 8; half > 0; half /= 2) {
        MULTIDRAFT_UNROLL
        for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    index_t const b = choose(t, chooses ? lanes[0] : Real(0), 16, values, u);
    if (b == none) return none;
    values += b * 16;
    index_t const c = choose(t, chooses ? values[t.lane() % 16] : Real(0), 16, values, u);
    return c == none ? none : a * 256 + b * 16 + c;
}

/// The term of a chunk at the fraction u of its sum; u is known to the first warp only.
template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t descend(T const& t, Real const* values, double u) {
    Real* const runs = as<Real>(t.shared().runs);
    int const half_lane = t.lane() % 16;
    for (int run = t.lanes().thread() / 16; run < 16; run += T::threads / 16) {
        Real const* const v = values + run * 256 + half_lane;
        Real here = v[0];
        for (int r = 1; r < 16; ++r) here += v[r * 16];
        for (int bit = 8; bit > 0; bit /= 2) here += t.lanes().shuffle_xor(here, bit);
        if (half_lane == 0) runs[run] = here;
    }
    t.lanes().sync();
    index_t found = none;
    if (t.warp() == 0) found = term_at(t, values, runs[half_lane], u);
    return broadcast(t, found, 1);
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
