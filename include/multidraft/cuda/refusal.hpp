// Why a call on a stream was refused: the text of the error that a host would throw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

[[nodiscard]] inline std::string& refusal_of_this_thread() {
    thread_local std::string text;
    return text;
}

}  // namespace detail

/// Why the last call of this thread that returned `cudaErrorInvalidValue` did so, with argument, index and value: the
/// text that the same call throws on a host. Empty before the first one. Arrays in device memory are not read by these
/// checks; `validate_batch` reports their faults.
[[nodiscard]] inline std::string const& last_refusal() { return detail::refusal_of_this_thread(); }

}  // namespace MULTIDRAFT_NAMESPACE::cuda
