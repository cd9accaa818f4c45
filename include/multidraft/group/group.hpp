// The concept `group`: the row operations that every algorithm is written in terms of, and their fixed order of
// summation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The fixed order of sums.
///
/// A row of n terms is cut into chunks of `chunk_size`. A chunk is `chunk_rows` rows of `chunk_lanes` lanes: lane l
/// adds the terms `l, l + 256, l + 512, ..` in that order, the lanes are added pairwise (l with l + 128, then l + 64,
/// .. 1), and the sums of the chunks are added in index order. Terms beyond n count as 0. A thread, a block, a cluster
/// or a rank that holds whole chunks gets the same bits.
///
/// A search finds a chunk by the chunks' sums, and descends inside it by sixteenths: 16 runs of 256 terms, 16 runs of
/// 16, 16 terms. A run of 256 is summed as 16 lanes of 16 terms, a run of 16 pairwise. At each step the sums are added
/// in double precision in index order and the fraction is taken of *their* total; its relative position inside the run
/// it falls into is the fraction for the next step. So nothing is lost between a sum and the sums of its parts, which
/// are rounded differently.
inline constexpr index_t chunk_size = 4096;
inline constexpr index_t chunk_lanes = 256;
inline constexpr index_t chunk_rows = chunk_size / chunk_lanes;

/// Chunks in a row of n entries.
[[nodiscard]] MULTIDRAFT_HD constexpr index_t chunks_of(index_t n) noexcept {
    return n / chunk_size + (n % chunk_size != 0 ? 1 : 0);
}

/// The sums of the chunks of a row of weights, and their total: what a draw from the row needs.
///
/// Rows of up to `capacity` chunks (more than a million entries) keep every chunk's sum; of longer rows only the total
/// is kept and a search sums the chunks again, twice. The total is meant for normalisers; a search adds the sums
/// itself.
template <class Real>
struct chunk_sums {
    static constexpr index_t capacity = 256;
    Real values[capacity];
    Real total = 0;
};

/// How many chunk sums of a row of n entries are kept.
[[nodiscard]] MULTIDRAFT_HD constexpr index_t kept_sums(index_t n) noexcept {
    index_t const chunks = chunks_of(n);
    return chunks < chunk_sums<float>::capacity ? chunks : chunk_sums<float>::capacity;
}

/// The type in which a group keeps the chunk sums of a row: `chunk_sums` by value, or a handle to where the group keeps
/// its sums (shared memory). It has a member `total`, and is valid until the same group's next `sum_chunks`,
/// `softmax`, `sum_chunks_of`, `sums_from`, `sums_of_one` or `nth`. A handle can be moved but not copied: what changes
/// the sums (a sampler) takes them by value, so that sums are never used again after they were changed.
template <class G, class Real>
using chunk_sums_of = typename G::template chunk_sums_type<Real>;

/// The largest logit of a row and the sums of `exp(scale * (x - largest))`.
template <class Real, class Sums = chunk_sums<Real>>
struct softmax_sums {
    Real largest = 0;  ///< the largest logit, unscaled
    Sums sums;         ///< of `exp(scale * (x - largest))`
};

/// The largest k for which a group may list the top-k of a row, and a lane keep them.
inline constexpr index_t most_listed = 128;

/// What an entry adds to the two counters of a bin in `histogram_pairs`.
struct binned_pair {
    index_t bin;
    std::int32_t first;
    std::int32_t second;
};

/// The archetypes that the concept is checked with.
namespace group_archetype {
struct term {
    MULTIDRAFT_HD float operator()(index_t) const noexcept { return 0.0F; }
};
struct bin {
    MULTIDRAFT_HD index_t operator()(index_t) const noexcept { return 0; }
};
struct mass {
    MULTIDRAFT_HD std::int32_t operator()(index_t) const noexcept { return 0; }
};
struct pair {
    MULTIDRAFT_HD binned_pair operator()(index_t) const noexcept { return {0, 0, 0}; }
};
struct predicate {
    MULTIDRAFT_HD bool operator()(index_t) const noexcept { return false; }
};
struct number {
    MULTIDRAFT_HD std::uint64_t operator()(std::uint64_t count) const noexcept { return count; }
};
}  // namespace group_archetype

