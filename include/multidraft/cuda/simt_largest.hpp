// The largest entries of a row by a CUDA group: the best of each thread or warp, then the best of those.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

inline constexpr index_t nowhere = largest_number<index_t>;

/// An entry of a row with its key; the default comes after every entry of a row.
template <class Real>
struct entry {
    Real key = minus_infinity<Real>;
    index_t index = nowhere;
};

/// Larger keys first, ties to the lower index. NaN precedes nothing.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD bool before(entry<Real> const& a, entry<Real> const& b) noexcept {
    return (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
}

template <class Real, class T>
[[nodiscard]] MULTIDRAFT_HD entry<Real> warp_first(T const& t, entry<Real> best) {
    MULTIDRAFT_UNROLL
    for (int bit = warp_size / 2; bit > 0; bit /= 2) {
        entry<Real> const other{t.lanes().shuffle_xor(best.key, bit), t.lanes().shuffle_xor(best.index, bit)};
        if (before(other, best)) best = other;
    }
    return best;
}

template <class T>
[[nodiscard]] MULTIDRAFT_HD bool leading_warp(T const& t) noexcept {
    return t.lanes().rank() == 0 && t.warp() == 0;
}

/// Inserts the entries that the threads of a warp offer, one each, into the warp's sorted list.
template <class Real, class T>
MULTIDRAFT_HD void insert(T const& t, entry<Real> const& offered, index_t wanted, entry<Real>& kept,
                          entry<Real>& least) {
    for (std::uint32_t better = t.lanes().ballot(before(offered, least)); better != 0;) {
        int const from = T::lowest_bit(better);
        entry<Real> const here{t.lanes().shuffle(offered.key, from), t.lanes().shuffle(offered.index, from)};
        bool const stays = before(kept, here);
        int const place = T::bits_set(t.lanes().ballot(stays));
        entry<Real> const above{t.lanes().shuffle(kept.key, (t.lane() + warp_size - 1) % warp_size),
                                t.lanes().shuffle(kept.index, (t.lane() + warp_size - 1) % warp_size)};
        if (t.lane() == place) kept = here;
        if (t.lane() > place) kept = above;
        least = {t.lanes().shuffle(kept.key, wanted - 1), t.lanes().shuffle(kept.index, wanted - 1)};
        better &= better - 1;
        better &= t.lanes().ballot(before(offered, least));
    }
}

/// Merges the lists of all ranks' warps through global memory: those of the blocks are written to the mirrors of two
/// large arrays.
template <class Real, class T>
MULTIDRAFT_HD void merge_in_memory(T const& t, index_t wanted, Real* keys, index_t* indices, entry<Real>& kept) {
    t.lanes().sync();
    static_assert(std::size_t(T::lanes_type::max_grid_ranks) * warp_size * sizeof(typename T::widest) <=
                      sizeof(t.shared().scratch) &&
                  std::size_t(T::lanes_type::max_grid_ranks) * warp_size * sizeof(index_t) <=
                      sizeof(t.shared().counters) &&
                  T::lanes_type::max_grid_ranks <= max_ranks * T::warps);
    Real* const all_keys = reinterpret_cast<Real*>(t.lanes().mirror(t.shared().scratch));
    auto* const all_indices = reinterpret_cast<index_t*>(t.lanes().mirror(t.shared().counters));
    entry<Real> least;
    if (t.warp() == 0) {
        kept = {};
        for (int w = 0; w < T::warps; ++w)
            insert(t, {keys[w * warp_size + t.lane()], indices[w * warp_size + t.lane()]}, wanted, kept, least);
        all_keys[t.lanes().rank() * warp_size + t.lane()] = kept.key;
        all_indices[t.lanes().rank() * warp_size + t.lane()] = kept.index;
    }
    t.lanes().sync_all();
    if (!leading_warp(t)) return;
    kept = {};
    least = {};
    for (int r = 0; r < t.lanes().ranks(); ++r)
        insert(t, {all_keys[r * warp_size + t.lane()], all_indices[r * warp_size + t.lane()]}, wanted, kept, least);
}

/// Merges the lists that the warps of all ranks wrote to `keys` and `indices`; the leading warp gets the result.
template <class Real, class T>
MULTIDRAFT_HD void merge_lists(T const& t, index_t wanted, Real* keys, index_t* indices, entry<Real>& kept) {
    if constexpr (T::may_use_memory)
        if (t.in_memory()) merge_in_memory(t, wanted, keys, indices, kept);
    if constexpr (T::may_share) {
        if (t.in_memory()) return;
        t.lanes().sync_all();
        if (!leading_warp(t)) return;
        entry<Real> least;
        kept = {};
        for (int r = 0; r < t.lanes().ranks(); ++r)
            for (int w = 0; w < T::warps; ++w)
                insert(t,
                       {*t.lanes().at_rank(keys + w * warp_size + t.lane(), r),
                        *t.lanes().at_rank(indices + w * warp_size + t.lane(), r)},
                       wanted, kept, least);
    }
}

