// SPDX-License-Identifier: Apache-2.0
#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "verify_kernels.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

template void verify_rows(pool_policy const&, any_c_method const&, any_drafted_batch const&,
                          adjusted_batch<float> const&, candidate_batch<float> const*, request_batch const&,
                          verdict_batch const&, workspace const&);
template void validate_rows(pool_policy const&, any_c_method const&, any_drafted_batch const&,
                            adjusted_batch<float> const&, candidate_batch<float> const*, request_batch const&,
                            validation_report*);

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
