// Validating a batch for a verifier, on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/tree_rules.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/workspace.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/takes_law.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// `validate_batch` with the arguments of `verify_batch`: by the rules and the law of the verifier. What it returns is
/// what the call with rules returns for that policy.
template <class P, verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
[[nodiscard]] auto validate_batch(P&& policy, Verifier const& verifier, drafted_batch<Law> const& drafts,
                                  target_rows<Target> const& target, draft_rows<Draft> const& draft,
                                  request_batch const& requests, validation_report* report,
                                  workspace const& scratch = {}) {
    verify::require_law<Verifier, Law>();
    return validate_batch(policy, rules_of(verifier), drawn_by<typename Verifier::law>(drafts.trees), target, draft,
                          requests, report, scratch);
}

}  // namespace MULTIDRAFT_NAMESPACE
