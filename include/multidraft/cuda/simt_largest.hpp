// The largest entries of a row by a CUDA group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_counts.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `max`, `argmax` and `top_k`: the best of each thread or warp, then the best of those.
template <lane_context Lanes, int Split, class Widest, int Wide>
class simt_largest : public simt_counts<Lanes, Split, Widest, Wide> {
    using base = simt_counts<Lanes, Split, Widest, Wide>;

public:
    using base::base;
    using base::threads;
    using base::warps;
    using base::wide;

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto max(index_t n, F const& function) const {
        using real = detail::result_of<F>;
        F const f = function;
        real best = minus_infinity<real>;
        for_adjacent(n, [&](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            real const here = f(i);
            best = here > best ? here : best;
        });
        best = warp_largest(best);
        real* all = detail::next<real>(shared_->best, best_turn_);
        if constexpr (may_use_memory) {
            if (in_memory()) {  // one value per block, since all are read from global memory
                if (lane() == 0) all[warp()] = best;
                lanes_.sync();
                best = warp_largest(lane() < warps ? all[lane()] : minus_infinity<real>);
                all = lanes_.mirror(all);
                if (lanes_.thread() == 0) all[lanes_.rank()] = best;
            }
        }
        if (!in_memory()) push(all, lanes_.rank() * warps + warp(), best);
        lanes_.sync_all();
        best = minus_infinity<real>;
        for (int k = lane(); k < lanes_.ranks() * (in_memory() ? 1 : warps); k += warp_size)
            best = all[k] > best ? all[k] : best;
        return warp_largest(best);
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t argmax(index_t n, F const& function) const {
        using real = detail::result_of<F>;
        if (n <= 0) return none;
        F const f = function;
        entry<real> best;
        for_adjacent(n, [&](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            entry<real> const here{f(i), i};
            if (before(here, best)) best = here;
        });
        best = warp_first(best);
        unsigned const turn = best_turn_ & 1U;
        real* keys = detail::next<real>(shared_->best, best_turn_);
        index_t* indices = shared_->best_index[turn];
        if constexpr (may_use_memory) {
            if (in_memory()) {
                if (lane() == 0) {
                    keys[warp()] = best.key;
                    indices[warp()] = best.index;
                }
                lanes_.sync();
                best = {};
                if (lane() < warps) best = {keys[lane()], indices[lane()]};
                best = warp_first(best);
                keys = lanes_.mirror(keys);
                indices = lanes_.mirror(indices);
                if (lanes_.thread() == 0) {
                    keys[lanes_.rank()] = best.key;
                    indices[lanes_.rank()] = best.index;
                }
            }
        }
        if (!in_memory()) {
            push(keys, lanes_.rank() * warps + warp(), best.key);
            push(indices, lanes_.rank() * warps + warp(), best.index);
        }
        lanes_.sync_all();
        best = {};
        for (int k = lane(); k < lanes_.ranks() * (in_memory() ? 1 : warps); k += warp_size) {
            entry<real> const here{keys[k], indices[k]};
            if (before(here, best)) best = here;
        }
        best = warp_first(best);
        return best.index == nowhere ? 0 : best.index;
    }

    /// Each warp keeps its 32 largest entries sorted, one per thread, and the warps' lists are merged. Every further 32
    /// results take another pass.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void top_k(index_t n, F const& function, span<token_id> out) const {
        using real = detail::result_of<F>;
        F const f = function;
        auto const k = static_cast<index_t>(out.size());
        real* const keys = reinterpret_cast<real*>(shared_->scratch);
        auto* const indices = reinterpret_cast<index_t*>(shared_->scratch + sizeof(real) * std::size_t(threads));
        static_assert((sizeof(real) + sizeof(index_t)) * std::size_t(threads) <= sizeof(shared_->scratch));
        entry<real> bound;  // entries up to this one have been written
        bool bounded = false;
        for (index_t begin = 0; begin < k; begin += warp_size) {
            index_t const wanted = k - begin < warp_size ? k - begin : warp_size;
            entry<real> kept;  // this thread's entry of the warp's list
            entry<real> least;
            index_t const chunks = chunks_of(n);
            index_t const step = static_cast<index_t>(warps * lanes_.ranks());
            for (index_t c = static_cast<index_t>(warp() * lanes_.ranks() + lanes_.rank()); c < chunks; c += step) {
                index_t const end = n - c * chunk_size < chunk_size ? n : (c + 1) * chunk_size;
                index_t const last = (c + 1) * (chunk_size / wide);
                for (index_t run = c * (chunk_size / wide); run < last && wide * run < end; run += warp_size) {
                    index_t const mine = run + lane();
                    entry<real> here[wide_lanes];
                    for_adjacent_of(end - wide * mine, [&](int j, bool inside) MULTIDRAFT_INLINE_LAMBDA {
                        index_t const i = entry_of(mine, j);
                        if (inside) here[j] = {f(i), i};
                    });
                    MULTIDRAFT_UNROLL
                    for (entry<real>& e : here) {
                        if (bounded && !before(bound, e)) e = {};
                        insert(e, wanted, kept, least);
                    }
                }
            }
            lanes_.sync();  // earlier uses of the scratch memory have ended
            keys[lanes_.thread()] = kept.key;
            indices[lanes_.thread()] = kept.index;
            merge_lists(wanted, keys, indices, kept);
            if (leading_warp() && lane() < wanted) out[begin + lane()] = kept.index == nowhere ? none : kept.index;
            lanes_.sync_all();
            if (begin + wanted < k) {
                index_t const last = out[begin + wanted - 1];
                // Nothing left: the default entry, which comes after all others.
                bound = last == none ? entry<real>{} : entry<real>{f(last), last};
                bounded = true;
            }
        }
    }

protected:
    using base::bits_set;
    using base::entry_of;
    using base::for_adjacent;
    using base::for_adjacent_of;
    using base::in_memory;
    using base::lane;
    using base::lanes_;
    using base::larger;
    using base::lowest_bit;
    using base::may_share;
    using base::may_use_memory;
    using base::push;
    using base::shared_;
    using base::warp;
    using base::warp_largest;
    using base::wide_lanes;

