// Where a call runs: on host threads, a CUDA stream or a Kokkos space. What a machine does for a batch is two loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Calls `call()` unless `refuse()` throws. Where calls return an error and do not throw, the policy makes one of the
/// refusal (`policy.refused(e)`).
template <class P, class Refuse, class Call>
auto checked(P const& policy, Refuse const& refuse, Call const& call) {
    using result = decltype(call());
    if constexpr (std::is_void_v<result>) {
        refuse();
        call();
    } else {
        try {
            refuse();
        } catch (invalid_input const& e) {
            return result(policy.refused(e));
        }
        return call();
    }
}

/// Makes calls in order. The first error that one returns is returned, and those that follow it are not made.
template <class Error, class First, class... Rest>
Error in_order(First const& first, Rest const&... rest) {
    if constexpr (std::is_void_v<decltype(first())>)
        first();
    else if (Error const e = first(); e != Error())
        return e;
    if constexpr (sizeof...(rest) > 0)
        return in_order<Error>(rest...);
    else
        return Error();
}

inline void refuse_too_many_rows(std::int64_t count) {
    if (count < 0 || count > largest_number<std::int32_t>)
        refuse("count", count, "a call is over 0 rows or more, and fewer than 2^31");
}

}  // namespace detail

/// Calls `body(k)` for 0 <= k < count on host threads, in any order; the calling thread does small counts alone. The
/// overloads for a CUDA stream (`cuda/on.cuh`) and a Kokkos space (`kokkos/on.hpp`) launch a kernel.
template <host_policy P, class Body>
void for_each(P const& policy, std::int64_t count, Body const& body) {
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

/// Bytes of workspace for calls over up to `rows` rows on a host (`prepare_batch`, `predict_batch`): none.
template <host_policy P>
[[nodiscard]] constexpr std::size_t row_workspace_size(P const&, std::int64_t /*rows*/) noexcept {
    return 0;
}

/// Calls `make(rows)(g, i)` for 0 <= i < count on host threads, one row at a time each, in any order. The overloads for
/// a CUDA stream and a Kokkos space launch a kernel with a group of threads for each row; they may pass the same rows
/// with another layout.
template <host_policy P, class Rows, class Make>
void for_each_row(P const& policy, std::int64_t count, Rows const& rows, Make const& make,
                  workspace const& /*scratch*/ = {}) {
    detail::refuse_too_many_rows(count);
    auto const body = make(rows);
    detail::parallel_for(policy, static_cast<std::int32_t>(count),
                         [&](std::int32_t i, int) { body(detail::host_batch_group{}, std::int64_t{i}); });
}

/// Rows of some size: what `for_each_row` is given for a call over rows of several types, which its body reads entry by
/// entry.
struct rows_of_size {
    index_t vocabulary = 1;
};

namespace detail {

struct any_index_body {
    MULTIDRAFT_HD void operator()(std::int64_t) const noexcept {}
};
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

/// Where a call runs.
///
/// - `for_each(policy, count, body)` calls `body(k)` for 0 <= k < count.
/// - `for_each_row(policy, count, rows, make, workspace)` calls `make(rows)(g, i)` for 0 <= i < count, where g is a
///   group of lanes that process row i together.
///
/// Both find the policy's functions by its namespace. Calls follow one another in the order in which they are made;
/// they return nothing, or an error whose default value is success. In the latter case `policy.refused(e)` makes an
/// error of the `invalid_input` that a host would throw, and nothing is thrown.
///
/// Host threads (`host_threads`, `host_tasks` over an engine's own pool) are such policies, and so are
/// `cuda::on(stream)` and `kokkos::on(space)`: include `cuda/on.cuh` or `kokkos/on.hpp` for these.
template <class P>
concept execution_policy = requires(P const& policy, std::int64_t count, detail::any_index_body const& body,
                                    rows_of_size const& rows, detail::make_any_row_body const& make,
                                    workspace const& scratch) {
    for_each(policy, count, body);
    for_each_row(policy, count, rows, make, scratch);
};

}  // namespace MULTIDRAFT_NAMESPACE
