// Searches in a row by a CUDA group: the entry that a running sum reaches, and chunk sums after an entry has changed.
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
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `inverse_cdf` and `update_chunk`: operations on a single chunk, repeated by each rank.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_search : public simt_sums<Lanes, Split, Widest, Wide> {
    using base = simt_sums<Lanes, Split, Widest, Wide>;

public:
    using base::base;
    using base::slots;
    using base::threads;
    using base::warps;
    using base::wide;

    /// The first warp of a rank searches (doubles are slow on many devices) and broadcasts the result.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t inverse_cdf(shared_chunk_sums<Real> const& sums, index_t n,
                                                                       W const& w, double u,
                                                                       span<token_id const> taken = {}) const {
        index_t const chunks = chunks_of(n);
        index_t c = none;
        if (chunks <= slots) {
            if (warp() == 0) {
                Real const mine = lane() < chunks ? sums.values[lane()] : Real(0);
                c = choose(mine, chunks, sums.values, u);
            }
            c = broadcast(c, 0);
        } else {
            c = choose_of_many<Real>(chunks, n, w, taken, u);
        }
        if (c == none) {
            lanes_.sync();  // all have read the result before the next search writes one
            return none;
        }
        Real const* const values = evaluate<Real>(c, n, w, taken);
        index_t const found = descend(values, u);
        return found == none ? none : c * chunk_size + found;
    }

    template <class Real, class W>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void update_chunk(shared_chunk_sums<Real>& sums, index_t n, W const& w,
                                                       span<token_id const> taken, index_t changed) const {
        index_t const chunks = chunks_of(n);
        if (chunks > slots) {
            sums.total = sum_without(n, w, taken);
            return;
        }
        index_t const c = changed / chunk_size;
        lanes_.sync();
        sum_chunk_without(c, n, w, taken, sums.values[c]);
        sums.total = in_order(sums.values, chunks, Real(0));
    }

    /// Each chunk's entries are counted by one warp; then every warp looks for the entry in its chunk.
    template <class Is, class Number>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t nth(index_t n, Is const& is, Number const& number) const {
        index_t const chunks = chunks_of(n);
        std::uint64_t wanted = 0;
        float const* counts = nullptr;
        // The counts of more chunks than there are slots are computed twice: to add and to choose.
        MULTIDRAFT_ROLL
        for (int round = 0; round < 2; ++round) {
            std::uint64_t total = 0;
            MULTIDRAFT_ROLL
            for (index_t first = 0; first < chunks; first += slots) {
                index_t const last = window_end(first, chunks);
                if (round == 0 || chunks > slots) counts = count_window(first, last, n, is);
                MULTIDRAFT_ROLL
                for (index_t c = 0; c < last - first; ++c) {
                    auto const here = static_cast<std::uint64_t>(counts[c]);
                    if (round == 1 && total + here >= wanted)
                        return number_in_chunk(first + c, n, is, static_cast<index_t>(wanted - total));
                    total += here;
                }
            }
            if (total == 0) return none;
            wanted = number(total);
        }
        return none;
    }

protected:
    using base::bits_set;
    using base::collect;
    using base::entry_of;
    using base::in_order;
    using base::lane;
    using base::lanes_;
    using base::leading_zeros;
    using base::lowest_bit;
    using base::push;
    using base::shared_;
    using base::temporary_turn_;
    using base::warp;
    using base::wide_lanes;
    using base::window_end;

    /// The sum of chunk c without some tokens, computed by each rank. Ends with a barrier of the rank.
    template <class Real, class W>
    MULTIDRAFT_HD void sum_chunk_without(index_t c, index_t n, W const& w, span<token_id const> taken,
                                         Real& sum) const {
        sum_values(evaluate<Real>(c, n, w, taken), sum);
    }

    /// The sum of a chunk's values in shared memory, in the fixed order. Ends with a barrier of the rank.
    template <class Real>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void sum_values(Real const* values, Real& sum) const {
        if (warp() == 0) {
            Real lanes[8] = {};
            for (index_t r = 0; r < chunk_rows; ++r) {
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < 8; ++j) lanes[j] += values[r * chunk_lanes + 8 * lane() + j];
            }
            Real const here = base::template fold<1>(lanes);
            if (lane() == 0) sum = here;
        }
        lanes_.sync();
    }

    /// Sums chunks first .. last - 1 of a row without some tokens: the chunks that have one are summed again.
    template <class Real, class W>
    MULTIDRAFT_HD void sum_window_without(index_t first, index_t last, index_t n, W const& w,
                                          span<token_id const> taken, Real* sums) const {
        base::template sum_window<32>(first, last, n, w, sums);
        MULTIDRAFT_ROLL
        for (token_id const x : taken)
            if (index_t const c = x / chunk_size; x >= 0 && c >= first && c < last)
                sum_chunk_without(c, n, w, taken, sums[c - first]);
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_without(index_t n, W const& w, span<token_id const> taken) const {
        using real = detail::result_of<W>;
        index_t const chunks = chunks_of(n);
        real total = 0;
        MULTIDRAFT_ROLL
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            real* const sums = detail::next<real>(shared_->temporary, temporary_turn_);
            sum_window_without(first, last, n, w, taken, sums);
            total = in_order(sums, last - first, total);
        }
        return total;
    }

    // A warp looks for entries 32 at a time for each thread, a bit for each.

    static constexpr index_t words_a_chunk = chunk_size / 32;

    /// How many entries of chunks first .. last - 1 satisfy `is`, each chunk counted by one warp.
    template <class Is>
    [[nodiscard]] MULTIDRAFT_HD float const* count_window(index_t first, index_t last, index_t n, Is const& is) const {
        float* const counts = detail::next<float>(shared_->temporary, temporary_turn_);
        MULTIDRAFT_ROLL
        for (index_t c = first + warp() * lanes_.ranks() + lanes_.rank(); c < last; c += warps * lanes_.ranks()) {
            int mine = 0;
            MULTIDRAFT_ROLL
            for (index_t word = 0; word < words_a_chunk; word += warp_size)
                mine += bits_set(satisfied(c * words_a_chunk + word + lane(), n, is));
            MULTIDRAFT_UNROLL
            for (int bit = warp_size / 2; bit > 0; bit /= 2) mine += lanes_.shuffle_xor(mine, bit);
            push(counts, c - first, static_cast<float>(mine));
        }
        lanes_.sync_all();
        collect(counts, last - first);
        return counts;
    }

    /// The `number`-th entry of chunk c that satisfies `is`, counted from 1, found by every warp.
    template <class Is>
    [[nodiscard]] MULTIDRAFT_HD index_t number_in_chunk(index_t c, index_t n, Is const& is, index_t number) const {
        MULTIDRAFT_ROLL
        for (index_t word = 0; word < words_a_chunk; word += warp_size) {
            index_t const here = c * words_a_chunk + word + lane();
            std::uint32_t mine = satisfied(here, n, is);
            int up_to = bits_set(mine);  // including the threads before
            MULTIDRAFT_UNROLL
            for (int step = 1; step < warp_size; step *= 2) {
                int const before = lanes_.shuffle(up_to, (lane() + warp_size - step) % warp_size);
                up_to += lane() >= step ? before : 0;
            }
            std::uint32_t const reached = lanes_.ballot(up_to >= number);
            if (reached == 0) {
                number -= lanes_.shuffle(up_to, warp_size - 1);
                continue;
            }
            // The thread that has it skips the entries before it.
            MULTIDRAFT_ROLL
            for (index_t k = number - (up_to - bits_set(mine)); k > 1; --k) mine &= mine - 1;
            return lanes_.shuffle(32 * here + (mine == 0 ? 0 : lowest_bit(mine)), lowest_bit(reached));
        }
        return none;
    }

    /// A bit for each of 32 entries: whether it satisfies `is`. Its cheap test, if it has one, comes first.
    template <class Is>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE std::uint32_t satisfied(index_t word, index_t n,
                                                                           Is const& function) const {
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
            int const j = lowest_bit(likely);
            if (is(32 * word + j)) result |= 1U << j;
        }
        return result;
    }

    /// Broadcasts the first warp's result to its rank, through one of two places; a barrier of the rank.
    [[nodiscard]] MULTIDRAFT_HD index_t broadcast(index_t found, int place) const {
        if (lanes_.thread() == 0) shared_->found[place] = found;
        lanes_.sync();
        return shared_->found[place];
    }

    // A warp walks over runs as `multidraft::detail::choose_run` does, with the same bits, 32 runs at a time: thread k
    // has the k-th of them and gets the sum of the runs up to it.

    struct walk {
        double t = 0;       ///< the value to find
        double passed = 0;  ///< sum of the runs walked over
        double before = 0;  ///< sum of the runs before the one found
        double size = 0;    ///< sum of the run found
        index_t found = none;
    };

    /// The sum of `passed` and the runs of threads 0 .. lane(), in this order; the first `count` threads have one.
    [[nodiscard]] MULTIDRAFT_HD double add_in_order(double mine, int count, double passed) const {
        MULTIDRAFT_UNROLL_BY(4)
        for (int k = 0; k < count; ++k) {
            double const next = lanes_.shuffle(mine, k);
            if (k <= lane()) passed += next;
        }
        return passed;
    }

    /// Looks for t among the next runs, which begin with run `first`; `up_to` is the running sum. Returns true if t is
    /// passed; otherwise `found` is the last run with mass.
    [[nodiscard]] MULTIDRAFT_HD bool passes(walk& at, index_t first, double mine, double up_to) const {
        std::uint32_t const with_mass = lanes_.ballot(mine > 0);
        std::uint32_t const beyond = lanes_.ballot(mine > 0 && up_to > at.t);
        if (with_mass != 0) {
            std::uint32_t const which = beyond != 0 ? beyond & (0U - beyond) : with_mass;
            int const k = warp_size - 1 - leading_zeros(which);
            double const before = lanes_.shuffle(up_to, k > 0 ? k - 1 : 0);
            at.before = k > 0 ? before : at.passed;
            at.size = lanes_.shuffle(mine, k);
            at.found = first + k;
        }
        at.passed = lanes_.shuffle(up_to, warp_size - 1);
        return beyond != 0;
    }

    /// `choose_run` by the first warp: a thread has one of the first 32 runs, or 0; others are read from `sums`.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t choose(Real mine, index_t count, Real const* sums,
                                                                  double& u) const {
        auto const of_window = [=, this](index_t first) {
            return static_cast<double>(first + lane() < count ? sums[first + lane()] : Real(0));
        };
        auto const in_window = [count](index_t first) {
            return static_cast<int>(count - first < warp_size ? count - first : warp_size);
        };
        auto const first_runs = static_cast<double>(mine);
        double const up_to = add_in_order(first_runs, in_window(0), 0);
        double total = lanes_.shuffle(up_to, warp_size - 1);

        MULTIDRAFT_ROLL
        for (index_t first = warp_size; first < count; first += warp_size)
            total = lanes_.shuffle(add_in_order(of_window(first), in_window(first), total), warp_size - 1);

        walk at;
        at.t = fp::mul(u, total);
        bool passed = passes(at, 0, first_runs, up_to);

        MULTIDRAFT_ROLL
        for (index_t first = warp_size; first < count && !passed; first += warp_size) {
            double const here = of_window(first);
            passed = passes(at, first, here, add_in_order(here, in_window(first), at.passed));
        }
        u = multidraft::detail::fraction_of_run(at.t, at.before, at.size);
        return at.found;
    }

    /// The first warp walks over a window of sums that begins with run `first`, to add them or to look for t; returns
    /// true if t is passed.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE bool walk_over(walk& at, Real const* sums, index_t first,
                                                                  index_t count, bool adds) const {
        bool passed = false;

        MULTIDRAFT_ROLL
        for (index_t k = 0; k < count && !passed; k += warp_size) {
            int const here = static_cast<int>(count - k < warp_size ? count - k : warp_size);
            auto const mine = static_cast<double>(lane() < here ? sums[k + lane()] : Real(0));
            double const up_to = add_in_order(mine, here, at.passed);
            if (adds)
                at.passed = lanes_.shuffle(up_to, warp_size - 1);
            else
                passed = passes(at, first + k, mine, up_to);
        }
        return passed;
    }

    /// The chunk, if there are too many to keep their sums: these are computed twice, to add and to choose.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t choose_of_many(index_t chunks, index_t n, W const& w,
                                                       span<token_id const> taken, double& u) const {
        walk at;
        MULTIDRAFT_ROLL
        for (int round = 0; round < 2; ++round) {
            bool const adds = round == 0;
            MULTIDRAFT_ROLL
            for (index_t first = 0; first < chunks; first += slots) {
                index_t const last = window_end(first, chunks);
                Real* const sums = detail::next<Real>(shared_->temporary, temporary_turn_);
                sum_window_without(first, last, n, w, taken, sums);
                bool const passed = warp() == 0 && walk_over(at, sums, first, last - first, adds);
                if (adds) continue;
                index_t const c = broadcast(passed || last == chunks ? at.found : none, 0);
                if (c == none) continue;
                u = multidraft::detail::fraction_of_run(at.t, at.before, at.size);
                return c;
            }
            at.t = fp::mul(u, at.passed);
            at.passed = 0;
        }
        return none;
    }

    /// The weights of chunk c in shared memory; 0 for taken tokens and beyond the row. Ends with a barrier of the rank.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE Real const* evaluate(index_t c, index_t n, W const& function,
                                                                        span<token_id const> taken) const {
        W const w = function;
        index_t const begin = c * chunk_size;
        Real* const values = reinterpret_cast<Real*>(shared_->scratch);
        static_assert(sizeof(Real) * chunk_size <= sizeof(shared_->scratch));
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        index_t const whole = size / wide;
        MULTIDRAFT_ROLL
        for (index_t run = lanes_.thread(); run < whole; run += threads) {
            Real here[wide_lanes];
            MULTIDRAFT_UNROLL
            for (int j = 0; j < wide; ++j) here[j] = w(entry_of(begin / wide + run, j));
            MULTIDRAFT_UNROLL
            for (int j = 0; j < wide; ++j) values[entry_of(run, j)] = here[j];
        }
        MULTIDRAFT_ROLL
        for (index_t i = wide * whole + lanes_.thread(); i < chunk_size; i += threads) {
            values[i] = 0;
            if (i < size) values[i] = w(begin + i);
        }
        lanes_.sync();
        if (!taken.empty()) {
            MULTIDRAFT_ROLL
            for (auto k = static_cast<std::size_t>(lanes_.thread()); k < taken.size();
                 k += static_cast<std::size_t>(threads)) {
                token_id const x = taken[k];
                if (x >= begin && x - begin < size) values[x - begin] = 0;
            }
            lanes_.sync();
        }
        return values;
    }

    /// The term of a chunk at the fraction u of its sum; u is known to the first warp only.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t descend(Real const* values, double u) const {
        Real* const runs = detail::as<Real>(shared_->runs);
        int const half_lane = lane() % 16;
        for (int run = lanes_.thread() / 16; run < 16; run += threads / 16) {
            Real const* const v = values + run * 256 + half_lane;
            Real here = v[0];
            for (int r = 1; r < 16; ++r) here += v[r * 16];
            for (int bit = 8; bit > 0; bit /= 2) here += lanes_.shuffle_xor(here, bit);
            if (half_lane == 0) runs[run] = here;
        }
        lanes_.sync();
        index_t found = none;
        if (warp() == 0) found = term_at(values, runs[half_lane], u);
        return broadcast(found, 1);
    }

    /// By one warp: each of 16 threads has one of the 16 runs of 256 terms.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t term_at(Real const* values, Real run_of_256, double u) const {
        bool const chooses = lane() < 16;
        index_t const a = choose(chooses ? run_of_256 : Real(0), 16, values, u);
        if (a == none) return none;
        values += a * 256;
        Real const* const mine = values + lane() % 16 * 16;
        Real lanes[16];
        MULTIDRAFT_UNROLL
        for (int l = 0; l < 16; ++l) lanes[l] = mine[l];
        MULTIDRAFT_UNROLL
        for (int half = 8; half > 0; half /= 2) {
            MULTIDRAFT_UNROLL
            for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
        }
        index_t const b = choose(chooses ? lanes[0] : Real(0), 16, values, u);
        if (b == none) return none;
        values += b * 16;
        index_t const c = choose(chooses ? values[lane() % 16] : Real(0), 16, values, u);
        return c == none ? none : a * 256 + b * 16 + c;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
