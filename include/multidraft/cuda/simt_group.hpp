// The row operations of a group of CUDA threads, written once over the few things that such threads do together.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/exp_log.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/span.hpp"

// Loops over a thread's registers are unrolled. A pass over a row is a function of its own: inlined wherever it is
// called, a verifier takes nvcc half a minute and more registers than there are.
#if defined(__CUDA_ARCH__)
#define MULTIDRAFT_UNROLL _Pragma("unroll")
#define MULTIDRAFT_ROLL _Pragma("unroll 1")
#define MULTIDRAFT_OUTLINE __noinline__
#else
#define MULTIDRAFT_UNROLL
#define MULTIDRAFT_ROLL
#define MULTIDRAFT_OUTLINE
#endif

namespace multidraft::cuda {

/// Threads of a warp.
inline constexpr int warp_size = 32;

/// Blocks of a cluster at most: 8 on every device that has clusters, 16 where the kernel asks for it.
inline constexpr int max_ranks = 16;

/// Whether the ranks of a lane context meet in memory that all of them see (`grid_lanes`), instead of writing to each
/// other's shared memory.
template <class L>
inline constexpr bool meets_in_memory = requires {
    L::max_grid_ranks;
};

/// What the threads of a group can do together: a warp, a block, the blocks of a cluster, or many blocks of a grid (its
/// *ranks*). The device's are in `block_lanes.cuh`, `cluster_group.cuh` and `grid_group.cuh`; the tests have two that
/// run on a CPU.
///
/// - `L::threads`: threads of one rank, a multiple of 32. `thread()`, `rank()`, `ranks()`: where this one stands.
/// - `sync()`, `sync_all()`: a barrier of the rank, of all ranks; what was written to shared memory before is seen
/// after.
/// - `shuffle_xor(x, mask)`, `shuffle(x, lane)`, `ballot(b)`: within a warp, called by all of its threads.
/// - `add(p, x)`: adds to a counter in shared memory and returns what it held.
/// - `at_rank(p, r)`: the same place in the shared memory of rank r. Or, where ranks meet in memory: `max_grid_ranks`;
///   `mirror(p)`, the place that stands for p, one for all ranks; `accumulators(turn)`, one of two arrays of counters
///   for all ranks that are 0 at first, and `add_to(p, x)`, which adds to such a counter.
template <class L>
concept lane_context = requires(L const& lanes, float x, int k, std::uint32_t* p) {
    { L::threads } -> std::convertible_to<int>;
    { lanes.thread() } -> std::convertible_to<int>;
    { lanes.rank() } -> std::convertible_to<int>;
    { lanes.ranks() } -> std::convertible_to<int>;
    lanes.sync();
    lanes.sync_all();
    { lanes.shuffle_xor(x, k) } -> std::same_as<float>;
    { lanes.shuffle(x, k) } -> std::same_as<float>;
    { lanes.ballot(true) } -> std::same_as<std::uint32_t>;
    { lanes.add(p, std::uint32_t{1}) } -> std::same_as<std::uint32_t>;
}
&&(
    requires(L const& lanes, std::uint32_t* p, int k) {
        { lanes.at_rank(p, k) } -> std::same_as<std::uint32_t*>;
    } ||
    requires(L const& lanes, std::uint32_t* p, std::uint64_t* q) {
        { lanes.mirror(p) } -> std::same_as<std::uint32_t*>;
        { lanes.accumulators(0U) } -> std::same_as<std::uint64_t*>;
        lanes.add_to(q, std::uint64_t{1});
    });

/// The ledger of a device group: the chunk sums lie in shared memory, whole in every rank; the total is at hand.
template <class Real>
struct shared_ledger {
    Real* sums = nullptr;
    Real total = 0;
};

/// What a group of threads keeps in shared memory: one for each rank. `Real` is the widest type of its rows.
template <class Real, std::size_t Threads, std::size_t Split>
struct group_storage {
    static constexpr std::size_t slots = ledger<Real>::capacity;
    static constexpr std::size_t warps = Threads / warp_size;
    static constexpr std::size_t counters_size = 2048;
    static constexpr std::size_t count_capacity = chunk_size * sizeof(Real) / 8;  ///< bins that `count` counts at once

