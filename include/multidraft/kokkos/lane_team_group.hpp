// The group of a Kokkos team on a device: neighbouring members read neighbouring entries of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/kokkos/team_members.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

namespace detail {

/// The board of a `lane_team_group`: beside the common one, the strands of some chunks.
struct lane_board : team_board {
    static constexpr index_t width = 32;  ///< strands of a chunk
    static constexpr index_t pitch = 33;  ///< one more, so that folding members read different banks
    static constexpr index_t batch = 16;  ///< chunks between two barriers

    double strands[static_cast<std::size_t>(batch * pitch)];
    index_t strand_index[static_cast<std::size_t>(batch * pitch)];
};

}  // namespace detail

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
class lane_team_group : public detail::team_members<lane_team_group<Member>, Member, detail::lane_board> {
    using base = detail::team_members<lane_team_group<Member>, Member, detail::lane_board>;
    using folds = chunk_folds<lane_team_group<Member>>;
    using defaults = group_defaults<lane_team_group<Member>>;
    friend base;
    friend folds;

public:
    using base::barrier;
    using base::base;
    using base::top_k;
    using defaults::count_part;
    using defaults::digit_bits;
    using defaults::fast_top_k;
    using defaults::nth;
    using defaults::sum_chunks_of;
    using defaults::top_k_of_logits;
    using folds::argmax;
    using folds::inverse_cdf;
    using folds::max;
    using folds::softmax;
    using folds::sum;
    using folds::sum_chunks;
    using folds::sums_from;
    using folds::sums_of_one;
    using folds::update_chunk;

    template <class Real>
    using chunk_sums_type = shared_chunk_sums<Real>;

    /// The team's own counters for `histogram`, in its scratch memory; valid until a `histogram` into other bins.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD span<std::uint64_t> counters() const {
        static_assert(N <= static_cast<std::size_t>(detail::lane_board::most_bins));
        return {board().bins, N};
    }

    /// The sum of all counters.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t histogram_total(Counters const& counters) const {
        auto const* const parts = sum_of_parts(counters);
        std::uint64_t total = 0;
        for (index_t p = 0; p < most_parts; ++p) total += parts[p];
        barrier();
        return total;
    }

    /// The bin in which a running sum from the last bin downwards reaches `wanted`; on return `wanted` is what is left
    /// to take from that bin. Bin 0 if none does.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD index_t histogram_bin_reaching(Counters const& counters, std::uint64_t& wanted) const {
        auto const* const parts = sum_of_parts(counters);
        auto const count = static_cast<index_t>(counters.size());
        index_t const part = part_of(count);
        index_t p = most_parts - 1;
        for (; p > 0 && parts[p] < wanted; --p) wanted -= parts[p];
        barrier();
        index_t b = (count - p * part < part ? count : (p + 1) * part) - 1;
        for (; b > p * part && counters[static_cast<std::size_t>(b)] < wanted; --b)
            wanted -= counters[static_cast<std::size_t>(b)];
        return b;
    }

    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        base::count_in_windows(bins, [&](index_t low, index_t here) {
            std::uint64_t plain = 0;  // sum of the window's first bin, kept per member to avoid contention
            for (index_t i = rank(); i < n; i += size()) {
                index_t const b = bin(i);
                if (b == low)
                    plain += static_cast<std::uint64_t>(mass(i));
                else if (b > low && b - low < here)
                    Kokkos::atomic_add(&board().bins[b - low], static_cast<std::uint64_t>(mass(i)));
            }
            if (plain != 0) Kokkos::atomic_add(&board().bins[0], plain);
        });
    }

    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        base::count_in_windows(bins, [&](index_t low, index_t here) {
            for (index_t i = rank(); i < n; i += size()) {
                binned_pair const more = f(i);
                if (more.bin < low / 2 || more.bin - low / 2 >= here / 2) continue;
                std::uint64_t* const counters = board().bins + (2 * more.bin - low);
                if (more.first != 0) Kokkos::atomic_add(counters, static_cast<std::uint64_t>(more.first));
                if (more.second != 0) Kokkos::atomic_add(counters + 1, static_cast<std::uint64_t>(more.second));
            }
        });
    }

