// The templates that verify_*.cpp instantiate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

template <class Target, class Draft>
void verify_rows(pool_policy const& policy, any_c_method const& method, any_drafted_batch const& drafts,
                 Target const& target, Draft const* draft, request_batch const& requests, verdict_batch const& out,
                 workspace const& scratch) {
    if (draft == nullptr)
        verify_batch(policy, method, drafts, target_rows(target), draft_rows(verify::no_draft_rows{}), requests, out,
                     scratch);
    else
        verify_batch(policy, method, drafts, target_rows(target), draft_rows(*draft), requests, out, scratch);
}

template <class Target, class Draft>
void validate_rows(pool_policy const& policy, any_c_method const& method, any_drafted_batch const& drafts,
                   Target const& target, Draft const* draft, request_batch const& requests, validation_report* report) {
    if (draft == nullptr && method.reads_draft())
        refuse("draft", "unread", std::string(method.name()) + " reads the draft's rows");
    if (draft == nullptr)
        validate_batch(policy, method, drafts, target_rows(target), draft_rows(verify::no_draft_rows{}), requests,
                       report);
    else
        validate_batch(policy, method, drafts, target_rows(target), draft_rows(*draft), requests, report);
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
