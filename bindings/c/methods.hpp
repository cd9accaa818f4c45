// Method handles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "errors.hpp"
#include "kernels.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"

/// The type behind `md_method`.
struct md_method {
    multidraft::c_interface::any_c_method method;
};

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// The method of a handle.
[[nodiscard]] inline any_c_method method_of(md_method const* handle) {
    refuse_null(handle, "method");
    return handle->method;
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