private:
    // Rules for writing to the board. When an operation returns on any member, all members have read its strands, so
    // the next operation may write them at once. Everything else on the board may still be read by slower members: an
    // operation writes it after a barrier of its own.

    using base::best_of;
    using base::board;
    using base::rank;
    using base::set;
    using base::size;
    template <class Real>
    using chosen = detail::chosen<Real>;
    using adding = multidraft::detail::adding;
    using larger = multidraft::detail::larger;

    static constexpr index_t width = detail::lane_board::width;
    static constexpr index_t pitch = detail::lane_board::pitch;
    static constexpr index_t batch = detail::lane_board::batch;
    static constexpr index_t own = chunk_lanes / width;
    static constexpr index_t most_parts = 64;  ///< of the counters: a bin is found in 64 steps and then 32

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* strands() const {
        static_assert(sizeof(Real) <= sizeof(double));
        return reinterpret_cast<Real*>(board().strands);
    }

    // The chunk sums are shared by the team.

    template <class Real>
    MULTIDRAFT_HD void next_sums(shared_chunk_sums<Real>& sums) const {
        sums.values = base::template numbers<Real>(1);
    }
    template <class Real>
    MULTIDRAFT_HD void next_window(shared_chunk_sums<Real>& window) const {
        window.values = base::template numbers<Real>(0);
    }
    [[nodiscard]] MULTIDRAFT_HD index_t sharer() const { return rank(); }
    [[nodiscard]] MULTIDRAFT_HD index_t sharers() const { return size(); }
    MULTIDRAFT_HD void meet() const { barrier(); }

    [[nodiscard]] MULTIDRAFT_HD static index_t part_of(index_t bins) {
        return bins / most_parts + (bins % most_parts != 0 ? 1 : 0);
    }

    /// The sums of 64 equal parts of the counters, in the memory of the strands.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t const* sum_of_parts(Counters const& counters) const {
        static_assert(sizeof(std::uint64_t) == sizeof(double) && most_parts <= batch * pitch);
        auto* const parts = reinterpret_cast<std::uint64_t*>(board().strands);
        auto const count = static_cast<index_t>(counters.size());
        index_t const part = part_of(count);
        for (index_t p = rank(); p < most_parts; p += size()) {
            std::uint64_t total = 0;
            for (index_t b = p * part; b < (p + 1) * part && b < count; ++b)
                total += counters[static_cast<std::size_t>(b)];
            parts[p] = total;
        }
        barrier();
        return parts;
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
        return multidraft::detail::pairwise<Op, own>(acc);
    }

    template <class Op, int, class F, class Real>
    MULTIDRAFT_HD void fold_window(index_t first, index_t last, index_t n, F const& f, Real* out) const {
        fold_chunks<Op>(
            first, last, n, [&f](index_t, index_t i) { return f(i); }, out);
    }

    /// Both passes are over the same sixteen chunks, so that the second reads them from a cache.
    template <class X, class Real>
    MULTIDRAFT_HD void exponentials(index_t first, index_t last, index_t n, X const& x,
                                    exp_nonpositive<Real> const& weight, Real* peaks, Real* sums) const {
        for (index_t c = first; c < last; c += batch) {
            index_t const end = last - c < batch ? last : c + batch;
            fold_chunks<larger>(
                c, end, n, [&x](index_t, index_t i) { return x(i); }, peaks + (c - first));
            fold_chunks<adding>(
                c, end, n,
                [&x, peaks, first, weight](index_t chunk, index_t i) {
                    Real const here = peaks[chunk - first];
                    Real const level = here == minus_infinity<Real> ? Real(0) : here;
                    return weight(x(i) - level);
                },
                sums + (c - first));
        }
    }

    /// The folds of chunks [first, last), written from `out` on.
    template <class Op, class Real, class Term>
    MULTIDRAFT_HD void fold_chunks(index_t first, index_t last, index_t n, Term const& term, Real* out) const {
        Real* const strands = this->strands<Real>();
        for (index_t c = first; c < last; c += batch) {
            index_t const count = last - c < batch ? last - c : batch;
            for (index_t w = rank(); w < count * width; w += size())
                strands[(w / width) * pitch + w % width] = strand<Op, Real>(c + w / width, w % width, n, term);
            barrier();
            for (index_t k = rank(); k < count; k += size())
                out[c - first + k] = multidraft::detail::pairwise<Op, width>(strands + k * pitch);
            barrier();
        }
    }

    template <class EndOf, class F, class Real>
    MULTIDRAFT_HD void best_of_runs(index_t runs, EndOf const& end_of, index_t run, F const& f, Real* keys) const {
        Real* const best = strands<Real>();
        for (index_t first = 0; first < runs; first += batch) {
            index_t const count = runs - first < batch ? runs - first : batch;
            for (index_t w = rank(); w < count * width; w += size()) {
                index_t const r = first + w / width;
                set(best, board().strand_index, (w / width) * pitch + w % width,
                    best_of(r * run + w % width, end_of(r), width, f, chosen<Real>{}));
            }
            barrier();
            for (index_t c = rank(); c < count; c += size())
                set(keys, board().run_index, first + c, best_on_board<Real>(c * pitch, width));
            barrier();
        }
    }

    /// The best of `of(v)` for v < 256: of each, of sixteen of them, of these. Ends with a barrier.
    template <class Real, class Of>
    [[nodiscard]] MULTIDRAFT_HD chosen<Real> best_of_256(Of const& of) const {
        for (index_t v = rank(); v < 256; v += size()) set(strands<Real>(), board().strand_index, v, of(v));
        barrier();
        for (index_t v = rank(); v < 16; v += size())
            set(strands<Real>(), board().strand_index, 256 + v, best_on_board<Real>(v * 16, 16));
        barrier();
        chosen<Real> const best = best_on_board<Real>(256, 16);
        barrier();
        return best;
    }

    template <class F, class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t first_equal(index_t begin, index_t end, F const& f, Real value) const {
        return best_of_256<Real>([&](index_t v) {
                   index_t i = begin + v;
                   while (i < end && !(f(i) == value)) i += 256;
                   return i < end ? chosen<Real>{value, i} : chosen<Real>{};
               })
            .index;
    }

    /// The best of `count` strands from `begin` on, some of which may be empty.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD chosen<Real> best_on_board(index_t begin, index_t count) const {
        chosen<Real> best;
        for (index_t k = begin; k < begin + count; ++k) {
            chosen<Real> const here{strands<Real>()[k], board().strand_index[k]};
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
    [[nodiscard]] MULTIDRAFT_HD Real sum_without(index_t c, index_t n, W const& w, span<token_id const> taken) const {
        index_t const begin = c * chunk_size;
        without<Real, W> const term{w, taken_in(taken, begin), n};
        Real* const strands = this->strands<Real>();
        for (index_t l = rank(); l < chunk_lanes; l += size()) {
            Real acc = term(begin + l);
            for (index_t r = 1; r < chunk_rows; ++r) acc += term(begin + r * chunk_lanes + l);
            strands[l] = acc;
        }
        barrier();
        for (index_t l = rank(); l < width; l += size())
            strands[chunk_lanes + l] = multidraft::detail::pairwise<adding, own>(strands + l, width);
        barrier();
        Real const result = multidraft::detail::pairwise<adding, width>(strands + chunk_lanes);
        barrier();
        return result;
    }

    /// The token of one chunk at the fraction u of its sum: 16 runs of 256 terms, 16 of 16, 16 terms.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t find_in_chunk(index_t c, index_t n, W const& w, span<token_id const> taken,
                                                      double u) const {
        index_t const begin = c * chunk_size;
        without<Real, W> const term{w, taken_in(taken, begin), n};
        Real* const strands = this->strands<Real>();
        Real* const runs = strands + chunk_lanes;
        for (index_t v = rank(); v < 256; v += size()) {
            index_t const at = begin + (v / 16) * 256 + v % 16;
            Real acc = term(at);
            for (index_t r = 1; r < 16; ++r) acc += term(at + r * 16);
            strands[v] = acc;
        }
        barrier();
        for (index_t v = rank(); v < 16; v += size())
            runs[v] = multidraft::detail::pairwise<adding, 16>(strands + v * 16);
        barrier();
        index_t const a = multidraft::detail::choose_of_16(runs, u);
        index_t result = none;
        if (a != none) {
            for (index_t v = rank(); v < 256; v += size()) strands[v] = term(begin + a * 256 + v);
            barrier();
            for (index_t v = rank(); v < 16; v += size())
                runs[16 + v] = multidraft::detail::pairwise<adding, 16>(strands + v * 16);
            barrier();
            index_t const b = multidraft::detail::choose_of_16(runs + 16, u);
            if (b != none) {
                index_t const d = multidraft::detail::choose_of_16(strands + b * 16, u);
                if (d != none) result = begin + a * 256 + b * 16 + d;
            }
        }
        barrier();
        return result;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
