// Why a call on a stream was refused: the text of the error that a host would throw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

namespace detail {

/// A text in memory of its own, since launches allocate nothing; a longer one is cut.
class refusal_text {
public:
    void set(std::string_view text) noexcept { size_ = text.copy(text_, sizeof text_); }
    [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

private:
    char text_[256] = {};
    std::string_view::size_type size_ = 0;
};

[[nodiscard]] inline refusal_text& refusal_of_this_thread() noexcept {
    thread_local refusal_text text;
    return text;
}

}  // namespace detail

/// Why a call of this thread was last refused with `cudaErrorInvalidValue`, with argument, index and value: the text
/// that the same call throws on a host, such as `draft.vocabulary = 299: draft and target have one vocabulary`. Empty
/// before the first one; valid until the next one. Arrays in device memory are not read by these checks;
/// `validate_batch` reports their faults.
[[nodiscard]] inline std::string_view last_refusal() noexcept { return detail::refusal_of_this_thread().view(); }

}  // namespace MULTIDRAFT_NAMESPACE::cuda
