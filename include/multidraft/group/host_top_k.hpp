// The largest entries of a row on one thread: from the maxima of small sets of entries, by vector units.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// A list of at most N entries, the largest first. Entries arrive in the order of their indices; of equal ones the
/// earlier stays before.
template <class Real, std::size_t N>
class sorted_entries {
public:
    /// `out` receives the indices.
    MULTIDRAFT_HD explicit sorted_entries(span<token_id> out) noexcept
        : out_(out), most_(static_cast<index_t>(out.size())) {}

    [[nodiscard]] MULTIDRAFT_HD bool is_full() const noexcept { return size_ == most_; }
    /// Whether an entry would be listed.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE bool takes(Real key) const noexcept {
        return size_ < most_ || key > keys_[most_ - 1];
    }
    /// Lists an entry that `takes` accepts.
    MULTIDRAFT_HD MULTIDRAFT_INLINE void insert(index_t entry, Real key) noexcept {
        index_t at = size_ < most_ ? size_++ : most_ - 1;
        for (; at > 0 && keys_[at - 1] < key; --at) {
            keys_[at] = keys_[at - 1];
            out_[static_cast<std::size_t>(at)] = out_[static_cast<std::size_t>(at - 1)];
        }
        keys_[at] = key;
        out_[static_cast<std::size_t>(at)] = entry;
    }

private:
    span<token_id> out_;
    index_t most_;
    index_t size_ = 0;
    Real keys_[N];
};

/// The k-th largest of some numbers, 1 <= k <= N; minus infinity where there are fewer. A heap of k.
template <std::size_t N, class Real>
[[nodiscard]] MULTIDRAFT_HD Real kth_largest(Real const* x, index_t count, index_t k) noexcept {
    if (count < k) return minus_infinity<Real>;
    Real heap[N];  // the smallest first
    auto const sink = [&heap, k](index_t at, Real value) {
        for (index_t below = 2 * at + 1; below < k; below = 2 * at + 1) {
            if (below + 1 < k && heap[below + 1] < heap[below]) ++below;
            if (!(heap[below] < value)) break;
            heap[at] = heap[below];
            at = below;
        }
        heap[at] = value;
    };
    for (index_t i = 0; i < k; ++i) heap[i] = x[i];
    for (index_t i = k / 2; i-- > 0;) sink(i, heap[i]);
    for (index_t i = k; i < count; ++i)
        if (x[i] > heap[0]) sink(0, x[i]);
    return heap[0];
}

/// Finds the largest entries of a row of more than `least_size` entries in one pass.
///
/// The pass takes the maxima of sets of entries: lane l of some adjacent runs of `run_length`. The k-th largest of
/// these is at most the k-th largest entry, so that only the sets which reach it, few more than k, are read again. The
/// rest of the row is compared by vector units without a branch.
class maxima_of_sets {
public:
    static constexpr index_t least_size = 1024;  ///< in shorter rows the sets are too few

    /// `out` receives the indices of the largest entries, the largest first, ties to the lower index; 1 to N of them,
    /// at most n. Returns false, and the list is of no use, if it is not full because of NaN; with `Logits` also if any
    /// entry is NaN or plus infinity, or all are minus infinity.
    template <std::size_t N, bool Logits, class F, class Real = result_of<F>>
    [[nodiscard]] MULTIDRAFT_HD static bool list(index_t n, F const& f, span<token_id> out) {
        index_t runs = 16;
        while (n / runs > most_sets) runs *= 2;
        index_t const block = runs * run_length;
        Real maxima[most_sets + run_length];
        if (!find_maxima<Logits>(n, f, block, maxima)) return false;
        index_t const blocks = n / block + (n % block != 0 ? 1 : 0);
        Real const least = kth_largest<N>(maxima, blocks * run_length, static_cast<index_t>(out.size()));
        sorted_entries<Real, N> found(out);
        for (index_t b = 0; b < blocks; ++b) {
            index_t lanes[run_length];
            index_t count = 0;
            for (index_t l = 0; l < run_length; ++l)
                if (maxima[b * run_length + l] >= least) lanes[count++] = b * block + l;
            if (count == 0) continue;
            for (index_t r = 0; r < block; r += run_length)
                for (index_t k = 0; k < count && r < n - lanes[k]; ++k) {
                    Real const x = f(lanes[k] + r);
                    if (x >= least && found.takes(x)) found.insert(lanes[k] + r, x);
                }
        }
        return found.is_full() && (!Logits || f(out[0]) > minus_infinity<Real>);
    }

private:
    static constexpr index_t most_sets = 4096;

