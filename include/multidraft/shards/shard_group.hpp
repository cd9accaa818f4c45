// The group of ranks that each have some columns of every row: row operations with the same bits as on one host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/detail/from_column.hpp"
#include "multidraft/shards/exchange.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// Ranks as a `group` (see there for the operations): in every operation each rank processes the chunks that belong to
/// it, and an exchange combines the results.
///
/// All ranks call all operations with equal arguments and get equal results: those of `host_group` on the whole row,
/// bit for bit, for any number of ranks and any borders. Functions of the index are only called with the columns of the
/// rank's own chunks; entry i of a row is column i.
///
/// Every rank writes results to its own memory. Invalid rows do not throw, as in a launch: the token is `none` on all
/// ranks.
class shard_group : public group_defaults<shard_group> {
public:
    using group_defaults<shard_group>::counters;
    using group_defaults<shard_group>::histogram_bin_reaching;
    using group_defaults<shard_group>::histogram_total;
    using group_defaults<shard_group>::nth;
    using group_defaults<shard_group>::sums_from;
    using group_defaults<shard_group>::top_k_of_logits;

    static constexpr bool throws = false;
    static constexpr index_t fast_top_k = host_group::fast_top_k;
    static constexpr int digit_bits = 6;  ///< few counters are sent

    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;

    /// `ranks` must outlive the group.
    explicit shard_group(exchange& ranks) noexcept : ranks_(&ranks) {}

    [[nodiscard]] bool leader() const noexcept { return true; }
    void barrier() const noexcept {}

    template <class F>
    [[nodiscard]] auto sum(index_t n, F const& f) const {
        using real = result_of<F>;
        real total = 0;
        auto const sums = sums_of_chunks<real>(n, [&](index_t begin, index_t size) {
            return host_group{}.sum(size, detail::from_column{f, begin});
        });
        for_each_chunk(n, [&](index_t, int r, index_t k) { total += sums.template of<real>(r)[k]; });
        return total;
    }

    template <class F>
    [[nodiscard]] auto max(index_t n, F const& f) const {
        using real = result_of<F>;
        auto const all = ranks_->gather<real>(1, [&](real* out) {
            *out = walk<real>(n, minus_infinity<real>, [&](index_t begin, index_t size) {
                return host_group{}.max(size, detail::from_column{f, begin});
            });
        });
        real best = minus_infinity<real>;
        for (int r = 0; r < ranks_->ranks(); ++r) {
            real const here = *all.template of<real>(r);
            best = here > best ? here : best;
        }
        return best;
    }

    template <class F>
    [[nodiscard]] index_t argmax(index_t n, F const& f) const {
        using real = result_of<F>;
        if (n <= 0) return none;
        auto const all = ranks_->gather<keyed<real>>(1, [&](keyed<real>* out) {
            *out = walk<keyed<real>>(n, {}, [&](index_t begin, index_t size) {
                detail::from_column const own{f, begin};
                index_t const where = host_group{}.argmax(size, own);
                real const key = own(where);
                // A rank with nothing but NaN has no candidate.
                return key == key ? keyed<real>{key, begin + where} : keyed<real>{};
            });
        });
        keyed<real> best;
        for (int r = 0; r < ranks_->ranks(); ++r) {
            keyed<real> const here = *all.template of<keyed<real>>(r);
            if (here.index != none && (best.index == none || here.key > best.key)) best = here;
        }
        return best.index == none ? 0 : best.index;
    }

    /// Every rank contributes its `out.size()` largest entries.
    template <class F>
    void top_k(index_t n, F const& f, span<token_id> out) const {
        using real = result_of<F>;
        std::size_t const k = out.size();
        if (k == 0) return;
        using entry = listed<real>;
        auto const all = ranks_->gather<entry>(k, [&](entry* mine) {
            for (std::size_t i = 0; i < k; ++i) mine[i] = {};
            static_cast<void>(walk<int>(n, 0, [&](index_t begin, index_t size) {
                detail::from_column const own{f, begin};
                host_group{}.top_k(size, own, out);
                for (std::size_t i = 0; i < k && out[i] != none; ++i) {
                    mine[i] = {own(out[i]), begin + out[i], 0};
                    if constexpr (is_read_in_shards<F>) mine[i].bits = f.bits(begin + out[i]);
                }
                return 0;
            }));
        });
        // Each rank's list is in decreasing order, and the columns of a rank precede those of the next.
        std::vector<std::size_t>& next = ranks_->places();
        next.assign(static_cast<std::size_t>(ranks_->ranks()), 0);
        for (token_id& winner : out) {
            entry best;
            int from = none;
            for (int r = 0; r < ranks_->ranks(); ++r) {
                std::size_t const at = next[static_cast<std::size_t>(r)];
                if (at == k) continue;
                entry const here = all.template of<entry>(r)[at];
                if (here.index == none || (best.index != none && !(here.key > best.key))) continue;
                best = here;
                from = r;
            }
            winner = best.index;
            // The largest logits are read next: the entries that were exchanged with them save a call.
            if constexpr (is_read_in_shards<F>)
                if (from != none) ranks_->store_value(f.key(winner), best.bits);
            if (from != none) ++next[static_cast<std::size_t>(from)];
        }
    }

