// The row operations of a group of CUDA threads, written once over a `lane_context`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/simt_counts.hpp"
#include "multidraft/cuda/simt_largest.hpp"
#include "multidraft/cuda/simt_search.hpp"
#include "multidraft/cuda/simt_sums.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// The group of the threads of `Lanes`: the operations of `group`, bit for bit those of `host_group`.
///
/// A *team* of `Split` warps (1, 2, 4 or 8) sums a chunk. Each of its threads has 8 / Split adjacent lanes and reads
/// `Wide` adjacent entries at a time (at least 8 / Split). For 16-byte loads `Wide` is 16 over the size of an entry;
/// the row's layout must then declare the alignment (`aligned`). If a thread reads more entries than it has lanes, its
/// warp reads several of the chunk's 16 rows at once, and its threads exchange the values. With one warp per chunk a
/// pass has no barrier inside, which suits large batches; more warps make the pass over a single row shorter. The order
/// of the sums is the same.
///
/// In rows of up to `slots` chunks an operation has one barrier of all ranks (`top_k` and `histogram` two), and
/// `inverse_cdf` and `update_chunk` none: each rank repeats them. Longer rows have one per `slots` chunks wherever they
/// are summed. `out` of `top_k` and `bins` of `histogram` are in memory of all threads. The object is a few registers.
///
/// The passes over a row are functions over the threads, in simt_sums.hpp, simt_search.hpp, simt_counts.hpp and
/// simt_largest.hpp.
template <lane_context Lanes, int Split = 1, class Widest = float, int Wide = 1>
class simt_group : public chunk_folds<simt_group<Lanes, Split, Widest, Wide>>,
                   detail::simt_threads<Lanes, Split, Widest, Wide> {
    using on_threads = detail::simt_threads<Lanes, Split, Widest, Wide>;
    using folds = chunk_folds<simt_group>;
    friend folds;

public:
    using folds::count_part;
    using folds::digit_bits;
    using folds::fast_top_k;
    using folds::inverse_cdf;
    using folds::softmax;
    using folds::sum;
    using folds::sum_chunks;
    using folds::sum_chunks_of;
    using folds::sums_from;
    using folds::sums_of_one;
    using folds::top_k_of_logits;
    using folds::update_chunk;
    using on_threads::barrier;
    using on_threads::lanes;
    using on_threads::leader;
    using on_threads::prefetch;
    using on_threads::threads;
    using typename on_threads::lanes_type;
    using typename on_threads::storage;

    template <class Real>
    using chunk_sums_type = shared_chunk_sums<Real>;

    static constexpr bool throws = false;

    /// The group of these lanes. `shared` is the storage of the caller's rank, one object for all of its threads.
    MULTIDRAFT_HD simt_group(Lanes these, storage& shared) noexcept : on_threads(these, shared) {}

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD auto max(index_t n, F const& f) const {
        return detail::largest(of_threads(), n, f);
    }
    template <class F>
    [[nodiscard]] MULTIDRAFT_HD index_t argmax(index_t n, F const& f) const {
        return detail::place_of_largest(of_threads(), n, f);
    }
    template <class F>
    MULTIDRAFT_HD void top_k(index_t n, F const& f, span<token_id> out) const {
        detail::list_largest(of_threads(), n, f, out);
    }
    template <class Is, class Number>
    [[nodiscard]] MULTIDRAFT_HD index_t nth(index_t n, Is const& is, Number const& number) const {
        return detail::nth(of_threads(), n, is, number);
    }
    template <class Bin, class Mass>
    MULTIDRAFT_HD void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        detail::histogram(of_threads(), n, bin, mass, bins);
    }
    template <class F>
    MULTIDRAFT_HD void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        detail::histogram_pairs(of_threads(), n, f, bins);
    }
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t histogram_total(Counters const& counters) const {
        return detail::histogram_total(of_threads(), counters);
    }
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD index_t histogram_bin_reaching(Counters const& counters, std::uint64_t& wanted) const {
        return detail::histogram_bin_reaching(of_threads(), counters, wanted);
    }

    /// The group's own counters for `histogram`, in shared memory. Every call returns the same ones.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD span<std::uint64_t> counters() const noexcept {
        static_assert(N <= storage::counters_size);
        return {on_threads::shared().counters, N};
    }

private:
    [[nodiscard]] MULTIDRAFT_HD on_threads const& of_threads() const noexcept { return *this; }

    // See `chunk_folds`. The chunk sums are in the shared memory of each rank.

    template <class Real>
    MULTIDRAFT_HD void next_sums(shared_chunk_sums<Real>& sums) const {
        sums.values = on_threads::template next_row_sums<Real>();
    }
    template <class Real>
    MULTIDRAFT_HD void next_window(shared_chunk_sums<Real>& window) const {
        window.values = on_threads::template next_temporary<Real>();
    }
    [[nodiscard]] MULTIDRAFT_HD index_t sharer() const { return lanes().thread(); }
    [[nodiscard]] MULTIDRAFT_HD index_t sharers() const { return threads; }
    MULTIDRAFT_HD void meet() const { lanes().sync(); }

    template <class Op, int ahead, class F, class Real>
    MULTIDRAFT_HD void fold_window(index_t first, index_t last, index_t n, F const& f, Real* out) const {
        static_assert(std::is_same_v<Op, multidraft::detail::adding>, "multidraft: `max` is not a fold of chunks here");
        detail::sum_window<ahead>(of_threads(), first, last, n, f, out);
    }
    template <class X, class Real>
    MULTIDRAFT_HD MULTIDRAFT_INLINE void exponentials(index_t first, index_t last, index_t n, X const& x,
                                                      exp_nonpositive<Real> const& weight, Real* peaks,
                                                      Real* sums) const {
        detail::exponentials_of_window(of_threads(), first, last, n, x, weight, peaks, sums);
    }
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real largest_of(Real const* values, index_t count) const {
        Real best = minus_infinity<Real>;
        for (index_t c = on_threads::lane(); c < count; c += warp_size) best = values[c] > best ? values[c] : best;
        return on_threads::warp_largest(best);
    }
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real sum_without(index_t c, index_t n, W const& w, span<token_id const> taken) const {
        meet();
        return detail::sum_values(of_threads(), detail::evaluate<Real>(of_threads(), c, n, w, taken));
    }
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t choose_chunk(index_t chunks, Real const* sums, double& u) const {
        return detail::choose_chunk(of_threads(), chunks, sums, u);
    }
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t choose_of_many(index_t chunks, index_t n, W const& w,
                                                       span<token_id const> taken, double& u) const {
        return detail::choose_of_many<Real>(of_threads(), chunks, n, w, taken, u);
    }
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real total_without(index_t /*chunks*/, index_t n, W const& w,
                                                   span<token_id const> taken) const {
        return detail::total_without(of_threads(), n, w, taken);
    }
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t find_in_chunk(index_t c, index_t n, W const& w, span<token_id const> taken,
                                                      double u) const {
        Real const* const values = detail::evaluate<Real>(of_threads(), c, n, w, taken);
        index_t const found = detail::descend(of_threads(), values, u);
        return found == none ? none : c * chunk_size + found;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda
