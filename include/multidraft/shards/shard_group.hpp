// The group of ranks that each have some columns of every row: row operations with the same bits as on one host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_chunk.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/shards/columns.hpp"
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
class shard_group : public chunk_folds<shard_group>, multidraft::detail::host_chunk {
    using folds = chunk_folds<shard_group>;
    friend folds;

public:
    using folds::counters;
    using folds::histogram_bin_reaching;
    using folds::histogram_total;
    using folds::inverse_cdf;
    using folds::nth;
    using folds::softmax;
    using folds::sum;
    using folds::sum_chunks;
    using folds::top_k_of_logits;
    using folds::update_chunk;
    using group_defaults<shard_group>::sums_from;
    using group_defaults<shard_group>::sums_of_one;

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
    [[nodiscard]] auto max(index_t n, F const& f) const {
        using real = multidraft::detail::result_of<F>;
        auto const all = ranks_->gather<real>(1, [&](real* out) {
            *out = walk<real>(n, minus_infinity<real>, [&](index_t begin, index_t size) {
                return host_group{}.max(size, multidraft::detail::from_entry{f, begin});
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
        using real = multidraft::detail::result_of<F>;
        if (n <= 0) return none;
        auto const all = ranks_->gather<keyed<real>>(1, [&](keyed<real>* out) {
            *out = walk<keyed<real>>(n, {}, [&](index_t begin, index_t size) {
                multidraft::detail::from_entry const own{f, begin};
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
        using real = multidraft::detail::result_of<F>;
        std::size_t const k = out.size();
        if (k == 0) return;
        using entry = listed<real>;
        auto const all = ranks_->gather<entry>(k, [&](entry* mine) {
            for (std::size_t i = 0; i < k; ++i) mine[i] = {};
            static_cast<void>(walk<int>(n, 0, [&](index_t begin, index_t size) {
                multidraft::detail::from_entry const own{f, begin};
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

    template <class Bin, class Mass>
    void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        count(n, bins, [&](index_t begin, index_t size, span<std::uint64_t> mine) {
            host_group{}.histogram(size, multidraft::detail::from_entry{bin, begin},
                                   multidraft::detail::from_entry{mass, begin}, mine);
        });
    }

    template <class F>
    void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        count(n, bins, [&](index_t begin, index_t size, span<std::uint64_t> mine) {
            host_group{}.histogram_pairs(size, multidraft::detail::from_entry{f, begin}, mine);
        });
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

    /// Every rank contributes what `of(c, answer)` writes for its chunks of first .. last - 1; then `take(k, answer)`
    /// gets that of chunk first + k, for all of them in order.
    template <class T, class Of, class Take>
    void exchange_chunks(index_t first, index_t last, index_t n, Of const& of, Take const& take) const {
        auto const part = [&](int r) {
            column_range const own = ranks_->columns().chunks(r, n);
            return column_range{own.begin > first ? own.begin : first, own.end < last ? own.end : last};
        };
        index_t const most = ranks_->columns().most_chunks(n);
        auto const slots = static_cast<std::size_t>(most < last - first ? most : last - first);
        auto const all = ranks_->gather<T>(slots, [&](T* out) {
            column_range const own = part(ranks_->rank());
            for (index_t c = own.begin; c < own.end; ++c) of(c, out[c - own.begin]);
        });
        for (int r = 0; r < ranks_->ranks(); ++r) {
            column_range const own = part(r);
            for (index_t c = own.begin; c < own.end; ++c) take(c - first, all.template of<T>(r)[c - own.begin]);
        }
    }
    /// What `of()` returns on the rank that has chunk c.
    template <class T, class Of>
    [[nodiscard]] T from_owner(index_t c, Of const& of) const {
        int const owner = ranks_->columns().owner(c);
        auto const all = ranks_->gather<T>(1, [&](T* out) {
            if (owner == ranks_->rank()) *out = of();
        });
        return *all.template of<T>(owner);
    }

    template <class Op, int, class F, class Real>
    void fold_window(index_t first, index_t last, index_t n, F const& f, Real* out) const {
        exchange_chunks<Real>(
            first, last, n, [&](index_t c, Real& of_chunk) { of_chunk = fold<Op>(c, n, f); },
            [out](index_t k, Real of_chunk) { out[k] = of_chunk; });
    }

    template <class X, class Real>
    void exponentials(index_t first, index_t last, index_t n, X const& x, exp_nonpositive<Real> const& weight,
                      Real* peaks, Real* sums) const {
        exchange_chunks<peak_and_sum<Real>>(
            first, last, n,
            [&](index_t c, peak_and_sum<Real>& here) { exponentials_of(c, n, x, weight, here.peak, here.sum); },
            [peaks, sums](index_t k, peak_and_sum<Real> const& here) {
                peaks[k] = here.peak;
                sums[k] = here.sum;
            });
    }

    template <class Real, class W>
    [[nodiscard]] Real sum_without(index_t c, index_t n, W const& w, span<token_id const> taken) const {
        return from_owner<Real>(c, [&] { return host_chunk::sum_without<Real>(c, n, w, taken); });
    }
    template <class Real, class W>
    [[nodiscard]] index_t find_in_chunk(index_t c, index_t n, W const& w, span<token_id const> taken, double u) const {
        return from_owner<index_t>(c, [&] { return host_chunk::find_in_chunk<Real>(c, n, w, taken, u); });
    }

    /// The sums of all chunks without the taken tokens, in one exchange: of more chunks than are kept.
    template <class Real, class W>
    [[nodiscard]] std::vector<Real> all_without(index_t chunks, index_t n, W const& w,
                                                span<token_id const> taken) const {
        std::vector<Real> sums(static_cast<std::size_t>(chunks));
        exchange_chunks<Real>(
            0, chunks, n, [&](index_t c, Real& here) { here = host_chunk::sum_without<Real>(c, n, w, taken); },
            [&sums](index_t k, Real here) { sums[static_cast<std::size_t>(k)] = here; });
        return sums;
    }
    template <class Real, class W>
    [[nodiscard]] index_t choose_of_many(index_t chunks, index_t n, W const& w, span<token_id const> taken,
                                         double& u) const {
        return choose_chunk(chunks, all_without<Real>(chunks, n, w, taken).data(), u);
    }
    template <class Real, class W>
    [[nodiscard]] Real total_without(index_t chunks, index_t n, W const& w, span<token_id const> taken) const {
        return multidraft::detail::sum_in_order(all_without<Real>(chunks, n, w, taken).data(), chunks, Real(0));
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
