// The group of a Kokkos team on a device: neighbouring members read neighbouring entries of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/kokkos/chosen.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// A handle to the chunk sums that a team keeps in its scratch memory. Valid until the group's next `sum_chunks` or
/// `softmax`. Not copied, since a copy would not have sums of its own.
template <class Real>
struct team_chunk_sums {
    Real total = 0;
    Real* values = nullptr;

    team_chunk_sums() = default;
    /// The sums of all chunks, and the total.
    MULTIDRAFT_HD team_chunk_sums(Real of_all, Real* of_chunks) noexcept : total(of_all), values(of_chunks) {}
    /// As handles: what was moved from is not used again.
    team_chunk_sums(team_chunk_sums&&) = default;
    /// The same.
    team_chunk_sums& operator=(team_chunk_sums&&) = default;
    team_chunk_sums(team_chunk_sums const&) = delete;
    team_chunk_sums& operator=(team_chunk_sums const&) = delete;
    ~team_chunk_sums() = default;
};

/// The members of a team on a device (CUDA, HIP, SYCL) as a `group`; on a CPU it is correct too, but slow.
///
/// A chunk is processed in 32 strands. A strand is 8 of the 256 lanes, 32 apart: the first three steps of the pairwise
/// tree happen in registers, and 32 neighbouring members read 32 neighbouring entries. Sixteen chunks are processed
/// between two barriers, enough work for a team of 512; one member does the last five steps of each tree. Sums of
/// chunks are added in index order by every member. The result is the host group's, bit for bit, whatever the size of
/// the team; if a largest value is a zero, its sign may differ.
///
/// Output spans may be shared by all members or private to each: all write equal values.
template <class Member>
class lane_team_group : public group_defaults<lane_team_group<Member>> {
public:
    using group_defaults<lane_team_group<Member>>::count_part;
    using group_defaults<lane_team_group<Member>>::digit_bits;
    using group_defaults<lane_team_group<Member>>::fast_top_k;
    using group_defaults<lane_team_group<Member>>::nth;
    using group_defaults<lane_team_group<Member>>::sum_chunks_of;
    using group_defaults<lane_team_group<Member>>::top_k_of_logits;

    static constexpr bool throws = false;

    template <class Real>
    using chunk_sums_type = team_chunk_sums<Real>;

    /// Bytes of team scratch (level 0) that a launch needs for one group: 29 KiB.
    [[nodiscard]] static constexpr std::size_t scratch_bytes() noexcept { return sizeof(board); }

    /// Takes its scratch from the member's team; all members must construct it at the same point. The member must
    /// outlive it.
    MULTIDRAFT_HD explicit lane_team_group(Member const& member)
        : member_(&member),
          board_(static_cast<board*>(
              member.team_scratch(0).get_shmem_aligned(sizeof(board), static_cast<std::ptrdiff_t>(alignof(board))))) {}

