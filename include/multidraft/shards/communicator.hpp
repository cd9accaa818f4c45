// The concept `communicator`: what ranks that share rows tell each other by, MPI's or an engine's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "multidraft/core/config.hpp"
#include "multidraft/core/span.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// Some ranks that call the same operations in the same order. Buffers are the caller's, contiguous, and do not
/// overlap; an operation returns when its result is there. Every rank passes the same sizes.
///
/// - `comm.rank()`, `comm.size()`: which rank this is, of how many.
/// - `comm.all_gather(from, bytes, to)`: `to` receives `bytes` of every rank, in the order of ranks.
/// - `comm.all_reduce(numbers)`: every number becomes the sum of that number over the ranks, modulo 2^64.
///
/// Numbers are integers: sums of floats depend on the order of addition, which is not a communicator's to choose. It
/// may have more (`has_all_to_all`).
template <class C>
concept communicator = requires(C& comm, void const* from, void* to, std::size_t bytes, span<std::uint64_t> numbers) {
    { comm.rank() } -> std::convertible_to<int>;
    { comm.size() } -> std::convertible_to<int>;
    comm.all_gather(from, bytes, to);
    comm.all_reduce(numbers);
};

/// A communicator that can send every rank something of its own: `comm.all_to_all(from, sent, to, received)`. `from`
/// holds `sent[r]` bytes for rank r, in the order of ranks, and `to` receives `received[r]` bytes of rank r. Columns of
/// chunks that two ranks share then go to one of them and not to all.
template <class C>
concept has_all_to_all = communicator<C> &&
    requires(C& comm, void const* from, void* to, span<std::size_t const> sent, span<std::size_t const> received) {
    comm.all_to_all(from, sent, to, received);
};

/// A communicator that can do so while the rank does other work: `comm.start_all_to_all(from, sent, to, received)`
/// returns at once, `comm.test()` says whether the bytes are there, and `comm.wait()` returns when they are. The
/// buffers are not touched until then. One at a time.
template <class C>
concept has_start_all_to_all = has_all_to_all<C> &&
    requires(C& comm, void const* from, void* to, span<std::size_t const> sent, span<std::size_t const> received) {
    comm.start_all_to_all(from, sent, to, received);
    { comm.test() } -> std::same_as<bool>;
    comm.wait();
};

/// One rank alone.
struct single_rank {
    [[nodiscard]] static constexpr int rank() noexcept { return 0; }
    [[nodiscard]] static constexpr int size() noexcept { return 1; }
    static void all_gather(void const* from, std::size_t bytes, void* to) noexcept {
        if (bytes > 0) std::memcpy(to, from, bytes);
    }
    static void all_reduce(span<std::uint64_t> /*numbers*/) noexcept {}
    static void all_to_all(void const* from, span<std::size_t const> sent, void* to,
                           span<std::size_t const> /*received*/) noexcept {
        if (sent[0] > 0) std::memcpy(to, from, sent[0]);
    }
};

static_assert(has_all_to_all<single_rank>);

/// Calls of a communicator, and the bytes that this rank sent and received by them.
struct traffic {
    std::uint64_t calls = 0;
    std::uint64_t sent = 0;      ///< given to the calls; a sum of numbers counts each of them once
    std::uint64_t received = 0;  ///< from other ranks; sums of numbers once

    friend constexpr bool operator==(traffic const&, traffic const&) = default;
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