    // Everything that ranks or warps write for one another comes twice and is used in turn: an operation then needs one
    // barrier, since whoever is an operation ahead writes the other copy.
    Real ledgers[2][slots];
    Real peaks[2][slots];
    Real temporary[2][slots];
    Real best[2][std::size_t(max_ranks) * warps];
    index_t best_index[2][std::size_t(max_ranks) * warps];
    Real partial[2][Split > 1 ? Threads * 8 / Split : 1];
    Real team_peak[2][warps];
    Real runs[16];
    alignas(16) unsigned char scratch[chunk_size * sizeof(Real)];  ///< a chunk's weights, lists of the largest, bins
    std::uint64_t counters[counters_size];
};

/// The group that `Lanes` make: the operations of `group` with the bits of `host_group`.
///
/// A chunk is summed by a *team* of `Split` warps (1, 2, 4 or 8), of which a thread has 8 / Split adjacent lanes: in
/// each of the chunk's 16 rows it reads that many adjacent entries, with one or two 16-byte loads where the row's
/// layout is known to be aligned (`aligned`). One warp a chunk needs no barrier within a pass and suits large batches;
/// more warps shorten the pass over a single row. Either way the pairing of the sums is the fixed one.
///
/// Every operation over a row has one barrier of all ranks (`top` and `count` two); `search` and `reweigh` have none,
/// each rank does them alike. `out` of `top` and `bins` of `count` are memory that all threads see. The object is a few
/// registers.
template <lane_context Lanes, int Split = 1, class Widest = float>
class simt_group {
    static_assert(Split == 1 || Split == 2 || Split == 4 || Split == 8);
    static_assert(Lanes::threads % (warp_size * Split) == 0, "multidraft: a rank has whole teams");
    static constexpr bool in_memory = meets_in_memory<Lanes>;

public:
    using storage = group_storage<Widest, static_cast<std::size_t>(Lanes::threads), static_cast<std::size_t>(Split)>;
    template <class Real>
    using ledger_type = shared_ledger<Real>;

    static constexpr bool throws = false;  ///< see `may_throw`

    static constexpr int threads = Lanes::threads;
    static constexpr int warps = threads / warp_size;
    static constexpr int teams = warps / Split;
    static constexpr int own = 8 / Split;  ///< adjacent lanes of the fixed order that a thread has
    static constexpr index_t slots = ledger<Widest>::capacity;

    MULTIDRAFT_HD simt_group(Lanes lanes, storage& shared) noexcept : lanes_(lanes), shared_(&shared) {
        lanes_.sync_all();  // no rank writes to another that has not started
    }

    [[nodiscard]] MULTIDRAFT_HD bool leader() const noexcept { return lanes_.rank() == 0 && lanes_.thread() == 0; }
    MULTIDRAFT_HD void barrier() const { lanes_.sync_all(); }
    [[nodiscard]] MULTIDRAFT_HD Lanes const& lanes() const noexcept { return lanes_; }

    /// The group's own counters for `count`, for as long as they are used no other's.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD span<std::uint64_t> counters() const noexcept {
        static_assert(N <= storage::counters_size);
        return {shared_->counters, N};
    }

    /// The sum of all counters.
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t total_of(span<std::uint64_t const> counters) const {
        std::uint64_t total = 0;
        for (auto b = static_cast<std::size_t>(lane()); b < counters.size(); b += warp_size) total += counters[b];
        for (int bit = warp_size / 2; bit > 0; bit /= 2) total += lanes_.shuffle_xor(total, bit);
        return total;
    }