    [[nodiscard]] MULTIDRAFT_HD bool leader() const { return member_->team_rank() == 0; }
    MULTIDRAFT_HD void barrier() const { member_->team_barrier(); }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto sum(index_t n, F const& f) const {
        using real = result_of<F>;
        real total = 0;
        each_chunk<adding>(n, f, numbers<real>(board_->results), [&](index_t, real here) { total += here; });
        return total;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto max(index_t n, F const& f) const {
        using real = result_of<F>;
        real best = minus_infinity<real>;
        each_chunk<larger>(n, f, numbers<real>(board_->results),
                           [&](index_t, real here) { best = here > best ? here : best; });
        return best;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD index_t argmax(index_t n, F const& f) const {
        using real = result_of<F>;
        if (n <= 0) return none;
        real best = minus_infinity<real>;
        index_t where = 0;
        each_chunk<larger>(n, f, numbers<real>(board_->results), [&](index_t c, real here) {
            if (here > best) {
                best = here;
                where = c * chunk_size;
            }
        });
        constexpr index_t nowhere = largest_number<index_t>;
        index_t* const firsts = board_->strand_index;
        for (; where < n; where += chunk_size) {
            index_t const end = n - where < chunk_size ? n : where + chunk_size;
            for (index_t v = rank(); v < 256; v += size()) {
                index_t i = where + v;
                while (i < end && !(f(i) == best)) i += 256;
                firsts[v] = i < end ? i : nowhere;
            }
            member_->team_barrier();
            for (index_t v = rank(); v < 16; v += size()) firsts[256 + v] = smallest_of_16(firsts + v * 16);
            member_->team_barrier();
            index_t const found = smallest_of_16(firsts + 256);
            member_->team_barrier();
            if (found != nowhere) return found;
            if (n - where <= chunk_size) break;
        }
        return 0;
    }

    /// One pass finds the largest key of each of at most 256 runs; then the run of each of the `out.size()` winners is
    /// read once more.
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        using real = result_of<F>;
        if (out.empty()) return;
        index_t const even = n / most_runs + (n % most_runs != 0 ? 1 : 0);
        index_t const run = even < chunk_lanes ? chunk_lanes : even;
        index_t const runs = n > 0 ? (n - 1) / run + 1 : 0;
        real* const keys = numbers<real>(board_->results);
        real* const strands = numbers<real>(board_->strands);
        for (index_t first = 0; first < runs; first += batch) {
            index_t const count = runs - first < batch ? runs - first : batch;
            for (index_t w = rank(); w < count * width; w += size()) {
                index_t const r = first + w / width;
                index_t const end = n - r * run < run ? n : (r + 1) * run;
                chosen<real> const best = best_of(r * run + w % width, end, width, f, chosen<real>{});
                set(strands, board_->strand_index, (w / width) * pitch + w % width, best);
            }
            member_->team_barrier();
            for (index_t c = rank(); c < count; c += size())
                set(keys, board_->run_index, first + c, best_chosen(strands, board_->strand_index, c * pitch, width));
            member_->team_barrier();
        }
        for (std::size_t k = 0; k < out.size(); ++k) {
            // Sixteen members search sixteen runs each, then all members the sixteen winners. Here `strand_index` holds
            // runs.
            for (index_t v = rank(); v < 16; v += size()) {
                index_t from = none;
                for (index_t r = v * 16; r < v * 16 + 16 && r < runs; ++r)
                    if (board_->run_index[r] != none && (from == none || keys[r] > keys[from])) from = r;
                set(strands, board_->strand_index, v, {from == none ? real(0) : keys[from], from});
            }
            member_->team_barrier();
            index_t const from = best_chosen(strands, board_->strand_index, 0, 16).index;
            if (from == none) {
                out[k] = none;
                member_->team_barrier();
                continue;
            }
            chosen<real> const winner{keys[from], board_->run_index[from]};
            out[k] = winner.index;
            index_t const end = n - from * run < run ? n : (from + 1) * run;
            for (index_t v = rank(); v < 256; v += size())
                set(strands, board_->strand_index, 16 + v, best_of(from * run + v, end, 256, f, winner));
            member_->team_barrier();
            for (index_t v = rank(); v < 16; v += size())
                set(strands, board_->strand_index, 272 + v,
                    best_chosen(strands, board_->strand_index, 16 + v * 16, 16));
            member_->team_barrier();
            if (leader()) set(keys, board_->run_index, from, best_chosen(strands, board_->strand_index, 272, 16));
            member_->team_barrier();
        }
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks(index_t n, W const& w) const {
        using real = result_of<W>;
        team_chunk_sums<real> sums{0, numbers<real>(board_->row_sums)};
        each_chunk<adding>(n, w, sums.values, [&](index_t, real here) { sums.total += here; });
        return sums;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD team_chunk_sums<Real> sums_of_one(index_t n, index_t where) const {
        return sums_by<Real>(n, Real(1), [where](index_t c) { return c == where / chunk_size ? Real(1) : Real(0); });
    }

    /// See `group`: the chunk sums that an earlier call wrote.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD team_chunk_sums<Real> sums_from(index_t n, Real const* values, Real total) const {
        return sums_by<Real>(n, total, [values](index_t c) { return values[c]; });
    }

    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] MULTIDRAFT_HD softmax_sums<Real, team_chunk_sums<Real>> softmax(index_t n, X const& x,
                                                                                  Real scale) const {
        constexpr Real nothing = minus_infinity<Real>;
        exp_nonpositive<Real> const weight(scale);
        softmax_sums<Real, team_chunk_sums<Real>> result;
        result.largest = nothing;
        result.sums.values = numbers<Real>(board_->row_sums);
        Real* const sums = result.sums.values;
        Real* const peaks = numbers<Real>(board_->results);
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = chunks - first < capacity ? chunks : first + capacity;
            // Both passes are over the same sixteen chunks, so that the second reads them from a cache.
            for (index_t c = first; c < last; c += batch) {
                index_t const end = last - c < batch ? last : c + batch;
                fold_chunks<larger>(
                    c, end, n, [&x](index_t, index_t i) { return x(i); }, peaks + (c - first));
                fold_chunks<adding>(
                    c, end, n,
                    [&x, peaks, first, weight](index_t chunk, index_t i) {
                        Real const here = peaks[chunk - first];
                        Real const base = here == nothing ? Real(0) : here;
                        return weight(x(i) - base);
                    },
                    sums + (c - first));
            }
            Real const before = result.largest;
            for (index_t c = first; c < last; ++c)
                result.largest = peaks[c - first] > result.largest ? peaks[c - first] : result.largest;
            if (first > 0 && before < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before - result.largest));
            for (index_t c = rank(); c < last - first; c += size())
                if (peaks[c] != result.largest && peaks[c] != nothing)
                    sums[c] = fp::mul(sums[c], weight(peaks[c] - result.largest));
            member_->team_barrier();
            for (index_t c = 0; c < last - first; ++c) result.sums.total += sums[c];
        }
        return result;
    }

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t inverse_cdf(team_chunk_sums<Real> const& sums, index_t n, W const& w, double u,
                                                    span<token_id const> taken = {}) const {
        index_t const chunks = chunks_of(n);
        index_t c = none;
        if (chunks <= capacity)
            c = multidraft::detail::choose_run(
                chunks, [&sums](index_t k) { return sums.values[k]; }, u);
        else
            c = multidraft::detail::choose_run(
                chunks, [&](index_t k) { return sum_without<Real>(k * chunk_size, n, w, taken); }, u);
        return c == none ? none : descend<Real>(c * chunk_size, n, w, taken, u);
    }

    template <class Real, class W>
    MULTIDRAFT_HD void update_chunk(team_chunk_sums<Real>& sums, index_t n, W const& w, span<token_id const> taken,
                                    index_t changed) const {
        index_t const chunks = chunks_of(n);
        Real total = 0;
        if (chunks <= capacity) {
            index_t const c = changed / chunk_size;
            Real const here = sum_without<Real>(c * chunk_size, n, w, taken);
            for (index_t k = 0; k < chunks; ++k) total += k == c ? here : sums.values[k];
            if (leader()) sums.values[c] = here;
            member_->team_barrier();
        } else {
            for (index_t c = 0; c < chunks; ++c) total += sum_without<Real>(c * chunk_size, n, w, taken);
        }
        sums.total = total;
    }

    /// The team's own counters for `histogram`, in its scratch memory; valid until a `histogram` into other bins.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD span<std::uint64_t> counters() const {
        static_assert(N <= static_cast<std::size_t>(most_bins));
        return {board_->bins, N};
    }

    /// The sum of all counters.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t histogram_total(Counters const& counters) const {
        auto const* const parts = sum_of_parts(counters);
        std::uint64_t total = 0;
        for (index_t p = 0; p < most_parts; ++p) total += parts[p];
        member_->team_barrier();
        return total;
    }

    /// The bin in which a running sum from the last bin downwards reaches `wanted`; on return `wanted` is what is left
    /// to take from that bin. Bin 0 if none does.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD index_t histogram_bin_reaching(Counters const& counters, std::uint64_t& wanted) const {
        auto const* const parts = sum_of_parts(counters);
        auto const size = static_cast<index_t>(counters.size());
        index_t const part = part_of(size);
        index_t p = most_parts - 1;
        for (; p > 0 && parts[p] < wanted; --p) wanted -= parts[p];
        member_->team_barrier();
        index_t b = (size - p * part < part ? size : (p + 1) * part) - 1;
        for (; b > p * part && counters[static_cast<std::size_t>(b)] < wanted; --b)
            wanted -= counters[static_cast<std::size_t>(b)];
        return b;
    }

    /// Counters are shared by the team, 2048 at a time.
    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        std::uint64_t plain = 0;  // sum of a window's first bin, kept per member to avoid contention
        count_in_windows(
            n, bins,
            [&](index_t i, index_t low, index_t here) MULTIDRAFT_INLINE_LAMBDA {
                index_t const b = bin(i);
                if (b == low)
                    plain += static_cast<std::uint64_t>(mass(i));
                else if (b > low && b - low < here)
                    Kokkos::atomic_add(&board_->bins[b - low], static_cast<std::uint64_t>(mass(i)));
            },
            [&] {
                if (plain != 0) Kokkos::atomic_add(&board_->bins[0], plain);
                plain = 0;
            });
    }

    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        count_in_windows(
            n, bins,
            [&](index_t i, index_t low, index_t here) MULTIDRAFT_INLINE_LAMBDA {
                binned_pair const more = f(i);
                if (more.bin < low / 2 || more.bin - low / 2 >= here / 2) return;
                std::uint64_t* const counters = board_->bins + (2 * more.bin - low);
                if (more.first != 0) Kokkos::atomic_add(counters, static_cast<std::uint64_t>(more.first));
                if (more.second != 0) Kokkos::atomic_add(counters + 1, static_cast<std::uint64_t>(more.second));
            },
            [] {});
    }

