// The host group: one thread and its vector units; the reference that every other group must equal bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_counters.hpp"
#include "multidraft/group/host_top_k.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One thread that processes a row in explicit lanes, so that a compiler vectorises the loops without -ffast-math.
///
/// On the host a row of more than `max_row_size` entries is an `invalid_input`.
///
/// Stateless; any number may be used at once. Every operation is one pass over the row (`softmax` too: a chunk is read
/// twice while it is in the first-level cache), `inverse_cdf` and `update_chunk` touch one chunk. Nothing is allocated.
class host_group : public group_defaults<host_group> {
public:
    using group_defaults<host_group>::count_part;
    using group_defaults<host_group>::counters;
    using group_defaults<host_group>::digit_bits;
    using group_defaults<host_group>::histogram_bin_reaching;
    using group_defaults<host_group>::histogram_total;
    using group_defaults<host_group>::nth;
    using group_defaults<host_group>::sums_from;
    using group_defaults<host_group>::throws;

    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;

    /// Up to so many entries `top_k` is faster than a selection by counting.
    static constexpr index_t fast_top_k = most_listed;

    [[nodiscard]] MULTIDRAFT_HD bool leader() const noexcept { return true; }
    MULTIDRAFT_HD void barrier() const noexcept {}

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto sum(index_t n, F const& f) const {
        check_size(n);
        using real = result_of<F>;
        real total = 0;
        for (index_t begin = 0; begin < n; begin += chunk_size) total += sum_chunk(begin, n, f);
        return total;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto max(index_t n, F const& f) const {
        check_size(n);
        using real = result_of<F>;
        real best = minus_infinity<real>;
        for (index_t begin = 0; begin < n; begin += chunk_size) {
            real const here = largest_of_chunk(begin, n, f);
            best = here > best ? here : best;
        }
        return best;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD index_t argmax(index_t n, F const& f) const {
        check_size(n);
        using real = result_of<F>;
        if (n <= 0) return none;
        real best = minus_infinity<real>;
        index_t where = 0;
        for (index_t begin = 0; begin < n; begin += chunk_size) {
            real const here = largest_of_chunk(begin, n, f);
            if (here > best) {
                best = here;
                where = begin;
            }
        }
        F const here = detail::in_chunk(f, where, where + chunk_size < n ? where + chunk_size : n);
        while (where < n && !(here(where) == best)) ++where;
        return where < n ? where : 0;
    }

    /// One pass, and a few sets of entries again (`detail::maxima_of_sets`); where more than `fast_top_k` entries are
    /// wanted, and in short rows, O(n + (entries that pass the threshold) * k).
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        check_size(n);
        if (out.size() == 0) return;
        if (n > detail::maxima_of_sets::least_size && static_cast<index_t>(out.size()) <= fast_top_k &&
            detail::maxima_of_sets::list<static_cast<std::size_t>(fast_top_k), false>(n, f, out))
            return;
        top_k_in_turn(n, f, out);
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD bool top_k_of_logits(index_t n, F const& f, span<token_id> out) const {
        check_size(n);
        if (n > detail::maxima_of_sets::least_size)
            return detail::maxima_of_sets::list<static_cast<std::size_t>(fast_top_k), true>(n, f, out);
        bool numbers = true;
        for (index_t i = 0; i < n; ++i) numbers = numbers && f(i) <= largest_number<result_of<F>>;
        if (!numbers) return false;
        top_k_in_turn(n, f, out);
        return at_index(f, out[0]) > minus_infinity<result_of<F>>;
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks_of(index_t n, W const& w, span<token_id const> list) const {
        using real = result_of<W>;
        token_id ordered[static_cast<std::size_t>(fast_top_k)];
        auto const count = static_cast<index_t>(list.size());
        for (index_t k = 0; k < count; ++k) {
            index_t at = k;
            for (; at > 0 && ordered[at - 1] > list[static_cast<std::size_t>(k)]; --at) ordered[at] = ordered[at - 1];
            ordered[at] = list[static_cast<std::size_t>(k)];
        }
        chunk_sums<real> sums;
        for (index_t c = 0; c < kept_sums(n); ++c) sums.values[c] = 0;
        for (index_t k = 0; k < count;) {
            index_t const c = ordered[k] / chunk_size;
            real lane[chunk_lanes] = {};
            for (; k < count && ordered[k] / chunk_size == c; ++k) lane[ordered[k] % chunk_lanes] += w(ordered[k]);
            real const here = pairwise_sum(lane);
            if (c < sums.capacity) sums.values[c] = here;
            sums.total += here;
        }
        return sums;
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks(index_t n, W const& w) const {
        check_size(n);
        chunk_sums<result_of<W>> sums;
        index_t c = 0;
        for (index_t begin = 0; begin < n; begin += chunk_size, ++c) {
            result_of<W> const here = sum_chunk(begin, n, w);
            if (c < sums.capacity) sums.values[c] = here;
            sums.total += here;
        }
        return sums;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD chunk_sums<Real> sums_of_one(index_t n, index_t where) const noexcept {
        chunk_sums<Real> sums;
        for (index_t c = 0; c < kept_sums(n); ++c) sums.values[c] = c == where / chunk_size ? Real(1) : Real(0);
        sums.total = 1;
        return sums;
    }

    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] MULTIDRAFT_HD softmax_sums<Real> softmax(index_t n, X const& x, Real scale) const {
        check_size(n);
        constexpr Real nothing = minus_infinity<Real>;
        exp_nonpositive<Real> const weight(scale);
        softmax_sums<Real> result;
        result.largest = nothing;
        index_t const chunks = chunks_of(n);
        // Chunks beyond the capacity are folded into the total in blocks of that many, in order.
        for (index_t first = 0; first < chunks; first += chunk_sums<Real>::capacity) {
            index_t const last =
                chunks - first < chunk_sums<Real>::capacity ? chunks : first + chunk_sums<Real>::capacity;
            Real peak[chunk_sums<Real>::capacity];
            Real before = result.largest;
            for (index_t c = first; c < last; ++c) {
                index_t const begin = c * chunk_size;
                Real const here = largest_of_chunk(begin, n, x);
                peak[c - first] = here;
                result.largest = here > result.largest ? here : result.largest;
                // A chunk of minus infinities has no mass (and infinity - infinity is not a number); one that holds NaN
                // has a NaN sum.
                Real const base = here == nothing ? Real(0) : here;
                result.sums.values[c - first] =
                    sum_chunk(begin, n, function_of{x, [=](auto const& row, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                        return weight(row(i) - base);
                                                    }});
            }
            if (first > 0 && before < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before - result.largest));
            for (index_t c = first; c < last; ++c) {
                Real& here = result.sums.values[c - first];
                if (peak[c - first] != result.largest && peak[c - first] != nothing)
                    here = fp::mul(here, weight(peak[c - first] - result.largest));
                result.sums.total += here;
            }
        }
        return result;
    }

    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t inverse_cdf(chunk_sums<Real> const& sums, index_t n, W const& w, double u,
                                                    span<token_id const> taken = {}) const {
        index_t const chunks = chunks_of(n);
        Real values[chunk_size];
        index_t const kept = chunks < sums.capacity ? chunks : sums.capacity;
        index_t c = none;
        if (kept == chunks) {
            c = detail::choose_run(
                kept, [&sums](index_t k) { return sums.values[k]; }, u);
        } else {
            auto const sum_without = [&](index_t k) {
                evaluate(k * chunk_size, n, w, taken, values);
                return sum_values(values);
            };
            c = detail::choose_run(chunks, sum_without, u);
        }
        if (c == none) return none;
        evaluate(c * chunk_size, n, w, taken, values);
        index_t const found = descend(values, u);
        return found == none ? none : c * chunk_size + found;
    }

    template <class Real, class W>
    MULTIDRAFT_HD void update_chunk(chunk_sums<Real>& sums, index_t n, W const& w, span<token_id const> taken,
                                    index_t changed) const {
        index_t const chunks = chunks_of(n);
        Real values[chunk_size];
        if (chunks <= sums.capacity) {
            index_t const c = changed / chunk_size;
            evaluate(c * chunk_size, n, w, taken, values);
            sums.values[c] = sum_values(values);
            sums.total = 0;
            for (index_t k = 0; k < chunks; ++k) sums.total += sums.values[k];
            return;
        }
        sums.total = 0;
        for (index_t c = 0; c < chunks; ++c) {
            evaluate(c * chunk_size, n, w, taken, values);
            sums.total += sum_values(values);
        }
    }

    /// Bins, masses and sums in separate loops, the first two vectorised. Masses are computed only for entries that
    /// have a bin, one by one where these are few. Bin 0 is summed by the vector units.
    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin_of, Mass const& mass_of, span<std::uint64_t> bins) const {
        check_size(n);
        for (auto& b : bins) b = 0;
        if (bins.size() == 0) return;
        auto const limit = static_cast<std::uint32_t>(bins.size());
        std::uint32_t where[chunk_lanes];
        std::int32_t amount[chunk_lanes];
        index_t list[chunk_lanes];
        std::uint64_t zeros[block] = {};
        for (index_t chunk = 0; chunk < n; chunk += chunk_size) {
            index_t const chunk_end = n - chunk < chunk_size ? n : chunk + chunk_size;
            Bin const bin = detail::in_chunk(bin_of, chunk, chunk_end);
            Mass const mass = detail::in_chunk(mass_of, chunk, chunk_end);
            for (index_t begin = chunk; begin < chunk_end; begin += chunk_lanes) {
                index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
                index_t const inside = find_bins(bin, limit, begin, size, where);
                if (inside == 0) continue;
                if (inside <= chunk_lanes / 8) {
                    count_few(mass, limit, begin, size, where, list, bins);
                    continue;
                }
                find_masses(mass, begin, size, amount);
                if (in_bin_0(size, where) > chunk_lanes / 8) {
                    count_beside_bin_0(limit, size, where, amount, list, zeros, bins);
                } else {
                    for (index_t l = 0; l < size; ++l)
                        if (where[l] < limit) bins[where[l]] += static_cast<std::uint64_t>(amount[l]);
                }
            }
        }
        for (std::uint64_t const sum : zeros) bins[0] += sum;
    }

    /// Pairs and sums in separate loops, the first vectorised (see `detail::pair_tables`). Where few entries count, a
    /// function that has `may_be_nonzero(i)` is evaluated at those only.
    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& function, span<std::uint64_t> bins) const {
        check_size(n);
        F const f = function;
        for (auto& b : bins) b = 0;
        auto const limit = static_cast<index_t>(bins.size() / 2);
        if (limit > detail::pair_tables::most_bins) {
            for (index_t i = 0; i < n; ++i) {
                binned_pair const more = f(i);
                if (more.bin < 0 || more.bin >= limit) continue;
                std::uint32_t const amount[2] = {static_cast<std::uint32_t>(more.first),
                                                 static_cast<std::uint32_t>(more.second)};
                detail::add_pair(bins.data() + std::ptrdiff_t{2} * more.bin, amount);
            }
            return;
        }
        detail::pair_tables counted(limit);
        if constexpr (has_may_be_nonzero<F>)
            add_few(n, f, counted);
        else
            for (index_t begin = 0; begin < n; begin += chunk_lanes) add_run(begin, n, f, counted);
        counted.gather(bins);
    }

private:
    /// Refuses rows whose loop counters would overflow.
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void check_size([[maybe_unused]] index_t n) {
#if !MULTIDRAFT_ON_DEVICE
        if (n > max_row_size) refuse("n", n, "a row has at most 2^31 - 4097 entries");
#endif
    }

    template <class F>
    using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

    static constexpr index_t block = 64;  ///< lanes processed at a time: enough to hide the latency of an addition

    /// A run of 256 keys is examined again only when one of them is larger than the smallest key kept so far.
    template <class F>
    MULTIDRAFT_HD static void top_k_in_turn(index_t n, F const& function, span<token_id> out) {
        using real = result_of<F>;
        F const all = function;
        auto const k = static_cast<index_t>(out.size());
        index_t kept = 0;
        real threshold = minus_infinity<real>;
        real keys[chunk_lanes];
        for (index_t chunk = 0; chunk < n; chunk += chunk_size) {
            index_t const chunk_end = n - chunk < chunk_size ? n : chunk + chunk_size;
            F const f = detail::in_chunk(all, chunk, chunk_end);
            for (index_t begin = chunk; begin < chunk_end; begin += chunk_lanes) {
                index_t const count = n - begin < chunk_lanes ? n - begin : chunk_lanes;
                detail::by_runs(f, begin, begin + count,
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

    // The step of `histogram` over some adjacent entries: `bin_of` and `mass_of` hold their bins and their masses.

    /// Returns how many entries have a bin.
    template <class Bin>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static index_t find_bins(Bin const& bin, std::uint32_t limit,
                                                                           index_t begin, index_t size,
                                                                           std::uint32_t (&bin_of)[chunk_lanes]) {
        index_t inside = 0;
        detail::by_runs(bin, begin, begin + size,
                        [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                            for (index_t l = first - begin; l < end - begin; ++l) {
                                bin_of[l] = static_cast<std::uint32_t>(here(begin + l));  // below 0 is far above
                                inside += bin_of[l] < limit ? 1 : 0;
                            }
                        });
        return inside;
    }

    template <class Mass>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void find_masses(Mass const& mass, index_t begin, index_t size,
                                                            std::int32_t (&mass_of)[chunk_lanes]) {
        detail::by_runs(mass, begin, begin + size,
                        [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                            for (index_t l = first - begin; l < end - begin; ++l) mass_of[l] = here(begin + l);
                        });
    }

    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static index_t in_bin_0(index_t size,
                                                                          std::uint32_t const (&bin_of)[chunk_lanes]) {
        index_t zero = 0;
        for (index_t l = 0; l < size; ++l) zero += bin_of[l] == 0 ? 1 : 0;
        return zero;
    }

    /// Lists the few entries that have a bin, and computes their masses one by one.
    template <class Mass>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void count_few(Mass const& mass, std::uint32_t limit, index_t begin,
                                                          index_t size, std::uint32_t const (&bin_of)[chunk_lanes],
                                                          index_t (&list)[chunk_lanes], span<std::uint64_t> bins) {
        alignas(64) unsigned char flags[chunk_lanes] = {};
        for (index_t l = 0; l < size; ++l) flags[l] = bin_of[l] < limit ? 1 : 0;
        index_t const count = detail::list_flags(flags, 0, list);
        for (index_t k = 0; k < count; ++k) bins[bin_of[list[k]]] += static_cast<std::uint64_t>(mass(begin + list[k]));
    }

    /// Sums the masses of bin 0 by the vector units, and lists the rest.
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void count_beside_bin_0(std::uint32_t limit, index_t size,
                                                                   std::uint32_t (&bin_of)[chunk_lanes],
                                                                   std::int32_t const (&mass_of)[chunk_lanes],
                                                                   index_t (&list)[chunk_lanes],
                                                                   std::uint64_t (&zeros)[block],
                                                                   span<std::uint64_t> bins) {
        for (index_t l = size; l < chunk_lanes; ++l) bin_of[l] = 1;
        for (index_t r = 0; r < chunk_lanes; r += block)
            for (index_t l = 0; l < block; ++l)
                zeros[l] += detail::blend(bin_of[r + l] == 0, static_cast<std::uint32_t>(mass_of[r + l]), 0U);
        alignas(64) unsigned char flags[chunk_lanes] = {};
        for (index_t l = 0; l < size; ++l) flags[l] = bin_of[l] - 1 < limit - 1 ? 1 : 0;
        index_t const count = detail::list_flags(flags, 0, list);
        for (index_t k = 0; k < count; ++k) bins[bin_of[list[k]]] += static_cast<std::uint64_t>(mass_of[list[k]]);
    }

    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void add_run(index_t begin, index_t n, F const& f,
                                                        detail::pair_tables& counted) {
        index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
        counted.add(size, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(begin + l); });
    }

    /// Entries that count are listed until there is a run of them; where they are many, the run is taken as it is.
    template <class F>
    MULTIDRAFT_HD static void add_few(index_t n, F const& f, detail::pair_tables& counted) {
        index_t few[2 * chunk_lanes] = {};
        index_t waiting = 0;
        for (index_t begin = 0; begin < n; begin += chunk_lanes) {
            index_t const size = n - begin < chunk_lanes ? n - begin : chunk_lanes;
            alignas(64) unsigned char flags[chunk_lanes] = {};
            index_t count = 0;
            for (index_t l = 0; l < size; ++l) {
                flags[l] = f.may_be_nonzero(begin + l) ? 1 : 0;
                count += flags[l];
            }
            if (count > chunk_lanes / 4) {
                add_run(begin, n, f, counted);
                continue;
            }
            if (count > 0) waiting += detail::list_flags(flags, begin, few + waiting);
            if (waiting < chunk_lanes) continue;
            counted.add(chunk_lanes, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(few[l]); });
            waiting -= chunk_lanes;
            for (index_t l = 0; l < waiting; ++l) few[l] = few[chunk_lanes + l];
        }
        counted.add(waiting, [&](index_t l) MULTIDRAFT_INLINE_LAMBDA { return f(few[l]); });
    }

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
    MULTIDRAFT_HD static Real pairwise_sum(Real (&lane)[chunk_lanes]) {
        for (index_t half = chunk_lanes / 2; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) lane[l] += lane[l + half];
        return lane[0];
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

    /// Whether a function may be nonzero anywhere in a run, by its `may_be_nonzero(i)` if that is cheap; true for other
    /// functions.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static bool any_nonzero(F const& f, index_t begin, index_t size) {
        if constexpr (has_is_dense<F>)
            if (f.is_dense()) return true;
        if constexpr (has_may_be_nonzero<F>) {
            std::uint32_t any = 0;
            for (index_t l = 0; l < size; ++l) any |= f.may_be_nonzero(begin + l) ? 1U : 0U;
            return any != 0;
        } else {
            return true;
        }
    }

    /// Calls `body` with the function, or with its cheaper form on a run.
    template <class F, class Body>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void on_run(F const& f, index_t begin, index_t end, Body const& body) {
        if constexpr (has_elsewhere<F>) {
            if (f.is_elsewhere(begin, end)) {
                of_run(f.elsewhere(), begin, end, body);
                return;
            }
        }
        of_run(f, begin, end, body);
    }

    /// The same for a function's form on a run, which is short; others are longer.
    template <class F, class Body>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void of_run(F const& f, index_t begin, index_t end, Body const& body) {
        if constexpr (has_runs<F>) {
            if (end - begin <= run_length) {
                f.on_run(begin, end, body);
                return;
            }
        }
        body(f);
    }

    /// The weights of the entries `first` to `end` of a chunk.
    template <class Real, class W>
    MULTIDRAFT_HD MULTIDRAFT_INLINE static void evaluate_run(index_t begin, index_t first, index_t end, W const& w,
                                                             Real (&values)[chunk_size]) {
        on_run(w, begin + first, begin + end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            for (index_t i = first; i < end; ++i) values[i] = here(begin + i);
        });
    }

    /// The sum of one chunk in the fixed order. Rows of lanes that lie entirely inside the row need no bounds test.
    template <class F>
    MULTIDRAFT_HD static auto sum_chunk(index_t begin, index_t n, F const& function) {
        using real = result_of<F>;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        F const f = detail::in_chunk(function, begin, begin + size);
        index_t const rows = size / chunk_lanes;
        index_t const rest = size % chunk_lanes;
        real lane[chunk_lanes];
        for (index_t first = 0; first < chunk_lanes; first += block) {
            real acc[block];
            for (index_t l = 0; l < block; ++l) acc[l] = 0;
            for (index_t r = 0; r < rows; ++r) {
                index_t const at = begin + r * chunk_lanes + first;
                if constexpr (has_empty_runs<F>)
                    if (f.is_empty_run(at)) continue;
                if constexpr (!has_runs<F>)
                    if (!any_nonzero(f, at, block)) continue;  // zeros do not change a sum
                on_run(f, at, at + block, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
                    if constexpr (has_runs<F>)
                        if (!any_nonzero(here, at, block)) return;
                    for (index_t l = 0; l < block; ++l) acc[l] += here(at + l);
                });
            }
            for (index_t l = 0; l < block; ++l) lane[first + l] = acc[l];
        }
        index_t const last = begin + rows * chunk_lanes;
        detail::by_runs(f, last, last + rest,
                        [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                            for (index_t l = first - last; l < end - last; ++l) lane[l] += here(last + l);
                        });
        return pairwise_sum(lane);
    }

    template <class F>
    MULTIDRAFT_HD static auto largest_of_chunk(index_t begin, index_t n, F const& function) {
        using real = result_of<F>;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        F const f = detail::in_chunk(function, begin, begin + size);
        index_t const whole = size / block;
        real best[block];
        for (index_t l = 0; l < block; ++l) best[l] = minus_infinity<real>;
        for (index_t r = 0; r < whole; ++r) {
            index_t const at = begin + r * block;
            detail::by_runs(f, at, at + block, [&](auto const& here, index_t, index_t) MULTIDRAFT_INLINE_LAMBDA {
                for (index_t l = 0; l < block; ++l) {
                    real const x = here(at + l);
                    best[l] = x > best[l] ? x : best[l];
                }
            });
        }
        detail::by_runs(f, begin + whole * block, begin + size,
                        [&](auto const& here, index_t first, index_t end) MULTIDRAFT_INLINE_LAMBDA {
                            for (index_t i = first; i < end; ++i) {
                                real const x = here(i);
                                best[0] = x > best[0] ? x : best[0];
                            }
                        });
        for (index_t half = block / 2; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) best[l] = best[l + half] > best[l] ? best[l + half] : best[l];
        return best[0];
    }

    /// The weights of one chunk, 0 for tokens in `taken` and beyond the end of the row.
    template <class Real, class W>
    MULTIDRAFT_HD static void evaluate(index_t begin, index_t n, W const& function, span<token_id const> taken,
                                       Real (&values)[chunk_size]) {
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        W const w = detail::in_chunk(function, begin, begin + size);
        if constexpr (has_runs<W>) {
            for (index_t i = 0; i < size; i += run_length)
                evaluate_run(begin, i, i + run_length < size ? i + run_length : size, w, values);
        } else if constexpr (has_may_be_nonzero<W>) {
            for (index_t i = 0; i < size; i += chunk_lanes) {
                index_t const end = i + chunk_lanes < size ? i + chunk_lanes : size;
                if (any_nonzero(w, begin + i, end - i))
                    evaluate_run(begin, i, end, w, values);
                else
                    for (index_t k = i; k < end; ++k) values[k] = 0;
            }
        } else if constexpr (has_elsewhere<W>) {
            for (index_t i = 0; i < size; i += chunk_lanes)
                evaluate_run(begin, i, i + chunk_lanes < size ? i + chunk_lanes : size, w, values);
        } else {
            evaluate_run(begin, 0, size, w, values);
        }
        for (index_t i = size; i < chunk_size; ++i) values[i] = 0;
        for (token_id const x : taken)
            if (x >= begin && x < begin + size) values[x - begin] = 0;
    }

    template <class Real>
    MULTIDRAFT_HD static Real sum_values(Real const (&values)[chunk_size]) {
        Real lane[chunk_lanes];
        for (index_t l = 0; l < chunk_lanes; ++l) lane[l] = values[l];
        for (index_t r = 1; r < chunk_rows; ++r)
            for (index_t l = 0; l < chunk_lanes; ++l) lane[l] += values[r * chunk_lanes + l];
        return pairwise_sum(lane);
    }

    template <class Real>
    MULTIDRAFT_HD static Real sum_16(Real const* v) {
        Real lane[16];
        for (index_t l = 0; l < 16; ++l) lane[l] = v[l];
        for (index_t half = 8; half > 0; half /= 2)
            for (index_t l = 0; l < half; ++l) lane[l] += lane[l + half];
        return lane[0];
    }

    template <class Real>
    MULTIDRAFT_HD static Real sum_256(Real const* v) {
        Real lane[16];
        for (index_t l = 0; l < 16; ++l) lane[l] = v[l];
        for (index_t r = 1; r < 16; ++r)
            for (index_t l = 0; l < 16; ++l) lane[l] += v[r * 16 + l];
        return sum_16(lane);
    }

    template <class Real>
    MULTIDRAFT_HD static index_t choose_of_16(Real const* sums, double& u) {
        return detail::choose_run(
            16, [sums](index_t k) { return sums[k]; }, u);
    }

    /// The term of a chunk at the fraction u of its sum: 16 runs of 256 terms, 16 runs of 16, 16 terms.
    template <class Real>
    MULTIDRAFT_HD static index_t descend(Real const (&values)[chunk_size], double u) {
        Real sums[16];
        for (index_t k = 0; k < 16; ++k) sums[k] = sum_256(values + k * 256);
        index_t const a = choose_of_16(sums, u);
        if (a == none) return none;
        Real const* const run = values + a * 256;
        for (index_t k = 0; k < 16; ++k) sums[k] = sum_16(run + k * 16);
        index_t const b = choose_of_16(sums, u);
        if (b == none) return none;
        index_t const c = choose_of_16(run + b * 16, u);
        return c == none ? none : a * 256 + b * 16 + c;
    }
};

static_assert(group<host_group>);

}  // namespace MULTIDRAFT_NAMESPACE