    template <class W>
    [[nodiscard]] auto sum_chunks(index_t n, W const& w) const {
        using real = result_of<W>;
        auto const all = sums_of_chunks<real>(n, [&](index_t begin, index_t size) {
            return host_group{}.sum(size, detail::from_column{w, begin});
        });
        chunk_sums<real> sums;
        for_each_chunk(n, [&](index_t c, int r, index_t k) {
            real const here = all.template of<real>(r)[k];
            if (c < sums.capacity) sums.values[c] = here;
            sums.total += here;
        });
        return sums;
    }

    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] softmax_sums<Real> softmax(index_t n, X const& x, Real scale) const {
        constexpr Real nothing = minus_infinity<Real>;
        constexpr index_t capacity = chunk_sums<Real>::capacity;
        exp_nonpositive<Real> const weight(scale);
        auto const slots = static_cast<std::size_t>(ranks_->columns().most_chunks(n));
        auto const all = ranks_->gather<peak_and_sum<Real>>(slots, [&](peak_and_sum<Real>* out) {
            for_own_chunks(n, [&](index_t k, index_t begin, index_t size) {
                detail::from_column const own{x, begin};
                Real const peak = host_group{}.max(size, own);
                Real const base = peak == nothing ? Real(0) : peak;
                out[k] = {peak, host_group{}.sum(
                                    size, function_of{own, [=](auto const& row, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                          return weight(row(i) - base);
                                                      }})};
            });
        });
        softmax_sums<Real> result;
        result.largest = nothing;
        // As on one host: chunks beyond the capacity are folded into the total in blocks of that many, in order.
        peak_and_sum<Real> block[static_cast<std::size_t>(capacity)];
        index_t const chunks = chunks_of(n);
        index_t filled = 0;
        bool first = true;
        for_each_chunk(n, [&](index_t c, int r, index_t k) {
            block[filled++] = all.template of<peak_and_sum<Real>>(r)[k];
            if (filled < capacity && c + 1 < chunks) return;
            Real const before = result.largest;
            for (index_t b = 0; b < filled; ++b)
                result.largest = block[b].peak > result.largest ? block[b].peak : result.largest;
            if (!first && before < result.largest)
                result.sums.total = fp::mul(result.sums.total, weight(before - result.largest));
            for (index_t b = 0; b < filled; ++b) {
                Real here = block[b].sum;
                if (block[b].peak != result.largest && block[b].peak != nothing)
                    here = fp::mul(here, weight(block[b].peak - result.largest));
                result.sums.values[b] = here;
                result.sums.total += here;
            }
            filled = 0;
            first = false;
        });
        return result;
    }

    template <class Real, class W>
    [[nodiscard]] index_t inverse_cdf(chunk_sums<Real> const& sums, index_t n, W const& w, double u,
                                      span<token_id const> taken = {}) const {
        index_t const chunks = chunks_of(n);
        index_t c = none;
        if (chunks <= sums.capacity) {
            c = multidraft::detail::choose_run(
                chunks, [&sums](index_t k) { return sums.values[k]; }, u);
        } else {
            auto const all = sums_without<Real>(n, w, taken);
            c = multidraft::detail::choose_run(
                chunks, [&](index_t k) { return chunk_of<Real>(all, n, k); }, u);
        }
        if (c == none) return none;
        int const owner = ranks_->columns().owner(c);
        auto const all = ranks_->gather<index_t>(1, [&](index_t* out) {
            *out = none;
            if (owner != ranks_->rank()) return;
            index_t const begin = c * chunk_size;
            // A row of one chunk with weight 1, so that the fraction is that within the chunk.
            chunk_sums<Real> whole;
            whole.values[0] = 1;
            whole.total = 1;
            index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
            index_t const found =
                host_group{}.inverse_cdf(whole, size, detail::from_column{w, begin}, u, in_chunk(taken, begin));
            *out = found == none ? none : begin + found;
        });
        return *all.template of<index_t>(owner);
    }

    template <class Real, class W>
    void update_chunk(chunk_sums<Real>& sums, index_t n, W const& w, span<token_id const> taken,
                      index_t changed) const {
        index_t const chunks = chunks_of(n);
        if (chunks <= sums.capacity) {
            index_t const c = changed / chunk_size;
            int const owner = ranks_->columns().owner(c);
            auto const all = ranks_->gather<Real>(1, [&](Real* out) {
                if (owner == ranks_->rank()) *out = sum_without<Real>(c, n, w, taken);
            });
            sums.values[c] = *all.template of<Real>(owner);
            sums.total = 0;
            for (index_t k = 0; k < chunks; ++k) sums.total += sums.values[k];
            return;
        }
        auto const all = sums_without<Real>(n, w, taken);
        sums.total = 0;
        for_each_chunk(n, [&](index_t, int r, index_t k) { sums.total += all.template of<Real>(r)[k]; });
    }

    template <class Bin, class Mass>
    void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        count(n, bins, [&](index_t begin, index_t size, span<std::uint64_t> mine) {
            host_group{}.histogram(size, detail::from_column{bin, begin}, detail::from_column{mass, begin}, mine);
        });
    }

    template <class F>
    void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        count(n, bins, [&](index_t begin, index_t size, span<std::uint64_t> mine) {
            host_group{}.histogram_pairs(size, detail::from_column{f, begin}, mine);
        });
    }

    template <class Real>
    [[nodiscard]] chunk_sums<Real> sums_of_one(index_t n, index_t where) const noexcept {
        return host_group{}.template sums_of_one<Real>(n, where);
    }
    /// By every rank: the entries listed were exchanged with the list.
    template <class W>
    [[nodiscard]] auto sum_chunks_of(index_t n, W const& w, span<token_id const> list) const {
        return host_group{}.sum_chunks_of(n, w, list);
    }

    /// How many of the `size` columns from `first` on satisfy `is`.
    template <class Is>
    [[nodiscard]] index_t count_part(index_t n, index_t first, index_t size, Is const& is) const {
        auto const all = ranks_->gather<index_t>(1, [&](index_t* out) {
            *out = walk<index_t>(n, 0, [&](index_t begin, index_t length) {
                index_t const from = first > begin ? first : begin;
                index_t const to = first + size < begin + length ? first + size : begin + length;
                index_t found = 0;
                for (index_t i = from; i < to; ++i) found += is(i) ? 1 : 0;
                return found;
            });
        });
        index_t found = 0;
        for (int r = 0; r < ranks_->ranks(); ++r) found += *all.template of<index_t>(r);
        return found;
    }

    /// The exchange of the ranks.
    [[nodiscard]] exchange& ranks() const noexcept { return *ranks_; }

