// The calls that are compiled once for each type of rows, each in its own file: logits of three types, these with masks
// and biases, these beside a draft's rows of a few candidates, and probabilities.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "library_methods.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "pool.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// The methods of the interface: those that draw node by node from one draft model, or a selection of these.
using any_c_method = any_method_of<library_methods>;

/// A pointer to the draft's rows; null if there are none.
template <class Target, class Draft>
void verify_rows(pool_policy const& policy, any_c_method const& method, any_drafted_batch const& drafts,
                 Target const& target, Draft const* draft, request_batch const& requests, verdict_batch const& out,
                 workspace const& scratch);

template <class Target, class Draft>
void validate_rows(pool_policy const& policy, any_c_method const& method, any_drafted_batch const& drafts,
                   Target const& target, Draft const* draft, request_batch const& requests, validation_report* report);

template <class Rows>
void draft_rows_of(pool_policy const& policy, any_c_method const& method, level_batch const& level, Rows const& rows,
                   request_batch const& requests, children_batch const& out);

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
