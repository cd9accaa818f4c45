// Calls for each index of a range on host threads, CUDA or Kokkos: for masks, links and outputs in engines' formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/detail/host_call.hpp"
#include "multidraft/batch/host_threads.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Calls `body(k)` for 0 <= k < count on host threads, in any order; the calling thread does small counts alone. The
/// overloads for a CUDA stream (`cuda/for_each_piece.cuh`) and a Kokkos space (`kokkos/for_each_piece.hpp`) launch a
/// kernel.
template <host_policy P, class Body>
void for_each_piece(P const& policy, std::int64_t count, Body const& body) {
    constexpr std::int64_t least = 4096;
    std::int64_t const most = std::numeric_limits<std::int32_t>::max();
    std::int64_t const each = std::max(least, count / most + 1);
    auto const blocks = static_cast<std::int32_t>((count + each - 1) / each);
    auto const block = [&](std::int32_t n, int) {
        std::int64_t const end = std::min(count, (n + std::int64_t{1}) * each);
        for (std::int64_t k = n * each; k < end; ++k) body(k);
    };
    if (blocks == 1)
        block(0, 0);
    else
        detail::parallel_for(policy, blocks, block);
}

namespace detail {

struct any_piece {
    MULTIDRAFT_HD void operator()(std::int64_t) const noexcept {}
};

}  // namespace detail

/// Where `for_each_piece` runs: host threads, `cuda::on(stream)` or `kokkos::on(space)`. For the latter two, include
/// the header with their `for_each_piece` first.
template <class P>
concept piece_policy = requires(P const& policy, std::int64_t count, detail::any_piece const& body) {
    for_each_piece(policy, count, body);
};

}  // namespace MULTIDRAFT_NAMESPACE