private:
    template <class F>
    using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

    template <class Real>
    struct keyed {
        Real key = 0;
        index_t index = none;
    };
    template <class Real>
    struct listed {
        Real key = 0;
        index_t index = none;
        std::uint64_t bits = 0;
    };
    /// Whether F is a row in shards.
    template <class F>
    static constexpr bool is_read_in_shards = requires(F const& f, index_t i) {
        f.bits(i);
        f.key(i);
    };
    template <class Real>
    struct peak_and_sum {
        Real peak;
        Real sum;
    };

    /// `of(begin, size)` for the columns of this rank's chunks, or `without` if it has none.
    template <class T, class Of>
    [[nodiscard]] T walk(index_t n, T without, Of const& of) const {
        column_range const own = ranks_->columns().chunks(ranks_->rank(), n);
        if (own.size() == 0) return without;
        index_t const begin = own.begin * chunk_size;
        return of(begin, end_of(own.end - 1, n) - begin);
    }
    [[nodiscard]] static index_t end_of(index_t chunk, index_t n) noexcept {
        index_t const begin = chunk * chunk_size;
        return n - begin < chunk_size ? n : begin + chunk_size;
    }

    /// Calls `body(k, begin, size)` for the k-th of this rank's chunks, for all k.
    template <class Body>
    void for_own_chunks(index_t n, Body const& body) const {
        column_range const own = ranks_->columns().chunks(ranks_->rank(), n);
        for (index_t c = own.begin; c < own.end; ++c)
            body(c - own.begin, c * chunk_size, end_of(c, n) - c * chunk_size);
    }
    /// Calls `body(chunk, rank, k)` for all chunks in order: the chunk is the k-th of the rank.
    template <class Body>
    void for_each_chunk(index_t n, Body const& body) const {
        for (int r = 0; r < ranks_->ranks(); ++r) {
            column_range const own = ranks_->columns().chunks(r, n);
            for (index_t c = own.begin; c < own.end; ++c) body(c, r, c - own.begin);
        }
    }

    /// `of(begin, size)` of every chunk, from all ranks.
    template <class Real, class Of>
    [[nodiscard]] exchange::answers sums_of_chunks(index_t n, Of const& of) const {
        auto const slots = static_cast<std::size_t>(ranks_->columns().most_chunks(n));
        return ranks_->gather<Real>(slots, [&](Real* out) {
            for_own_chunks(n, [&](index_t k, index_t begin, index_t size) { out[k] = of(begin, size); });
        });
    }
    template <class Real, class W>
    [[nodiscard]] exchange::answers sums_without(index_t n, W const& w, span<token_id const> taken) const {
        return sums_of_chunks<Real>(
            n, [&](index_t begin, index_t) { return sum_without<Real>(begin / chunk_size, n, w, taken); });
    }
    /// The sum of one of this rank's chunks without the taken tokens.
    template <class Real, class W>
    [[nodiscard]] Real sum_without(index_t c, index_t n, W const& w, span<token_id const> taken) const {
        index_t const begin = c * chunk_size;
        chunk_sums<Real> whole;
        host_group{}.update_chunk(whole, end_of(c, n) - begin, detail::from_column{w, begin}, in_chunk(taken, begin),
                                  0);
        return whole.values[0];
    }
    template <class Real>
    [[nodiscard]] Real chunk_of(exchange::answers const& all, index_t n, index_t c) const {
        int const r = ranks_->columns().owner(c);
        return all.template of<Real>(r)[c - ranks_->columns().chunks(r, n).begin];
    }
    /// The tokens in a chunk, relative to its first column.
    [[nodiscard]] span<token_id const> in_chunk(span<token_id const> taken, index_t begin) const {
        std::vector<token_id>& here = ranks_->tokens();
        here.clear();
        for (token_id const x : taken)
            if (x >= begin && x - begin < chunk_size) here.push_back(x - begin);
        return here;
    }

    template <class CountOwn>
    void count(index_t n, span<std::uint64_t> bins, CountOwn const& count_own) const {
        std::uint64_t const* const sums = ranks_->reduce(bins.size(), [&](span<std::uint64_t> mine) {
            for (std::uint64_t& b : mine) b = 0;
            static_cast<void>(walk<int>(n, 0, [&](index_t begin, index_t size) {
                count_own(begin, size, mine);
                return 0;
            }));
        });
        for (std::size_t b = 0; b < bins.size(); ++b) bins[b] = sums[b];
    }

    exchange* ranks_;
};

static_assert(group<shard_group>);

}  // namespace MULTIDRAFT_NAMESPACE::shards