    /// The maxima of the sets; returns false if `Logits` and an entry is NaN or plus infinity.
    template <bool Logits, class F, class Real>
    [[nodiscard]] MULTIDRAFT_HD static bool find_maxima(index_t n, F const& function, index_t block, Real* maxima) {
        Real best[run_length];
        std::uint32_t faults[run_length];
        for (index_t l = 0; l < run_length; ++l) {
            best[l] = minus_infinity<Real>;
            faults[l] = 0;
        }
        for (index_t chunk = 0; chunk < n; chunk += chunk_size) {
            index_t const chunk_end = n - chunk < chunk_size ? n : chunk + chunk_size;
            F const f = in_chunk(function, chunk, chunk_end);
            for (index_t begin = chunk, end = chunk; begin < chunk_end; begin = end) {
                end = chunk_end - begin < block ? chunk_end : begin + block;
                index_t const whole = begin + (end - begin) / run_length * run_length;
                for (index_t at = begin; at < whole; at += run_length) {
                    if constexpr (has_runs<F>)
                        if (f.is_empty_run(at)) continue;  // minus infinities
                    by_runs(f, at, at + run_length, [&](auto const& here, index_t, index_t) MULTIDRAFT_INLINE_LAMBDA {
                        add_run<Logits>(here, at, best, faults);
                    });
                }
                by_runs(f, whole, end, [&](auto const& here, index_t first, index_t last) MULTIDRAFT_INLINE_LAMBDA {
                    for (index_t i = first; i < last; ++i) {
                        Real const x = here(i);
                        best[i - whole] = x > best[i - whole] ? x : best[i - whole];
                        faults[i - whole] |= x <= largest_number<Real> ? 0U : 1U;
                    }
                });
                if (end % block != 0 && end < n) continue;  // sets of several chunks
                Real* const of_block = maxima + (end - 1) / block * run_length;
                for (index_t l = 0; l < run_length; ++l) {
                    of_block[l] = best[l];
                    best[l] = minus_infinity<Real>;
                }
            }
        }
        std::uint32_t any = 0;
        for (index_t l = 0; l < run_length; ++l) any |= faults[l];
        return !Logits || any == 0;
    }

    /// The entries of a run. Keys are computed in a loop of their own, which compilers vectorise.
    template <bool Logits, class F, class Real>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void add_run(F const& f, index_t begin, Real (&best)[run_length],
                                                        std::uint32_t (&faults)[run_length]) {
        if constexpr (Logits) {
            for (index_t l = 0; l < run_length; ++l) {
                Real const x = f(begin + l);
                best[l] = x > best[l] ? x : best[l];
                faults[l] |= x <= largest_number<Real> ? 0U : 1U;
            }
        } else {
            Real keys[run_length];
            for (index_t l = 0; l < run_length; ++l) keys[l] = f(begin + l);
            for (index_t l = 0; l < run_length; ++l) best[l] = keys[l] > best[l] ? keys[l] : best[l];
        }
    }
};

/// Finds the largest entries of a function that has a few finite ones. `out` as for `maxima_of_sets`; returns false,
/// and the list is of no use, where fewer than wanted are finite: others then follow by their indices. O(candidates *
/// k).
template <std::size_t N, finite_at_candidates F>
[[nodiscard]] MULTIDRAFT_HD bool list_candidates(F const& f, span<token_id> out) {
    using real = result_of<F>;
    sorted_entries<real, N> found(out);
    span<token_id const> const candidates = f.candidates();
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        real const x = f.only(static_cast<index_t>(k))(candidates[k]);
        if (x > minus_infinity<real> && found.takes(x)) found.insert(candidates[k], x);
    }
    return found.is_full();
}

/// Finds any number of the largest entries of a row, one run after the other: O(n + (entries that pass the threshold) *
/// k).
class top_k_in_turn {
public:
    /// A run of 256 keys is examined again only when one of them is larger than the smallest key kept so far.
    template <class F>
    MULTIDRAFT_HD static void list(index_t n, F const& function, span<token_id> out) {
        using real = result_of<F>;
        F const all = function;
        auto const k = static_cast<index_t>(out.size());
        index_t kept = 0;
        real threshold = minus_infinity<real>;
        real keys[chunk_lanes];
        for (index_t chunk = 0; chunk < n; chunk += chunk_size) {
            index_t const chunk_end = n - chunk < chunk_size ? n : chunk + chunk_size;
            F const f = in_chunk(all, chunk, chunk_end);
            for (index_t begin = chunk; begin < chunk_end; begin += chunk_lanes) {
                index_t const count = n - begin < chunk_lanes ? n - begin : chunk_lanes;
                by_runs(f, begin, begin + count,
                        [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                            for (index_t i = first; i < end; ++i) keys[i - begin] = here(i);
                        });
                for (index_t l = count; l < chunk_lanes; ++l) keys[l] = minus_infinity<real>;
                if (kept == k && !(pairwise_max(keys) > threshold)) continue;
                for (index_t l = 0; l < count; ++l) {
                    if (kept == k && !(keys[l] > threshold)) continue;
                    insert_key(all, begin + l, keys[l], kept < k ? kept++ : k - 1, out);
                    if (kept == k) threshold = at_index(all, out[k - 1]);
                }
            }
        }
        for (; kept < k; ++kept) out[kept] = none;
    }

private:
    static constexpr index_t block = 64;  ///< lanes processed at a time

    /// Inserts an entry with that key after those with larger or equal keys, which all precede index `at`.
    template <class F, class Real>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void insert_key(F const& f, index_t entry, Real key, index_t at,
                                                           span<token_id> out) {
        while (at > 0 && at_index(f, out[at - 1]) < key) {
            out[at] = out[at - 1];
            --at;
        }
        out[at] = entry;
    }

    /// One value outside of a loop: a separate call site, so that the loop's stays the only one in its function.
    template <class F>
    MULTIDRAFT_HD static auto at_index(F const& f, index_t i) {
        return f(i);
    }

    template <class Real>
    MULTIDRAFT_HD static Real pairwise_max(Real const (&lane)[chunk_lanes]) {
        Real best[block];
        for (index_t l = 0; l < block; ++l) best[l] = lane[l];
        for (index_t r = block; r < chunk_lanes; r += block)
            for (index_t l = 0; l < block; ++l) best[l] = lane[r + l] > best[l] ? lane[r + l] : best[l];
        for (index_t half = block / 2; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
        return best[0];
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
