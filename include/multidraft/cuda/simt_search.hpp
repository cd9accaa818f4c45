// Searches in a row by a CUDA group: which entry a running sum reaches, and the ledger when an entry has changed.
#pragma once

#include <cstddef>
#include <type_traits>

#include "multidraft/core/choose_run.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_sums.hpp"
#include "multidraft/cuda/simt_threads.hpp"

namespace multidraft::cuda {

/// `search` and `reweigh`: what looks into a single chunk. Each rank does it alike.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_search : public simt_sums<Lanes, Split, Widest, Wide> {
    using base = simt_sums<Lanes, Split, Widest, Wide>;

public:
    using base::base;
    using base::slots;
    using base::threads;
    using base::wide;

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t search(shared_ledger<Real> const& sums, index_t n,
                                                                  W const& w, Real t,
                                                                  span<token_id const> taken = {}) const {
        index_t const chunks = chunks_of(n);
        Real passed = 0;
        index_t last_with_mass = none;
        Real last_before = 0;
        if (chunks <= slots) {
            walk(sums.sums, 0, chunks, t, passed, last_with_mass, last_before);
        } else {
            auto const left = without(w, taken);
            for (index_t first = 0; first < chunks; first += slots) {
                index_t const last = window_end(first, chunks);
                Real* const here = detail::next<Real>(shared_->temporary, temporary_turn_);
                base::template sum_chunks<8>(first, last, n, left, here);
                if (walk(here, first, last, t, passed, last_with_mass, last_before)) break;
            }
        }
        if (last_with_mass == none) return none;
        Real const* const values = evaluate<Real>(last_with_mass, n, w, taken);
        index_t const found = descend(values, t - last_before);
        return found == none ? none : last_with_mass * chunk_size + found;
    }

    template <class Real, class W>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void reweigh(shared_ledger<Real>& sums, index_t n, W const& w,
                                                  span<token_id const> taken, index_t changed) const {
        index_t const chunks = chunks_of(n);
        if (chunks > slots) {
            sums.total = sum_without(n, w, taken);
            return;
        }
        index_t const c = changed / chunk_size;
        Real const* const values = evaluate<Real>(c, n, w, taken);
        if (warp() == 0) {
            Real lanes[8] = {};
            for (index_t r = 0; r < chunk_rows; ++r) {
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < 8; ++j) lanes[j] += values[r * chunk_lanes + 8 * lane() + j];
            }
            Real const here = base::template fold<1>(lanes);
            if (lane() == 0) sums.sums[c] = here;
        }
        lanes_.sync();
        sums.total = in_order(sums.sums, chunks, Real(0));
    }

protected:
    using base::entry_of;
    using base::for_adjacent_of;
    using base::in_order;
    using base::lane;
    using base::lanes_;
    using base::shared_;
    using base::temporary_turn_;
    using base::warp;
    using base::wide_lanes;
    using base::window_end;

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_without(index_t n, W const& w, span<token_id const> taken) const {
        using real = detail::result_of<W>;
        index_t const chunks = chunks_of(n);
        auto const left = without(w, taken);
        real total = 0;
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            real* const sums = detail::next<real>(shared_->temporary, temporary_turn_);
            base::template sum_chunks<8>(first, last, n, left, sums);
            total = in_order(sums, last - first, total);
        }
        return total;
    }

    /// A row of weights without some tokens.
    template <class W>
    [[nodiscard]] MULTIDRAFT_HD static auto without(W const& w, span<token_id const> taken) {
        return [w, taken](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            auto value = w(i);

            MULTIDRAFT_ROLL
            for (token_id const x : taken) value = x == i ? decltype(value)(0) : value;
            return value;
        };
    }

    /// Walks over chunk sums, as `host_group::search` does; true when t is passed.
    template <class Real>
    MULTIDRAFT_HD static bool walk(Real const* sums, index_t first, index_t last, Real t, Real& passed,
                                   index_t& last_with_mass, Real& last_before) {
        MULTIDRAFT_ROLL
        for (index_t c = first; c < last; ++c) {
            Real const here = sums[c - first];
            if (here > 0) {
                last_with_mass = c;
                last_before = passed;
                if (passed + here > t) return true;
            }
            passed += here;
        }
        return false;
    }

    /// The weights of chunk c in shared memory, those taken and those beyond the row 0.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real const* evaluate(index_t c, index_t n, W const& function,
                                                     span<token_id const> taken) const {
        W const w = function;
        index_t const begin = c * chunk_size;
        Real* const values = reinterpret_cast<Real*>(shared_->scratch);
        static_assert(sizeof(Real) * chunk_size <= sizeof(shared_->scratch));
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        lanes_.sync();
        MULTIDRAFT_ROLL
        for (index_t run = lanes_.thread(); run < chunk_size / wide; run += threads) {
            Real here[wide_lanes] = {};
            for_adjacent_of(size - wide * run, [&](int j, bool inside) MULTIDRAFT_INLINE_LAMBDA {
                if (inside) here[j] = w(entry_of(c * (chunk_size / wide) + run, j));
            });
            MULTIDRAFT_UNROLL
            for (int j = 0; j < wide; ++j) values[entry_of(run, j)] = here[j];
        }
        lanes_.sync();
        if (!taken.empty()) {
            for (auto k = static_cast<std::size_t>(lanes_.thread()); k < taken.size();
                 k += static_cast<std::size_t>(threads)) {
                token_id const x = taken[k];
                if (x >= begin && x - begin < size) values[x - begin] = 0;
            }
            lanes_.sync();
        }
        return values;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t descend(Real const* values, Real t) const {
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
        index_t const a = multidraft::detail::choose_run([runs](index_t k) { return runs[k]; }, t);
        if (a == none) return none;
        values += a * 256;
        Real lanes[16];
        MULTIDRAFT_UNROLL
        for (int l = 0; l < 16; ++l) lanes[l] = values[half_lane * 16 + l];
        MULTIDRAFT_UNROLL
        for (int half = 8; half > 0; half /= 2) {
            MULTIDRAFT_UNROLL
            for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
        }
        Real const mine = lanes[0];
        index_t const b = multidraft::detail::choose_run(
            [this, mine](index_t k) { return lanes_.shuffle(mine, static_cast<int>(k)); }, t);
        if (b == none) return none;
        values += b * 16;
        index_t const c = multidraft::detail::choose_run([values](index_t k) { return values[k]; }, t);
        return c == none ? none : a * 256 + b * 16 + c;
    }
};

}  // namespace multidraft::cuda
