// What a verifier demands of the trees of a batch, apart from their law.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/no_draft_rows.hpp"
#include "multidraft/verify/shape_may_depend_on.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What a verifier demands of trees: checked before a batch is verified, and by `validate_batch`. The default is what
/// every verifier takes that reads the draft's rows.
struct tree_rules {
    allowed_trees trees = allowed_trees::any;
    bool children_may_be_left_out = false;  ///< see `verify::children_may_be_left_out`
    bool reads_draft = true;                ///< children are checked against the draft's rows
};

/// The rules of a verifier.
template <verify::verifier Verifier>
[[nodiscard]] MULTIDRAFT_HD constexpr tree_rules rules_of(Verifier const& /*verifier*/ = {}) noexcept {
    return {verify::trees_of<Verifier>, verify::children_may_be_left_out<Verifier>, verify::reads_draft<Verifier>};
}

}  // namespace MULTIDRAFT_NAMESPACE