/// For `max`.
template <class F, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto largest(T const& t, index_t n, F const& function) {
    using real = multidraft::detail::result_of<F>;
    F const f = function;
    real best = minus_infinity<real>;
    t.for_adjacent(n, [&](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        real const here = f(i);
        best = here > best ? here : best;
    });
    best = t.warp_largest(best);
    index_t* indices = nullptr;
    real* all = t.template next_best<real>(indices);
    if constexpr (T::may_use_memory) {
        if (t.in_memory()) {  // one value per block, since all are read from global memory
            if (t.lane() == 0) all[t.warp()] = best;
            t.lanes().sync();
            best = t.warp_largest(t.lane() < T::warps ? all[t.lane()] : minus_infinity<real>);
            all = t.lanes().mirror(all);
            if (t.lanes().thread() == 0) all[t.lanes().rank()] = best;
        }
    }
    if (!t.in_memory()) t.push(all, t.lanes().rank() * T::warps + t.warp(), best);
    t.lanes().sync_all();
    best = minus_infinity<real>;
    for (int k = t.lane(); k < t.lanes().ranks() * (t.in_memory() ? 1 : T::warps); k += warp_size)
        best = all[k] > best ? all[k] : best;
    return t.warp_largest(best);
}

/// For `argmax`.
template <class F, class T>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t place_of_largest(T const& t, index_t n, F const& function) {
    using real = multidraft::detail::result_of<F>;
    if (n <= 0) return none;
    F const f = function;
    entry<real> best;
    t.for_adjacent(n, [&](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        entry<real> const here{f(i), i};
        if (before(here, best)) best = here;
    });
    best = warp_first(t, best);
    index_t* indices = nullptr;
    real* keys = t.template next_best<real>(indices);
    if constexpr (T::may_use_memory) {
        if (t.in_memory()) {
            if (t.lane() == 0) {
                keys[t.warp()] = best.key;
                indices[t.warp()] = best.index;
            }
            t.lanes().sync();
            best = {};
            if (t.lane() < T::warps) best = {keys[t.lane()], indices[t.lane()]};
            best = warp_first(t, best);
            keys = t.lanes().mirror(keys);
            indices = t.lanes().mirror(indices);
            if (t.lanes().thread() == 0) {
                keys[t.lanes().rank()] = best.key;
                indices[t.lanes().rank()] = best.index;
            }
        }
    }
    if (!t.in_memory()) {
        t.push(keys, t.lanes().rank() * T::warps + t.warp(), best.key);
        t.push(indices, t.lanes().rank() * T::warps + t.warp(), best.index);
    }
    t.lanes().sync_all();
    best = {};
    for (int k = t.lane(); k < t.lanes().ranks() * (t.in_memory() ? 1 : T::warps); k += warp_size) {
        entry<real> const here{keys[k], indices[k]};
        if (before(here, best)) best = here;
    }
    best = warp_first(t, best);
    return best.index == nowhere ? 0 : best.index;
}

/// For `top_k`. Each warp keeps its 32 largest entries sorted, one per thread, and the warps' lists are merged. Every
/// further 32 results take another pass.
template <class F, class T>
MULTIDRAFT_HD MULTIDRAFT_OUTLINE void list_largest(T const& t, index_t n, F const& function, span<token_id> out) {
    using real = multidraft::detail::result_of<F>;
    F const f = function;
    auto const k = static_cast<index_t>(out.size());
    real* const keys = reinterpret_cast<real*>(t.shared().scratch);
    auto* const indices = reinterpret_cast<index_t*>(t.shared().scratch + sizeof(real) * std::size_t(T::threads));
    static_assert((sizeof(real) + sizeof(index_t)) * std::size_t(T::threads) <= sizeof(t.shared().scratch));
    entry<real> bound;  // entries up to this one have been written
    bool bounded = false;
    for (index_t begin = 0; begin < k; begin += warp_size) {
        index_t const wanted = k - begin < warp_size ? k - begin : warp_size;
        entry<real> kept;  // this thread's entry of the warp's list
        entry<real> least;
        index_t const chunks = chunks_of(n);
        index_t const step = static_cast<index_t>(T::warps * t.lanes().ranks());
        for (index_t c = static_cast<index_t>(t.warp() * t.lanes().ranks() + t.lanes().rank()); c < chunks; c += step) {
            index_t const end = n - c * chunk_size < chunk_size ? n : (c + 1) * chunk_size;
            index_t const last = (c + 1) * (chunk_size / T::wide);
            for (index_t run = c * (chunk_size / T::wide); run < last && T::wide * run < end; run += warp_size) {
                index_t const mine = run + t.lane();
                entry<real> here[T::wide_lanes];
                t.for_adjacent_of(end - T::wide * mine, [&](int j, bool inside) MULTIDRAFT_INLINE_LAMBDA {
                    index_t const i = T::entry_of(mine, j);
                    if (inside) here[j] = {f(i), i};
                });
                MULTIDRAFT_UNROLL
                for (entry<real>& e : here) {
                    if (bounded && !before(bound, e)) e = {};
                    insert(t, e, wanted, kept, least);
                }
            }
        }
        t.lanes().sync();  // earlier uses of the scratch memory have ended
        keys[t.lanes().thread()] = kept.key;
        indices[t.lanes().thread()] = kept.index;
        merge_lists(t, wanted, keys, indices, kept);
        if (leading_warp(t) && t.lane() < wanted) out[begin + t.lane()] = kept.index == nowhere ? none : kept.index;
        t.lanes().sync_all();
        if (begin + wanted < k) {
            index_t const last = out[begin + wanted - 1];
            // Nothing left: the default entry, which comes after all others.
            bound = last == none ? entry<real>{} : entry<real>{f(last), last};
            bounded = true;
        }
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