/// Lanes that process a row together: a CPU thread with vector units, a CUDA warp, block or cluster, a Kokkos team.
///
/// Functions of the index may be called by any lane, in any order, more than once. Every lane calls every operation
/// with equal arguments and gets the equal result. With f, w and x functions of an index to float or double:
///
/// - `sum(n, f)`: the sum of f(i), i < n, in the fixed order.
/// - `max(n, f)`: the largest f(i); minus infinity for n = 0.
/// - `argmax(n, f)`: the lowest i with the largest f(i); `none` for n = 0.
/// - `top_k(n, f, out)`: the `out.size()` largest, largest first, ties to the lower index; f is not NaN.
/// - `sum_chunks(n, w)`: the chunk sums of the weights w(i) >= 0.
/// - `softmax(n, x, scale)`: the `softmax_sums` of a row of logits, in one pass over memory.
/// - `inverse_cdf(sums, n, w, u, taken)`: the inverse of the running sum at a fraction: the first i whose running sum
///   of the weights w exceeds u of their total, in the steps above. u is a double in [0, 1), all of whose bits count;
///   tokens in `taken` have weight 0. Nondecreasing in u; for u >= 1 a last i, up to 2^-53 of the total.
/// - `update_chunk(sums, n, w, taken, i)`: the chunk sums after the weight of i changed; its chunk is summed again.
/// - `histogram(n, bin, mass, bins)`: bins[b] = sum of the integers mass(i) >= 0 with bin(i) = b; others are skipped.
/// - `histogram_pairs(n, pair, bins)`: the same with two counters a bin, side by side: bins[2 b] and bins[2 b + 1]
///   are the sums of `first` and `second` of the `binned_pair`s pair(i) with bin b.
/// - `leader()`: true on the one lane that writes results.
/// - `barrier()`: what the leader wrote before it to memory that all lanes share, every lane sees after it.
///
/// These follow from others, and a group may take them from `group_defaults`:
///
/// - `throws`: whether bad input is reported by throwing `invalid_input`, on a host. False for groups whose lanes run
///   inside a launch: an exception must not leave a launch, on a CPU either, so bad input yields the token `none`.
/// - `fast_top_k`: up to how many entries, at most `most_listed`, `top_k` is faster than a selection by counting; 0 if
///   never. `top_k_of_logits(n, x, list)` does what `top_k` does for at most so many, and returns false if an entry is
///   NaN or plus infinity or none is above minus infinity. `sum_chunks_of(n, w, list)` is `sum_chunks` of weights that
///   are 0 at all entries but those listed.
/// - `digit_bits`: how many bits of the keys a selection counts at a time.
/// - `counters<N>()`: N counters for `histogram` that all lanes see, in shared memory for instance, or each lane's own.
///   The result has a `data()` and is valid until the next call.
/// - `histogram_total(counters)`: the sum of counters, a span of them or anything indexed like one.
/// - `histogram_bin_reaching(counters, wanted)`: the bin in which the sum from the last bin downwards reaches `wanted`;
///   on return `wanted` is what is left to take from that bin. The number of bins is a multiple of 32.
/// - `count_part(n, first, size, is)`: how many of `size` entries of a row of n, from `first` on, satisfy `is`.
/// - `nth(n, is, number)`: the index of the `number(count)`-th of the entries that satisfy `is`, counted from 1, where
///   `count` is how many there are; `none` where there are none.
/// - `sums_of_one<Real>(n, i)`: the chunk sums of a row of zeros with a 1 at entry i.
/// - `sums_from(n, values, total)`: the chunk sums of a row of n entries from memory that all lanes can read, where an
///   earlier call wrote them, as many as `kept_sums(n)` says.
///
/// The functions that a group is given may declare where they are 0, or have a cheaper form on a run of entries
/// (group/optional_members.hpp).
///
/// `inverse_cdf` never returns an index of weight 0; it returns `none` only when every weight is 0.
template <class G>
concept group = requires(G const& g, index_t n, group_archetype::term f, group_archetype::bin bin,
                         group_archetype::mass mass, group_archetype::pair pair, chunk_sums_of<G, float>& sums,
                         span<token_id> out, span<token_id const> taken, span<std::uint64_t> bins,
                         group_archetype::predicate is, group_archetype::number number, std::uint64_t& wanted,
                         float const* values) {
    { g.sum(n, f) } -> std::same_as<float>;
    { g.max(n, f) } -> std::same_as<float>;
    { g.argmax(n, f) } -> std::same_as<index_t>;
    g.top_k(n, f, out);
    { g.sum_chunks(n, f) } -> std::same_as<chunk_sums_of<G, float>>;
    { sums.total } -> std::convertible_to<float>;
    { g.softmax(n, f, 1.0F) } -> std::same_as<softmax_sums<float, chunk_sums_of<G, float>>>;
    { g.inverse_cdf(sums, n, f, 0.0, taken) } -> std::same_as<index_t>;
    g.update_chunk(sums, n, f, taken, n);
    g.histogram(n, bin, mass, bins);
    g.histogram_pairs(n, pair, bins);
    { g.leader() } -> std::same_as<bool>;
    g.barrier();
    requires std::same_as<decltype(G::throws), bool const>;
    requires G::fast_top_k >= 0 && G::fast_top_k <= most_listed;
    requires G::digit_bits >= 5 && G::digit_bits <= 11;
    { g.top_k_of_logits(n, f, out) } -> std::same_as<bool>;
    { g.sum_chunks_of(n, f, taken) } -> std::same_as<chunk_sums_of<G, float>>;
    { g.template counters<32>().data() } -> std::same_as<std::uint64_t*>;
    { g.histogram_total(bins) } -> std::same_as<std::uint64_t>;
    { g.histogram_bin_reaching(bins, wanted) } -> std::same_as<index_t>;
    { g.count_part(n, n, n, is) } -> std::same_as<index_t>;
    { g.nth(n, is, number) } -> std::same_as<index_t>;
    { g.template sums_of_one<float>(n, n) } -> std::same_as<chunk_sums_of<G, float>>;
    { g.sums_from(n, values, 0.0F) } -> std::same_as<chunk_sums_of<G, float>>;
};

}  // namespace MULTIDRAFT_NAMESPACE
