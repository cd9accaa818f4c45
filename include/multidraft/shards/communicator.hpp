// The concept `communicator`: collective calls of ranks that share rows, by MPI or an engine's own library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// Ranks that call the same operations in the same order. Buffers belong to the caller, are contiguous and do not
/// overlap; an operation returns when its result has arrived. All ranks pass the same `bytes` and as many numbers.
///
/// - `comm.rank()`, `comm.size()`: the number of this rank, from 0, and the number of ranks.
/// - `comm.all_gather(from, bytes, to)`: `to` receives `bytes` from every rank, in the order of ranks.
/// - `comm.all_reduce(numbers)`: every number becomes its sum over the ranks, modulo 2^64.
///
/// Only integers are summed: a sum of floats would depend on the communicator's order of addition. An
/// optional operation: `has_all_to_all`.
template <class C>
concept communicator = requires(C& comm, void const* from, void* to, std::size_t bytes, span<std::uint64_t> numbers) {
    { comm.rank() } -> std::convertible_to<int>;
    { comm.size() } -> std::convertible_to<int>;
    comm.all_gather(from, bytes, to);
    comm.all_reduce(numbers);
};

/// A communicator that can send different data to each rank, while the rank does other work.
///
/// `comm.start_all_to_all(from, sent, to, received)`: `from` has `sent[r]` bytes for rank r, in the order of ranks, and
/// `to` receives `received[r]` bytes from rank r. It may return at once: `comm.test()` is whether the bytes have
/// arrived (true if nothing was started), and `comm.wait()` returns when they have. Until then the caller does not
/// access the buffers. One call at a time. Columns that complete a chunk are then sent to one rank, and not to all.
/// With `comm.most_bytes()`, what a rank may send or receive in such a call, all ranks refuse a call that is beyond it
/// on one of them.
template <class C>
concept has_all_to_all = communicator<C> &&
    requires(C& comm, void const* from, void* to, span<std::size_t const> sent, span<std::size_t const> received) {
    comm.start_all_to_all(from, sent, to, received);
    { comm.test() } -> std::same_as<bool>;
    comm.wait();
};

/// The communicator of a single rank.
struct single_rank {
    [[nodiscard]] static constexpr int rank() noexcept { return 0; }
    [[nodiscard]] static constexpr int size() noexcept { return 1; }
    static void all_gather(void const* from, std::size_t bytes, void* to) noexcept {
        if (bytes > 0) std::memcpy(to, from, bytes);
    }
    static void all_reduce(span<std::uint64_t> /*numbers*/) noexcept {}
    static void start_all_to_all(void const* from, span<std::size_t const> sent, void* to,
                                 span<std::size_t const> /*received*/) noexcept {
        if (sent[0] > 0) std::memcpy(to, from, sent[0]);
    }
    [[nodiscard]] static constexpr bool test() noexcept { return true; }
    static constexpr void wait() noexcept {}
};

static_assert(has_all_to_all<single_rank>);

/// The number of calls of a communicator, and the bytes that this rank sent and received in them.
struct traffic {
    std::uint64_t calls = 0;
    std::uint64_t sent = 0;      ///< passed to gathers and sums, counted once; in `start_all_to_all` for others
    std::uint64_t received = 0;  ///< from other ranks; the results of sums, counted once

    friend constexpr bool operator==(traffic const&, traffic const&) = default;
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