    /// The bin in which a running sum from the last bin downwards reaches `wanted`, which becomes what is wanted of it;
    /// bin 0 when none does. The number of bins is a multiple of 32.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t reaching_bin(span<std::uint64_t const> counters,
                                                                        std::uint64_t& wanted) const {
        auto const run = static_cast<index_t>(counters.size()) / warp_size;
        index_t const first = lane() * run;
        std::uint64_t sum = 0;
        for (index_t k = 0; k < run; ++k)  // each thread starts elsewhere, to meet different banks
            sum += counters[static_cast<std::size_t>(first + (k + lane()) % run)];
        std::uint64_t from_here = sum;  // with the runs above
        for (int step = 1; step < warp_size; step *= 2) {
            std::uint64_t const above = lanes_.shuffle(from_here, (lane() + step) % warp_size);
            from_here += lane() + step < warp_size ? above : 0;
        }
        std::uint32_t const reached = lanes_.ballot(from_here >= wanted);
        int const chosen = reached == 0 ? 0 : warp_size - 1 - leading_zeros(reached);
        wanted -= lanes_.shuffle(from_here - sum, chosen);
        index_t b = (chosen + 1) * run - 1;

        MULTIDRAFT_ROLL
        for (; b > chosen * run && counters[static_cast<std::size_t>(b)] < wanted; --b)
            wanted -= counters[static_cast<std::size_t>(b)];
        return b;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto sum(index_t n, F const& f) const {
        using real = result_of<F>;
        index_t const chunks = chunks_of(n);
        real total = 0;
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            real* const sums = next<real>(shared_->temporary, temporary_turn_);
            sum_chunks<2>(first, last, n, f, sums);
            total = in_order(sums, last - first, total);
        }
        return total;
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto largest(index_t n, F const& function) const {
        using real = result_of<F>;
        F const f = function;
        real best = minus_infinity<real>;
        for_adjacent<4>(n, [&](index_t i, bool inside) MULTIDRAFT_INLINE_LAMBDA {
            if (!inside) return;
            real const here = f(i);
            best = here > best ? here : best;
        });
        best = warp_largest(best);
        real* all = next<real>(shared_->best, best_turn_);
        if constexpr (in_memory) {  // one value a block: the others read them all from far away
            if (lane() == 0) all[warp()] = best;
            lanes_.sync();
            best = warp_largest(lane() < warps ? all[lane()] : minus_infinity<real>);
            all = lanes_.mirror(all);
            if (lanes_.thread() == 0) all[lanes_.rank()] = best;
        } else {
            push(all, lanes_.rank() * warps + warp(), best);
        }
        lanes_.sync_all();
        best = minus_infinity<real>;
        for (int k = lane(); k < lanes_.ranks() * (in_memory ? 1 : warps); k += warp_size)
            best = all[k] > best ? all[k] : best;
        return warp_largest(best);
    }

    template <class F>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE index_t first_largest(index_t n, F const& function) const {
        using real = result_of<F>;
        if (n <= 0) return none;
        F const f = function;
        entry<real> best;
        for_adjacent<4>(n, [&](index_t i, bool inside) MULTIDRAFT_INLINE_LAMBDA {
            if (!inside) return;
            entry<real> const here{f(i), i};
            if (before(here, best)) best = here;
        });
        best = warp_first(best);
        unsigned const turn = best_turn_ & 1U;
        real* keys = next<real>(shared_->best, best_turn_);
        index_t* indices = shared_->best_index[turn];
        if constexpr (in_memory) {
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
        } else {
            push(keys, lanes_.rank() * warps + warp(), best.key);
            push(indices, lanes_.rank() * warps + warp(), best.index);
        }
        lanes_.sync_all();
        best = {};
        for (int k = lane(); k < lanes_.ranks() * (in_memory ? 1 : warps); k += warp_size) {
            entry<real> const here{keys[k], indices[k]};
            if (before(here, best)) best = here;
        }
        best = warp_first(best);
        return best.index == nowhere ? 0 : best.index;
    }

    /// Each warp keeps its 32 largest sorted, one a thread, and the warps' lists are merged. More than 32 take a pass
    /// for every 32.
    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void top(index_t n, F const& function, span<token_id> out) const {
        using real = result_of<F>;
        F const f = function;
        auto const k = static_cast<index_t>(out.size());
        real* const keys = reinterpret_cast<real*>(shared_->scratch);
        auto* const indices = reinterpret_cast<index_t*>(shared_->scratch + sizeof(real) * std::size_t(threads));
        static_assert((sizeof(real) + sizeof(index_t)) * std::size_t(threads) <= sizeof(shared_->scratch));
        entry<real> bound;  // entries up to this one are out already
        bool bounded = false;
        for (index_t begin = 0; begin < k; begin += warp_size) {
            index_t const wanted = k - begin < warp_size ? k - begin : warp_size;
            entry<real> kept;  // of the warp's list, the one at this thread's lane
            entry<real> least;
            index_t const chunks = chunks_of(n);
            index_t const step = static_cast<index_t>(warps * lanes_.ranks());
            for (index_t c = static_cast<index_t>(warp() * lanes_.ranks() + lanes_.rank()); c < chunks; c += step) {
                index_t const start = c * chunk_size;
                index_t const end = n - start < chunk_size ? n : start + chunk_size;
                for (index_t at = start; at < end; at += 4 * warp_size) {
                    entry<real> here[4];
                    MULTIDRAFT_UNROLL
                    for (int m = 0; m < 4; ++m) {
                        index_t const i = at + m * warp_size + lane();
                        if (i < end) {
                            here[m] = {f(i), i};
                            if (bounded && !before(bound, here[m])) here[m] = {};
                        }
                    }
                    MULTIDRAFT_UNROLL
                    for (int m = 0; m < 4; ++m) insert(here[m], wanted, kept, least);
                }
            }
            lanes_.sync();  // whoever used the scratch memory before is done
            keys[lanes_.thread()] = kept.key;
            indices[lanes_.thread()] = kept.index;
            merge_lists(wanted, keys, indices, kept);
            if (leading_warp() && lane() < wanted)
                out[static_cast<std::size_t>(begin + lane())] = kept.index == nowhere ? none : kept.index;
            lanes_.sync_all();
            if (begin + wanted < k) {
                index_t const last = out[static_cast<std::size_t>(begin + wanted - 1)];
                // Nothing left: an entry that all others stand before.
                bound = last == none ? entry<real>{} : entry<real>{f(last), last};
                bounded = true;
            }
        }
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE auto weigh(index_t n, W const& w) const {
        using real = result_of<W>;
        index_t const chunks = chunks_of(n);
        shared_ledger<real> sums;
        if (chunks > slots) {
            sums.sums = as<real>(shared_->ledgers[0]);
            sums.total = sum(n, w);
            return sums;
        }
        sums.sums = next<real>(shared_->ledgers, ledger_turn_);
        sum_chunks<4>(0, chunks, n, w, sums.sums);
        sums.total = in_order(sums.sums, chunks, real(0));
        return sums;
    }

    /// A thread keeps its entries of a whole chunk in registers between the chunk's maximum and its sum: the row is
    /// read once.
    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_OUTLINE softmax_sums<Real, shared_ledger<Real>> softmax(index_t n,
                                                                                                   X const& x,
                                                                                                   Real scale) const {
        constexpr Real nothing = minus_infinity<Real>;
        softmax_sums<Real, shared_ledger<Real>> result;
        result.largest = nothing;
        index_t const chunks = chunks_of(n);
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            Real* const peaks = as<Real>(shared_->peaks[ledger_turn_ & 1U]);
            Real* const sums = next<Real>(shared_->ledgers, ledger_turn_);
            result.weights.sums = sums;
            for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
                Real peak = nothing;
                Real const here = exponentials_of_chunk(active ? c * chunk_size : 0, active ? n : 0, x, scale, peak);
                if (active && warp() % Split == 0) {
                    push(peaks, c - first, peak);
                    push(sums, c - first, here);
                }
            });
            lanes_.sync_all();
            collect(peaks, last - first);
            collect(sums, last - first);
            Real const before_window = result.largest;
            Real best = nothing;
            for (index_t c = lane(); c < last - first; c += warp_size) best = peaks[c] > best ? peaks[c] : best;
            best = warp_largest(best);
            result.largest = best > before_window ? best : before_window;
            for (index_t c = lanes_.thread(); c < last - first; c += threads)
                if (peaks[c] != result.largest && peaks[c] != nothing)
                    sums[c] = product(sums[c], exponential((peaks[c] - result.largest) * scale));
            lanes_.sync();
            if (first > 0 && before_window < result.largest)
                result.weights.total =
                    product(result.weights.total, exponential((before_window - result.largest) * scale));
            result.weights.total = in_order(sums, last - first, result.weights.total);
        }
        return result;
    }

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
                Real* const here = next<Real>(shared_->temporary, temporary_turn_);
                sum_chunks<1>(first, last, n, left, here);
                if (walk(here, first, last, t, passed, last_with_mass, last_before)) break;
            }
        }
        if (last_with_mass == none) return none;
        Real const* const values = evaluate<Real>(last_with_mass * chunk_size, n, w, taken);
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
        Real const* const values = evaluate<Real>(c * chunk_size, n, w, taken);
        if (warp() == 0) {
            Real lanes[8] = {};
            for (index_t r = 0; r < chunk_rows; ++r) {
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < 8; ++j) lanes[j] += values[r * chunk_lanes + 8 * lane() + j];
            }
            Real const here = fold(lanes);
            if (lane() == 0) sums.sums[c] = here;
        }
        lanes_.sync();
        sums.total = in_order(sums.sums, chunks, Real(0));
    }

    /// Counts in the shared memory of each rank, 64 bits as two words, and adds the ranks' counts.
    template <class Bin, class Mass>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void count(index_t n, Bin const& bin_of, Mass const& mass_of,
                                                span<std::uint64_t> bins) const {
        Bin const bin = bin_of;
        Mass const mass = mass_of;
        count_in_windows(n, bins,
                         [&](index_t i, index_t begin, index_t here, std::uint32_t* low, std::uint32_t* high)
                             MULTIDRAFT_INLINE_LAMBDA {
                                 index_t const b = bin(i);
                                 if (b < begin || b - begin >= here) return;
                                 add_wide(low + (b - begin), high + (b - begin), static_cast<std::uint32_t>(mass(i)));
                             });
    }

    template <class F>
    MULTIDRAFT_HD MULTIDRAFT_OUTLINE void count_pairs(index_t n, F const& function, span<std::uint64_t> bins) const {
        F const f = function;
        count_in_windows(n, bins,
                         [&](index_t i, index_t begin, index_t here, std::uint32_t* low, std::uint32_t* high)
                             MULTIDRAFT_INLINE_LAMBDA {
                                 binned_pair const more = f(i);
                                 if (more.bin < begin / 2 || more.bin - begin / 2 >= here / 2) return;
                                 index_t const at = 2 * more.bin - begin;
                                 // Tokens that no model likes are many, in few bins: spare them turns at a counter.
                                 if (more.first != 0)
                                     add_wide(low + at, high + at, static_cast<std::uint32_t>(more.first));
                                 if (more.second != 0)
                                     add_wide(low + at + 1, high + at + 1, static_cast<std::uint32_t>(more.second));
                             });
    }

