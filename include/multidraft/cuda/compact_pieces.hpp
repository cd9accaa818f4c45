// The types of `batch/caches.hpp` in namespace `cuda`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/batch/caches.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

using multidraft::byte_axis;
using multidraft::contiguous_cache;
using multidraft::kept_batch;
using multidraft::paged_cache;

namespace detail {

using multidraft::detail::bytes_16;
using multidraft::detail::compact_piece;

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
