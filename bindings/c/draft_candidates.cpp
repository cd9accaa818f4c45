// SPDX-License-Identifier: Apache-2.0
#include "draft_kernels.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

template void draft_rows_of(pool_policy const&, any_c_method const&, level_batch const&, candidate_batch<float> const&,
                            request_batch const&, children_batch const&);

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