private:
    template <class F>
    using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

    static constexpr std::size_t own_lanes = static_cast<std::size_t>(own);
    static constexpr index_t nowhere = std::numeric_limits<index_t>::max();

    /// An entry of a row by its key; the default stands after every entry there is.
    template <class Real>
    struct entry {
        Real key = minus_infinity<Real>;
        index_t index = nowhere;
    };

    /// Larger keys first, ties to the lower index. NaN stands before nothing.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static bool before(entry<Real> const& a, entry<Real> const& b) noexcept {
        return (a.key > b.key) | ((a.key == b.key) & (a.index < b.index));
    }

    [[nodiscard]] MULTIDRAFT_HD int lane() const noexcept { return lanes_.thread() % warp_size; }
    [[nodiscard]] MULTIDRAFT_HD int warp() const noexcept { return lanes_.thread() / warp_size; }

    /// Shared memory of the widest type as an array of Real.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static Real* as(Widest* p) noexcept {
        static_assert(sizeof(Real) <= sizeof(Widest), "multidraft: the group's storage is for narrower rows");
        return reinterpret_cast<Real*>(p);
    }

    /// The copy whose turn it is.
    template <class Real, std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD static Real* next(Widest (&copies)[2][N], unsigned& turn) noexcept {
        return as<Real>(copies[turn++ & 1U]);
    }

    /// `add(i, begin, here, low, high)` adds entry i to those of the bins from `begin` on that are at hand.
    template <class Add>
    MULTIDRAFT_HD MULTIDRAFT_INLINE void count_in_windows(index_t n, span<std::uint64_t> bins, Add const& add) const {
        constexpr auto capacity = static_cast<index_t>(storage::count_capacity);
        auto* const low = reinterpret_cast<std::uint32_t*>(shared_->scratch);
        std::uint32_t* const high = low + capacity;
        auto const size = static_cast<index_t>(bins.size());
        for (index_t begin = 0; begin < size; begin += capacity) {
            index_t const here = size - begin < capacity ? size - begin : capacity;
            lanes_.sync();
            for (index_t b = lanes_.thread(); b < here; b += threads) {
                low[b] = 0;
                high[b] = 0;
            }
            lanes_.sync();
            for_adjacent<4>(n, [&](index_t i, bool inside) MULTIDRAFT_INLINE_LAMBDA {
                if (inside) add(i, begin, here, low, high);
            });
            if constexpr (in_memory) {
                lanes_.sync();
                std::uint64_t* const all = lanes_.accumulators(count_turn_ & 1U);
                for (index_t b = lanes_.thread(); b < here; b += threads) {
                    std::uint64_t const mine = low[b] + (std::uint64_t{high[b]} << 32);
                    if (mine != 0) lanes_.add_to(all + b, mine);
                }
                lanes_.sync_all();
                for (index_t b = lanes_.thread(); b < here; b += threads)
                    bins[static_cast<std::size_t>(begin + b)] = all[b];
                // Nobody reads the other array any more, and nobody adds to it before the barrier.
                std::uint64_t* const other = lanes_.accumulators(++count_turn_ & 1U);
                for (index_t b = lanes_.rank() * threads + lanes_.thread(); b < capacity; b += lanes_.ranks() * threads)
                    other[b] = 0;
            } else {
                lanes_.sync_all();
                for (index_t b = lanes_.thread(); b < here; b += threads) {
                    std::uint64_t total = 0;
                    for (int r = 0; r < lanes_.ranks(); ++r)
                        total += *lanes_.at_rank(low + b, r) + (std::uint64_t{*lanes_.at_rank(high + b, r)} << 32);
                    bins[static_cast<std::size_t>(begin + b)] = total;
                }
            }
            lanes_.sync_all();
        }
    }

    /// Adds to a counter of two words.
    MULTIDRAFT_HD void add_wide(std::uint32_t* low, std::uint32_t* high, std::uint32_t more) const {
        if (lanes_.add(low, more) > ~more) lanes_.add(high, 1U);
    }

    [[nodiscard]] MULTIDRAFT_HD static index_t window_end(index_t first, index_t chunks) noexcept {
        return chunks - first < slots ? chunks : first + slots;
    }

    /// Writes a value that all threads of a warp have to one place of every rank's shared memory.
    template <class T>
    MULTIDRAFT_HD void push(T* at, index_t k, T value) const {
        if constexpr (in_memory) {
            if (lane() == 0) *lanes_.mirror(at + k) = value;
        } else {
            if (lane() < lanes_.ranks()) *lanes_.at_rank(at + k, lane()) = value;
        }
    }

    /// After a barrier: what was pushed to `at .. at + count` is there.
    template <class T>
    MULTIDRAFT_HD void collect([[maybe_unused]] T* at, [[maybe_unused]] index_t count) const {
        if constexpr (in_memory) {
            for (index_t k = lanes_.thread(); k < count; k += threads) at[k] = *lanes_.mirror(at + k);
            lanes_.sync();
        }
    }

    [[nodiscard]] MULTIDRAFT_HD bool leading_warp() const noexcept { return lanes_.rank() == 0 && warp() == 0; }

    /// Merges the lists that the warps of all ranks wrote to `keys` and `indices`; the leading warp has the result.
    template <class Real>
    MULTIDRAFT_HD void merge_lists(index_t wanted, Real* keys, index_t* indices, entry<Real>& kept) const {
        entry<Real> least;
        auto const insert_list = [&](entry<Real> const& here) { insert(here, wanted, kept, least); };
        if constexpr (in_memory) {
            lanes_.sync();
            // The lists of the blocks go where the mirrors of two large arrays lie.
            static_assert(std::size_t(Lanes::max_grid_ranks) * warp_size * sizeof(Widest) <= sizeof(shared_->scratch) &&
                          std::size_t(Lanes::max_grid_ranks) * warp_size * sizeof(index_t) <=
                              sizeof(shared_->counters) &&
                          Lanes::max_grid_ranks <= max_ranks * warps);
            Real* const all_keys = reinterpret_cast<Real*>(lanes_.mirror(shared_->scratch));
            auto* const all_indices = reinterpret_cast<index_t*>(lanes_.mirror(shared_->counters));
            if (warp() == 0) {
                kept = {};
                for (int w = 0; w < warps; ++w)
                    insert_list({keys[w * warp_size + lane()], indices[w * warp_size + lane()]});
                all_keys[lanes_.rank() * warp_size + lane()] = kept.key;
                all_indices[lanes_.rank() * warp_size + lane()] = kept.index;
            }
            lanes_.sync_all();
            if (leading_warp()) {
                kept = {};
                least = {};
                for (int r = 0; r < lanes_.ranks(); ++r)
                    insert_list({all_keys[r * warp_size + lane()], all_indices[r * warp_size + lane()]});
            }
        } else {
            lanes_.sync_all();
            if (leading_warp()) {
                kept = {};
                for (int r = 0; r < lanes_.ranks(); ++r)
                    for (int w = 0; w < warps; ++w)
                        insert_list({*lanes_.at_rank(keys + w * warp_size + lane(), r),
                                     *lanes_.at_rank(indices + w * warp_size + lane(), r)});
            }
        }
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD static Real in_order(Real const* sums, index_t count, Real total) {
        for (index_t c = 0; c < count; ++c) total += sums[c];
        return total;
    }

    /// Calls `body(i, i < n)` for the entries in runs of `Width` adjacent ones a thread; in what order does not matter.
    template <int Width, class Body>
    MULTIDRAFT_HD void for_adjacent(index_t n, Body const& body) const {
        index_t const all = static_cast<index_t>(threads * lanes_.ranks()) * Width;
        index_t const mine = static_cast<index_t>(lanes_.rank() * threads + lanes_.thread()) * Width;
        index_t begin = 0;
        for (; n - begin >= all; begin += all) {
            MULTIDRAFT_UNROLL
            for (int j = 0; j < Width; ++j) body(begin + mine + j, true);
        }
        if (begin < n && mine < n - begin)
            for (int j = 0; j < Width; ++j) body(begin + mine + j, mine + j < n - begin);
    }

    /// Calls `body(c, c < last)` so often that all threads call it equally often, each chunk with the threads of one
    /// team.
    template <class Body>
    MULTIDRAFT_HD void for_chunks(index_t first, index_t last, Body const& body) const {
        index_t const step = static_cast<index_t>(teams * lanes_.ranks());
        index_t const mine = static_cast<index_t>(warp() / Split * lanes_.ranks() + lanes_.rank());
        for (index_t c = first; c < last; c += step) {
            bool const active = mine < last - c;
            // A team of one warp meets nobody.
            if (Split > 1 || active) body(c + mine, active);
        }
    }

    /// Sums chunks first .. last - 1 of f into `sums[0 ..]` of every rank, `Unroll` rows of a chunk at a time.
    template <int Unroll, class Real, class F>
    MULTIDRAFT_HD void sum_chunks(index_t first, index_t last, index_t n, F const& function, Real* sums) const {
        F const f = function;
        for_chunks(first, last, [&](index_t c, bool active) MULTIDRAFT_INLINE_LAMBDA {
            Real acc[own_lanes];
            MULTIDRAFT_UNROLL
            for (int j = 0; j < own; ++j) acc[j] = 0;
            if (active) {
                index_t const size = n - c * chunk_size < chunk_size ? n - c * chunk_size : chunk_size;
                index_t const rows = size / chunk_lanes;
                index_t const at = c * chunk_size + own * member();
#if defined(__CUDA_ARCH__)
#pragma unroll Unroll
#endif
                for (index_t r = 0; r < rows; ++r) {
                    MULTIDRAFT_UNROLL
                    for (index_t j = 0; j < own; ++j) acc[j] += f(at + r * chunk_lanes + j);
                }
                if (size != chunk_size) {
                    MULTIDRAFT_UNROLL
                    for (index_t j = 0; j < own; ++j) {
                        index_t const i = at + rows * chunk_lanes + j;
                        if (i < n) acc[j] += f(i);
                    }
                }
            }
            Real const here = pairwise(acc);
            if (active && warp() % Split == 0) push(sums, c - first, here);
        });
        lanes_.sync_all();
        collect(sums, last - first);
    }

    /// The thread's place in its team.
    [[nodiscard]] MULTIDRAFT_HD index_t member() const noexcept {
        return static_cast<index_t>(lanes_.thread() % (Split * warp_size));
    }

    /// The largest entry of a chunk and the sum of exp((x - largest) * scale); n = 0 for a team without a chunk.
    template <class X, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real exponentials_of_chunk(index_t begin, index_t n, X const& row, Real scale,
                                                           Real& peak) const {
        constexpr Real nothing = minus_infinity<Real>;
        X const x = row;
        index_t const at = begin + own * member();
        Real acc[own_lanes];
        MULTIDRAFT_UNROLL
        for (int j = 0; j < own; ++j) acc[j] = 0;
        Real best = nothing;
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        index_t const rows = size / chunk_lanes;
        index_t const used = size == chunk_size ? rows : rows + 1;  // the last one may not be whole
        Real kept[chunk_rows][own_lanes];
        MULTIDRAFT_UNROLL
        for (index_t r = 0; r < chunk_rows; ++r) {
            if (r < rows) {  // all threads alike
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < own; ++j) kept[r][j] = x(at + r * chunk_lanes + j);
            } else if (r < used) {
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < own; ++j) {
                    index_t const i = at + r * chunk_lanes + j;
                    kept[r][j] = i < n ? x(i) : nothing;
                }
            }
        }
        MULTIDRAFT_UNROLL
        for (index_t r = 0; r < chunk_rows; ++r) {
            if (r < used) {
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < own; ++j) best = kept[r][j] > best ? kept[r][j] : best;
            }
        }
        peak = team_largest(best);
        Real const base = peak == nothing ? Real(0) : peak;
        MULTIDRAFT_UNROLL
        for (index_t r = 0; r < chunk_rows; ++r) {
            if (r < used) {  // exp(-inf) = 0 for what lies beyond the row
                MULTIDRAFT_UNROLL
                for (index_t j = 0; j < own; ++j) acc[j] += exponential((kept[r][j] - base) * scale);
            }
        }
        return pairwise(acc);
    }

    /// The sum of a chunk from the threads' lanes, in the fixed order. Every thread of the team gets it.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real pairwise(Real (&acc)[own_lanes]) const {
        if constexpr (Split > 1) {  // the strides that reach across warps come first
            Real* const all = next<Real>(shared_->partial, partial_turn_) +
                              lanes_.thread() / (Split * warp_size) * (Split * warp_size * own);
            MULTIDRAFT_UNROLL
            for (int j = 0; j < own; ++j) all[member() * own + j] = acc[j];
            lanes_.sync();
            MULTIDRAFT_UNROLL
            for (int j = 0; j < own; ++j) {
                Real part[static_cast<std::size_t>(Split)];
                MULTIDRAFT_UNROLL
                for (int w = 0; w < Split; ++w) part[w] = all[(w * warp_size + lane()) * own + j];
                MULTIDRAFT_UNROLL
                for (int half = Split / 2; half > 0; half /= 2) {
                    MULTIDRAFT_UNROLL
                    for (int w = 0; w < half; ++w) part[w] += part[w + half];
                }
                acc[j] = part[0];
            }
        }
        return fold(acc);
    }

    /// Adds `Width` adjacent lanes a thread over a warp: strides 16 * Width .. Width across threads, then Width / 2 ..
    /// 1 within a thread. While a thread has several values, each of a pair of threads takes over half of them, so that
    /// 8 a thread cost 12 shuffles instead of 40. Sums do not depend on which operand stands first.
    template <std::size_t Width, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real fold(Real (&v)[Width]) const {
        Real total = across<16>(v);
        // The thread's value is that of place (lane / 4) of 8; stride Width / 2 is bit 16 of the thread, and so on.
        MULTIDRAFT_UNROLL
        for (int bit = 16; bit > 16 / static_cast<int>(Width); bit /= 2) total += lanes_.shuffle_xor(total, bit);
        return total;
    }

    template <int Bit, std::size_t Width, class Real>
    [[nodiscard]] MULTIDRAFT_HD Real across(Real (&v)[Width]) const {
        if constexpr (Width > 1) {
            constexpr std::size_t half = Width / 2;
            bool const upper = (lane() & Bit) != 0;
            Real rest[half];
            MULTIDRAFT_UNROLL
            for (std::size_t j = 0; j < half; ++j) {
                Real const kept = upper ? v[j + half] : v[j];
                Real const given = upper ? v[j] : v[j + half];
                rest[j] = kept + lanes_.shuffle_xor(given, Bit);
            }
            return across<Bit / 2>(rest);
        } else {
            Real total = v[0];
            MULTIDRAFT_UNROLL
            for (int bit = Bit; bit > 0; bit /= 2) total += lanes_.shuffle_xor(total, bit);
            return total;
        }
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real warp_largest(Real best) const {
        MULTIDRAFT_UNROLL
        for (int bit = warp_size / 2; bit > 0; bit /= 2) {
            Real const other = lanes_.shuffle_xor(best, bit);
            best = other > best ? other : best;
        }
        return best;
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

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real team_largest(Real best) const {
        best = warp_largest(best);
        if constexpr (Split > 1) {
            Real* const all = next<Real>(shared_->team_peak, peak_turn_) + warp() / Split * Split;
            if (lane() == 0) all[warp() % Split] = best;
            lanes_.sync();
            MULTIDRAFT_UNROLL
            for (int w = 0; w < Split; ++w) best = all[w] > best ? all[w] : best;
        }
        return best;
    }

    /// Puts the entries that the threads of a warp offer, one each, into the warp's sorted list.
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

    [[nodiscard]] MULTIDRAFT_HD static int lowest_bit(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __ffs(static_cast<int>(bits)) - 1;
#else
        return __builtin_ctz(bits);
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD static int leading_zeros(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __clz(static_cast<int>(bits));
#else
        return __builtin_clz(bits);
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD static int bits_set(std::uint32_t bits) noexcept {
#if defined(__CUDA_ARCH__)
        return __popc(bits);
#else
        return __builtin_popcount(bits);
#endif
    }

    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_without(index_t n, W const& w, span<token_id const> taken) const {
        using real = result_of<W>;
        index_t const chunks = chunks_of(n);
        auto const left = without(w, taken);
        real total = 0;
        for (index_t first = 0; first < chunks; first += slots) {
            index_t const last = window_end(first, chunks);
            real* const sums = next<real>(shared_->temporary, temporary_turn_);
            sum_chunks<1>(first, last, n, left, sums);
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

    /// The weights of one chunk in shared memory, those taken and those beyond the row 0.
    template <class Real, class W>
    [[nodiscard]] MULTIDRAFT_HD Real const* evaluate(index_t begin, index_t n, W const& function,
                                                     span<token_id const> taken) const {
        W const w = function;
        Real* const values = reinterpret_cast<Real*>(shared_->scratch);
        static_assert(sizeof(Real) * chunk_size <= sizeof(shared_->scratch));
        index_t const size = n - begin < chunk_size ? n - begin : chunk_size;
        lanes_.sync();
        constexpr index_t width = 4;

        MULTIDRAFT_ROLL
        for (index_t k = width * lanes_.thread(); k < chunk_size; k += width * threads) {
            MULTIDRAFT_UNROLL
            for (index_t j = 0; j < width; ++j) values[k + j] = k + j < size ? w(begin + k + j) : Real(0);
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

    /// The run (of 16) in which the running sum passes t, as `host_group` chooses it; `t` becomes what is left of it.
    template <class Real, class Sum>
    [[nodiscard]] MULTIDRAFT_HD static index_t choose_run(Sum const& sum, Real& t) {
        Real passed = 0;
        Real left = 0;
        index_t found = none;

        MULTIDRAFT_ROLL
        for (index_t k = 0; k < 16; ++k) {
            Real const here = sum(k);
            if (here > 0) {
                found = k;
                left = t - passed;
                if (passed + here > t) break;
            }
            passed += here;
        }
        t = left;
        return found;
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD index_t descend(Real const* values, Real t) const {
        Real* const runs = as<Real>(shared_->runs);
        int const half_lane = lane() % 16;
        for (int run = lanes_.thread() / 16; run < 16; run += threads / 16) {
            Real const* const v = values + run * 256 + half_lane;
            Real here = v[0];
            for (int r = 1; r < 16; ++r) here += v[r * 16];
            for (int bit = 8; bit > 0; bit /= 2) here += lanes_.shuffle_xor(here, bit);
            if (half_lane == 0) runs[run] = here;
        }
        lanes_.sync();
        index_t const a = choose_run([runs](index_t k) { return runs[k]; }, t);
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
        index_t const b = choose_run([this, mine](index_t k) { return lanes_.shuffle(mine, static_cast<int>(k)); }, t);
        if (b == none) return none;
        values += b * 16;
        index_t const c = choose_run([values](index_t k) { return values[k]; }, t);
        return c == none ? none : a * 256 + b * 16 + c;
    }

    Lanes lanes_;
    storage* shared_;
    mutable unsigned ledger_turn_ = 0;
    mutable unsigned temporary_turn_ = 0;
    mutable unsigned best_turn_ = 0;
    mutable unsigned partial_turn_ = 0;
    mutable unsigned peak_turn_ = 0;
    struct no_turn {};
    [[no_unique_address]] mutable std::conditional_t<in_memory, unsigned, no_turn> count_turn_{};
};

}  // namespace multidraft::cuda
