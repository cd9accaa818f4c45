// Calls for each row of a batch with a group that processes it: on host threads, CUDA or Kokkos.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/detail/host_call.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Bytes of workspace for calls over up to `rows` rows on a host (`prepare_batch`, `predict_batch`): none.
template <host_policy P>
[[nodiscard]] constexpr std::size_t row_workspace_size(P const&, std::int64_t /*rows*/) noexcept {
    return 0;
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on host threads, one row at a time each, in any order. The overloads for
/// a CUDA stream (`cuda/for_each_row.cuh`) and a Kokkos space (`kokkos/for_each_row.hpp`) launch a kernel with a group
/// of threads for each row; they may pass the same rows with another layout.
template <host_policy P, class Rows, class Make>
void for_each_row(P const& policy, std::int64_t count, Rows const& rows, Make const& make,
                  workspace const& /*scratch*/ = {}) {
    if (count > largest_number<std::int32_t>) refuse("trees.nodes", count, "a call is over fewer than 2^31 rows");
    auto const body = make(rows);
    detail::parallel_for(policy, static_cast<std::int32_t>(count),
                         [&](std::int32_t i, int) { body(detail::host_batch_group{}, std::int64_t{i}); });
}

namespace detail {

struct any_row_body {
    template <group G>
    MULTIDRAFT_HD void operator()(G const&, std::int64_t) const noexcept {}
};
struct make_any_row_body {
    template <class Rows>
    [[nodiscard]] any_row_body operator()(Rows const&) const noexcept {
        return {};
    }
};

}  // namespace detail

/// Where `for_each_row` runs: host threads, `cuda::on(stream)` or `kokkos::on(space)`. For the latter two, include the
/// header with their `for_each_row` first.
template <class P>
concept row_policy = requires(P const& policy, std::int64_t count, logit_batch<float> const& rows,
                              detail::make_any_row_body const& make, workspace const& scratch) {
    for_each_row(policy, count, rows, make, scratch);
};

}  // namespace MULTIDRAFT_NAMESPACE
