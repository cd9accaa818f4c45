// The members of a Kokkos team and the memory that they share: what its two groups have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos::detail {

/// An entry of a row and its key; empty without an index.
template <class Real>
struct chosen {
    Real key = minus_infinity<Real>;
    index_t index = none;

    /// Whether this entry precedes `other` in the order of `top_k`: the larger key first, ties to the lower index. An
    /// empty `other` comes after every entry; an empty `this` means "no bound" and precedes every entry.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool before(chosen const& other) const noexcept {
        if (index == none || other.index == none) return true;
        return key > other.key || (key == other.key && index < other.index);
    }
};

/// What the members of a team exchange, in its scratch memory.
struct team_board {
    static constexpr index_t most_runs = 256;
    static constexpr index_t most_bins = 2048;

    double numbers[2][static_cast<std::size_t>(chunk_sums<float>::capacity)];
    std::uint64_t bins[static_cast<std::size_t>(most_bins)];
    index_t run_index[static_cast<std::size_t>(most_runs)];
};

/// The operations that `thread_team_group` and `lane_team_group` share. `Self` is one of them, with `best_of_runs` and
/// `best_of_256`; its `Board` is a `team_board`.
template <class Self, class Member, class Board>
class team_members : public chunk_folds<Self> {
public:
    static constexpr bool throws = false;

    /// Bytes of team scratch (level 0) that a launch needs for one group, at most 32 KiB.
    [[nodiscard]] static constexpr std::size_t scratch_bytes() noexcept { return sizeof(Board); }

    /// Takes its scratch from the member's team; all members must construct it at the same point. The member must
    /// outlive it.
    MULTIDRAFT_HD explicit team_members(Member const& member)
        : member_(&member),
          board_(static_cast<Board*>(
              member.team_scratch(0).get_shmem_aligned(sizeof(Board), static_cast<std::ptrdiff_t>(alignof(Board))))) {}

    [[nodiscard]] MULTIDRAFT_HD bool leader() const { return rank() == 0; }
    MULTIDRAFT_HD void barrier() const { member_->team_barrier(); }

    /// One pass finds the largest key of each of at most 256 runs; then the run of each of the `out.size()` winners is
    /// read once more.
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        using real = multidraft::detail::result_of<F>;
        if (out.empty()) return;
        index_t const even = n / Board::most_runs + (n % Board::most_runs != 0 ? 1 : 0);
        index_t const run = even < chunk_lanes ? chunk_lanes : even;
        index_t const runs = n > 0 ? (n - 1) / run + 1 : 0;
        auto const end_of = [run, n](index_t r) { return n - r * run < run ? n : (r + 1) * run; };
        real* const keys = numbers<real>(0);
        self().best_of_runs(runs, end_of, run, f, keys);
        for (token_id& winner : out) {
            index_t const from = self()
                                     .template best_of_256<real>([&](index_t r) {
                                         bool const listed = r < runs && board_->run_index[r] != none;
                                         return listed ? chosen<real>{keys[r], r} : chosen<real>{};
                                     })
                                     .index;
            if (from == none) {
                winner = none;
                continue;
            }
            chosen<real> const best{keys[from], board_->run_index[from]};
            winner = best.index;
            chosen<real> const next = self().template best_of_256<real>(
                [&](index_t v) { return best_of(from * run + v, end_of(from), 256, f, best); });
            if (leader()) set(keys, board_->run_index, from, next);
            barrier();
        }
    }

protected:
    [[nodiscard]] MULTIDRAFT_HD index_t rank() const { return member_->team_rank(); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return member_->team_size(); }
    [[nodiscard]] MULTIDRAFT_HD Board& board() const { return *board_; }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real* numbers(int which) const {
        static_assert(sizeof(Real) <= sizeof(double));
        return reinterpret_cast<Real*>(board_->numbers[which]);
    }

    template <class Real>
    MULTIDRAFT_HD static void set(Real* keys, index_t* indices, index_t at, chosen<Real> what) {
        keys[at] = what.key;
        indices[at] = what.index;
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

    /// Counts in the team's bins, 2048 at a time: `count(low, here)` adds what this member counts in the `here` bins
    /// from `low` on.
    template <class Count>
    MULTIDRAFT_HD void count_in_windows(span<std::uint64_t> bins, Count const& count) const {
        auto const all = static_cast<index_t>(bins.size());
        for (index_t low = 0; low < all; low += Board::most_bins) {
            index_t const here = all - low < Board::most_bins ? all - low : Board::most_bins;
            barrier();
            for (index_t b = rank(); b < here; b += size()) board_->bins[b] = 0;
            barrier();
            count(low, here);
            barrier();
            if (bins.data() == board_->bins) return;
            for (index_t b = 0; b < here; ++b) bins[static_cast<std::size_t>(low + b)] = board_->bins[b];
        }
    }

private:
    [[nodiscard]] MULTIDRAFT_HD Self const& self() const noexcept { return static_cast<Self const&>(*this); }

    Member const* member_;
    Board* board_;
};

}  // namespace MULTIDRAFT_NAMESPACE::kokkos::detail