    static constexpr index_t nowhere = largest_number<index_t>;

    /// An entry of a row with its key; the default comes after every entry of a row.
    template <class Real>
    struct entry {
        Real key = minus_infinity<Real>;
        index_t index = nowhere;
    };

    /// Larger keys first, ties to the lower index. NaN precedes nothing.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static bool before(entry<Real> const& a, entry<Real> const& b) noexcept {
        return (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD entry<Real> warp_first(entry<Real> best) const {
        MULTIDRAFT_UNROLL
        for (int bit = warp_size / 2; bit > 0; bit /= 2) {
            entry<Real> const other{lanes_.shuffle_xor(best.key, bit), lanes_.shuffle_xor(best.index, bit)};
            if (before(other, best)) best = other;
        }
        return best;
    }

    [[nodiscard]] MULTIDRAFT_HD bool leading_warp() const noexcept { return lanes_.rank() == 0 && warp() == 0; }

    /// Inserts the entries that the threads of a warp offer, one each, into the warp's sorted list.
    template <class Real>
    MULTIDRAFT_HD void insert(entry<Real> const& offered, index_t wanted, entry<Real>& kept, entry<Real>& least) const {
        for (std::uint32_t better = lanes_.ballot(before(offered, least)); better != 0;) {
            int const from = lowest_bit(better);
            entry<Real> const here{lanes_.shuffle(offered.key, from), lanes_.shuffle(offered.index, from)};
            bool const stays = before(kept, here);
            int const place = bits_set(lanes_.ballot(stays));
            entry<Real> const above{lanes_.shuffle(kept.key, (lane() + warp_size - 1) % warp_size),
                                    lanes_.shuffle(kept.index, (lane() + warp_size - 1) % warp_size)};
            if (lane() == place) kept = here;
            if (lane() > place) kept = above;
            least = {lanes_.shuffle(kept.key, wanted - 1), lanes_.shuffle(kept.index, wanted - 1)};
            better &= better - 1;
            better &= lanes_.ballot(before(offered, least));
        }
    }

    /// Merges the lists that the warps of all ranks wrote to `keys` and `indices`; the leading warp gets the result.
    template <class Real>
    MULTIDRAFT_HD void merge_lists(index_t wanted, Real* keys, index_t* indices, entry<Real>& kept) const {
        if constexpr (may_use_memory)
            if (in_memory()) merge_in_memory(wanted, keys, indices, kept);
        if constexpr (may_share) {
            if (in_memory()) return;
            lanes_.sync_all();
            if (!leading_warp()) return;
            entry<Real> least;
            kept = {};
            for (int r = 0; r < lanes_.ranks(); ++r)
                for (int w = 0; w < warps; ++w)
                    insert({*lanes_.at_rank(keys + w * warp_size + lane(), r),
                            *lanes_.at_rank(indices + w * warp_size + lane(), r)},
                           wanted, kept, least);
        }
    }

    /// The same through global memory: the lists of the blocks are written to the mirrors of two large arrays.
    template <class Real>
    MULTIDRAFT_HD void merge_in_memory(index_t wanted, Real* keys, index_t* indices, entry<Real>& kept) const {
        lanes_.sync();
        static_assert(std::size_t(Lanes::max_grid_ranks) * warp_size * sizeof(Widest) <= sizeof(shared_->scratch) &&
                      std::size_t(Lanes::max_grid_ranks) * warp_size * sizeof(index_t) <= sizeof(shared_->counters) &&
                      Lanes::max_grid_ranks <= max_ranks * warps);
        Real* const all_keys = reinterpret_cast<Real*>(lanes_.mirror(shared_->scratch));
        auto* const all_indices = reinterpret_cast<index_t*>(lanes_.mirror(shared_->counters));
        entry<Real> least;
        if (warp() == 0) {
            kept = {};
            for (int w = 0; w < warps; ++w)
                insert({keys[w * warp_size + lane()], indices[w * warp_size + lane()]}, wanted, kept, least);
            all_keys[lanes_.rank() * warp_size + lane()] = kept.key;
            all_indices[lanes_.rank() * warp_size + lane()] = kept.index;
        }
        lanes_.sync_all();
        if (!leading_warp()) return;
        kept = {};
        least = {};
        for (int r = 0; r < lanes_.ranks(); ++r)
            insert({all_keys[r * warp_size + lane()], all_indices[r * warp_size + lane()]}, wanted, kept, least);
    }

    mutable unsigned best_turn_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
