// The templates that draft_*.cpp instantiate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/any_method_batch.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

template <class Rows>
void draft_rows_of(pool_policy const& policy, any_c_method const& method, level_batch const& level, Rows const& rows,
                   request_batch const& requests, children_batch const& out) {
    draft_batch(policy, method, level, draft_rows(rows), requests, out);
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