private:
    // Rules for writing to the board. When an operation returns on any member, all members have read its strands, so
    // the next operation may write them at once. Everything else on the board may still be read by slower members: an
    // operation writes it after a barrier of its own.

    template <class F>
    using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

    static constexpr index_t capacity = chunk_sums<float>::capacity;
    static constexpr index_t width = 32;  ///< strands of a chunk
    static constexpr index_t pitch = 33;  ///< one more, so that folding members read different banks
    static constexpr index_t batch = 16;  ///< chunks between two barriers
    static constexpr index_t own = chunk_lanes / width;
    static constexpr index_t most_runs = 256;
    static constexpr index_t most_bins = 2048;
    static constexpr index_t most_parts = 64;  ///< of the counters: a bin is found in 64 steps and then 32

    struct board {
        double row_sums[capacity];
        double results[capacity];
        double strands[batch * pitch];
        std::uint64_t bins[most_bins];
        index_t strand_index[batch * pitch];
        index_t run_index[most_runs];
    };

    struct adding {
        template <class Real>
        static constexpr Real start = Real(0);
        template <class Real>
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD static Real apply(Real a, Real b) {
            return a + b;
        }
    };
    struct larger {
        template <class Real>
        static constexpr Real start = minus_infinity<Real>;
        template <class Real>
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD static Real apply(Real a, Real b) {
            return b > a ? b : a;
        }
    };

    /// `add(i, low, here)` adds entry i to the bins of the current window, which begins at `low`.
    template <class Add, class Finish>
    MULTIDRAFT_HD void count_in_windows(index_t n, span<std::uint64_t> bins, Add const& add,
                                        Finish const& finish) const {
        auto const all = static_cast<index_t>(bins.size());
        for (index_t low = 0; low < all; low += most_bins) {
            index_t const here = all - low < most_bins ? all - low : most_bins;
            member_->team_barrier();
            for (index_t b = rank(); b < here; b += size()) board_->bins[b] = 0;
            member_->team_barrier();
            for (index_t i = rank(); i < n; i += size()) add(i, low, here);
            finish();
            member_->team_barrier();
            if (bins.data() == board_->bins) return;
            for (index_t b = 0; b < here; ++b) bins[static_cast<std::size_t>(low + b)] = board_->bins[b];
        }
    }

    [[nodiscard]] MULTIDRAFT_HD index_t rank() const { return member_->team_rank(); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return member_->team_size(); }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static Real* numbers(double* place) {
        static_assert(sizeof(Real) <= sizeof(double));
        return reinterpret_cast<Real*>(place);
    }

    template <class Real>
    MULTIDRAFT_HD static void set(Real* keys, index_t* indices, index_t at, chosen<Real> what) {
        keys[at] = what.key;
        indices[at] = what.index;
    }

    [[nodiscard]] MULTIDRAFT_HD static index_t part_of(index_t bins) {
        return bins / most_parts + (bins % most_parts != 0 ? 1 : 0);
    }

    /// The sums of 64 equal parts of the counters, in the memory of the strands.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t const* sum_of_parts(Counters const& counters) const {
        static_assert(sizeof(std::uint64_t) == sizeof(double) && most_parts <= batch * pitch);
        auto* const parts = reinterpret_cast<std::uint64_t*>(board_->strands);
        auto const size = static_cast<index_t>(counters.size());
        index_t const part = part_of(size);
        for (index_t p = rank(); p < most_parts; p += this->size()) {
            std::uint64_t sum = 0;
            for (index_t b = p * part; b < (p + 1) * part && b < size; ++b)
                sum += counters[static_cast<std::size_t>(b)];
            parts[p] = sum;
        }
        member_->team_barrier();
        return parts;
    }

    [[nodiscard]] MULTIDRAFT_HD static index_t smallest_of_16(index_t const* values) {
        index_t least = values[0];
        for (index_t v = 1; v < 16; ++v) least = values[v] < least ? values[v] : least;
        return least;
    }

    /// Folds a power of two of values pairwise: v with v + half, for half = count / 2, .., 1.
    template <class Op, index_t count, class Real>
    [[nodiscard]] MULTIDRAFT_HD static Real pairwise(Real const* values, index_t step = 1) {
        Real v[static_cast<std::size_t>(count)];
        for (index_t l = 0; l < count; ++l) v[l] = values[l * step];
        for (index_t half = count / 2; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) v[l] = Op::apply(v[l], v[l + half]);
        return v[0];
    }

    /// Lanes l, l + 32, .. l + 224 of a chunk of terms `term(chunk, i)`, folded.
    template <class Op, class Real, class Term>
    [[nodiscard]] MULTIDRAFT_HD static Real strand(index_t chunk, index_t l, index_t n, Term const& term) {
        index_t const begin = chunk * chunk_size;
        index_t const length = n - begin < chunk_size ? n - begin : chunk_size;
        index_t const whole = length / chunk_lanes;
        index_t const rest = length % chunk_lanes;
        Real acc[own];
        for (index_t j = 0; j < own; ++j) acc[j] = Op::template start<Real>;
        for (index_t r = 0; r < whole; ++r)
            for (index_t j = 0; j < own; ++j)
                acc[j] = Op::apply(acc[j], static_cast<Real>(term(chunk, begin + r * chunk_lanes + j * width + l)));
        for (index_t j = 0; j < own; ++j)
            if (j * width + l < rest)
                acc[j] = Op::apply(acc[j], static_cast<Real>(term(chunk, begin + whole * chunk_lanes + j * width + l)));
        return pairwise<Op, own>(acc);
    }

    /// The folds of chunks [first, last), written from `out` on.
    template <class Op, class Real, class Term>
    MULTIDRAFT_HD void fold_chunks(index_t first, index_t last, index_t n, Term const& term, Real* out) const {
        Real* const strands = numbers<Real>(board_->strands);
        for (index_t c = first; c < last; c += batch) {
            index_t const count = last - c < batch ? last - c : batch;
            for (index_t w = rank(); w < count * width; w += size())
                strands[(w / width) * pitch + w % width] = strand<Op, Real>(c + w / width, w % width, n, term);
            member_->team_barrier();
            for (index_t k = rank(); k < count; k += size())
                out[c - first + k] = pairwise<Op, width>(strands + k * pitch);
            member_->team_barrier();
        }
    }

    /// The folds of all chunks of a row, passed to `take(chunk, result)` in index order on every member. `results` has
    /// space for `capacity` chunks and finally holds the last ones.
    template <class Op, class Real, class F, class Take>
    MULTIDRAFT_HD void each_chunk(index_t n, F const& f, Real* results, Take const& take) const {
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += capacity) {
            index_t const last = chunks - first < capacity ? chunks : first + capacity;
            fold_chunks<Op>(
                first, last, n, [&f](index_t, index_t i) { return f(i); }, results);
            for (index_t c = first; c < last; ++c) take(c, results[c - first]);
        }
    }

    /// Chunk sums that are known: `value(c)` is that of chunk c.
    template <class Real, class Value>
    [[nodiscard]] MULTIDRAFT_HD team_chunk_sums<Real> sums_by(index_t n, Real total, Value const& value) const {
        team_chunk_sums<Real> sums{total, numbers<Real>(board_->row_sums)};
        member_->team_barrier();
        for (index_t c = rank(); c < kept_sums(n); c += size()) sums.values[c] = value(c);
        member_->team_barrier();
        return sums;
    }

    /// The best of every `step`-th entry that comes after `past`, which may be empty.
    template <class Real, class F>
    [[nodiscard]] MULTIDRAFT_HD static chosen<Real> best_of(index_t begin, index_t end, index_t step, F const& f,
                                                            chosen<Real> past) {
        chosen<Real> best;
        for (index_t i = begin; i < end; i += step) {
            chosen<Real> const here{f(i), i};
            if (here.before(best) && past.before(here)) best = here;
        }
        return best;
    }

    /// The best of some entries on the board, some of which may be empty.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static chosen<Real> best_chosen(Real const* keys, index_t const* indices, index_t begin,
                                                                index_t count) {
        chosen<Real> best;
        for (index_t k = begin; k < begin + count; ++k) {
            chosen<Real> const here{keys[k], indices[k]};
            if (here.index != none && here.before(best)) best = here;
        }
        return best;
    }

    /// w, but 0 for tokens in `taken` and beyond the row.
    template <class Real, class W>
    struct without {
        W const& w;
        span<token_id const> taken;
        index_t n;
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t i) const {
            if (i >= n) return Real(0);
            for (token_id const x : taken)
                if (x == i) return Real(0);
            return w(i);
        }
    };

    /// `taken`, or an empty span if none of its tokens lies in the chunk, so that most chunks need no test.
    [[nodiscard]] MULTIDRAFT_HD static span<token_id const> taken_in(span<token_id const> taken, index_t begin) {
        for (token_id const x : taken)
            if (x >= begin && x - begin < chunk_size) return taken;
        return {};
    }

    /// The sum of one chunk: all 256 lanes at once.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real sum_without(index_t begin, index_t n, W const& w,
                                                 span<token_id const> taken) const {
        without<Real, W> const term{w, taken_in(taken, begin), n};
        Real* const strands = numbers<Real>(board_->strands);
        for (index_t l = rank(); l < chunk_lanes; l += size()) {
            Real acc = term(begin + l);
            for (index_t r = 1; r < chunk_rows; ++r) acc += term(begin + r * chunk_lanes + l);
            strands[l] = acc;
        }
        member_->team_barrier();
        for (index_t l = rank(); l < width; l += size())
            strands[chunk_lanes + l] = pairwise<adding, own>(strands + l, width);
        member_->team_barrier();
        Real const result = pairwise<adding, width>(strands + chunk_lanes);
        member_->team_barrier();
        return result;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static index_t choose_of_16(Real const* sums, double& u) {
        return multidraft::detail::choose_run(
            16, [sums](index_t k) { return sums[k]; }, u);
    }

    /// The token of one chunk at the fraction u of its sum: 16 runs of 256 terms, 16 of 16, 16 terms.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t descend(index_t begin, index_t n, W const& w, span<token_id const> taken,
                                                double u) const {
        without<Real, W> const term{w, taken_in(taken, begin), n};
        Real* const strands = numbers<Real>(board_->strands);
        Real* const runs = strands + chunk_lanes;
        for (index_t v = rank(); v < 256; v += size()) {
            index_t const at = begin + (v / 16) * 256 + v % 16;
            Real acc = term(at);
            for (index_t r = 1; r < 16; ++r) acc += term(at + r * 16);
            strands[v] = acc;
        }
        member_->team_barrier();
        for (index_t v = rank(); v < 16; v += size()) runs[v] = pairwise<adding, 16>(strands + v * 16);
        member_->team_barrier();
        index_t const a = choose_of_16(runs, u);
        index_t result = none;
        if (a != none) {
            for (index_t v = rank(); v < 256; v += size()) strands[v] = term(begin + a * 256 + v);
            member_->team_barrier();
            for (index_t v = rank(); v < 16; v += size()) runs[16 + v] = pairwise<adding, 16>(strands + v * 16);
            member_->team_barrier();
            index_t const b = choose_of_16(runs + 16, u);
            if (b != none) {
                index_t const c = choose_of_16(strands + b * 16, u);
                if (c != none) result = begin + a * 256 + b * 16 + c;
            }
        }
        member_->team_barrier();
        return result;
    }

    Member const* member_;
    board* board_;
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
