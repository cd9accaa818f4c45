// The fault of a batch: the first bad argument, by request, index and value, and the host error for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What a verifier demands of trees: checked before a batch is verified, and by `validate_batch`. The default is what
/// every verifier takes that reads the draft's rows.
struct tree_rules {
    allowed_trees trees = allowed_trees::any;
    bool children_may_be_left_out = false;  ///< see `verify::children_may_be_left_out`
    bool reads_draft = true;                ///< children are checked against the draft's rows
    allowed_draws draws = allowed_draws::any;
    index_t most_children = 0;  ///< of a node; 0: any number
};

/// The rules of a verifier.
template <verify::verifier Verifier>
[[nodiscard]] MULTIDRAFT_HD constexpr tree_rules rules_of() noexcept {
    return {verify::trees_of<Verifier>, verify::children_may_be_left_out<Verifier>, verify::reads_draft<Verifier>,
            Verifier::traits.draws, Verifier::traits.most_children};
}
template <verify::verifier Verifier>
[[nodiscard]] MULTIDRAFT_HD constexpr tree_rules rules_of(Verifier const& /*verifier*/) noexcept {
    return rules_of<Verifier>();
}

/// The arguments that `validate_batch` checks, in the order of a request's checks.
enum class batch_argument : std::int32_t {
    nothing = 0,
    offsets,
    slot_of,
    seeds,
    positions,
    target_slot_of,
    target_temperature,
    target_top_k,
    target_top_p,
    target_min_p,
    draft_slot_of,
    draft_temperature,
    draft_top_k,
    draft_top_p,
    draft_min_p,
    parents,
    shape,   ///< a shape that the verifier does not take
    tokens,  ///< a token outside the vocabulary, or one that the law draws once
    absent,  ///< no child, without a reason
    certain,
    target_row_of,
    draft_row_of,
    target_allowed_of,
    draft_allowed_of,
    target_bias,
    draft_bias,
    target_candidates,  ///< the tokens of a `candidate_batch`
    draft_candidates,
    target,
    draft,
    not_drawn,  ///< a token to which the draft's row gives no mass
    left_out,   ///< no child, where the draft's row has tokens left
    order,      ///< of a pair of SpecHub, whose first token is the likeliest
    arithmetic  ///< of the code that verifies, as it was compiled
};

/// The first bad argument of a batch, or `batch_argument::nothing`: that of the lowest request, in the order of
/// `batch_argument`, at the lowest index; if no request has one, the arithmetic.
struct validation_report {
    batch_argument what = batch_argument::nothing;
    std::int32_t request = 0;
    std::int64_t index = 0;  ///< the node, for `parents` and all that follow; else the request
    index_t token = none;    ///< for a row: the entry at fault; `none` when its sum is wrong or no entry has mass
    double value = 0;        ///< for `arithmetic` an `arithmetic_fault`
};

/// The argument as the calls name it.
[[nodiscard]] constexpr char const* name_of(batch_argument what) noexcept {
    constexpr char const* names[] = {"",
                                     "offsets",
                                     "slot_of",
                                     "seeds",
                                     "positions",
                                     "target.slot_of",
                                     "target.temperature",
                                     "target.top_k",
                                     "target.top_p",
                                     "target.min_p",
                                     "draft.slot_of",
                                     "draft.temperature",
                                     "draft.top_k",
                                     "draft.top_p",
                                     "draft.min_p",
                                     "parents",
                                     "parents",
                                     "tokens",
                                     "tokens",
                                     "certain",
                                     "target.row_of",
                                     "draft.row_of",
                                     "target.allowed_of",
                                     "draft.allowed_of",
                                     "target.bias",
                                     "draft.bias",
                                     "target.tokens",
                                     "draft.tokens",
                                     "target",
                                     "draft",
                                     "tokens",
                                     "tokens",
                                     "tokens",
                                     "arithmetic"};
    return names[static_cast<int>(what)];
}

namespace detail {

/// The rule that an argument of a batch must satisfy; some faults are of a `token`.
[[nodiscard]] constexpr char const* rule_of(batch_argument what, token_id token = none) noexcept {
    switch (what) {
        case batch_argument::offsets:
            return "trees follow one another and have 1 to 2^24 nodes";
        case batch_argument::slot_of:
        case batch_argument::target_slot_of:
        case batch_argument::draft_slot_of:
            return "a slot is not negative";
        case batch_argument::seeds:
            return "another request of the batch has this seed and position, and would get the same draws: give ids "
                   "(equal ones where that is meant)";
        case batch_argument::positions:
            return "a position is not negative";
        case batch_argument::target_temperature:
        case batch_argument::draft_temperature:
            return "a temperature is a finite number, 0 or larger";
        case batch_argument::target_top_k:
        case batch_argument::draft_top_k:
            return "top-k keeps 1 token or more; 0 turns it off";
        case batch_argument::target_top_p:
        case batch_argument::draft_top_p:
            return "top-p lies in (0, 1]; 1 turns it off";
        case batch_argument::target_min_p:
        case batch_argument::draft_min_p:
            return "min-p lies in [0, 1]; 0 turns it off";
        case batch_argument::parents:
            return "a parent comes before its child, and parents never decrease";
        case batch_argument::tokens:
            return "a token is in the vocabulary, and where the law draws different tokens no other child has it";
        case batch_argument::shape:
            return "the verifier does not take a tree with this node: block verification and speculative sampling take "
                   "one child a node, SpecHub two at most, multi-path block verification paths from the root, "
                   "recursive rejection 64 children of a law with conditionals";
        case batch_argument::absent:
            return "no child, and no reason: support_ended where no token was left to draw, padding outside the shape; "
                   "a "
                   "child that was drawn is never left out";
        case batch_argument::not_drawn:
            return "the draft's row gives this child no mass: it was not drawn from it, or with other sampling "
                   "parameters, masks or bias";
        case batch_argument::left_out:
            return "the draft's row has more tokens to draw: a child that was drawn is never left out";
        case batch_argument::order:
            return "of a pair of SpecHub the first token is the most likely one";
        case batch_argument::certain:
            return "the first children of a node are certain: no more than there are, different tokens, none drawn "
                   "again; greedy-optimal verification takes one draw at most, SpecHub and block verification one";
        case batch_argument::target_row_of:
        case batch_argument::draft_row_of:
            return "the row of a node that is read is not negative";
        case batch_argument::target_allowed_of:
        case batch_argument::draft_allowed_of:
            return "the mask of a node is one of those there are; without allowed_of node i has mask i";
        case batch_argument::target_bias:
        case batch_argument::draft_bias:
            if (token != none) return "the tokens of a bias are of the vocabulary and rise";
            return "the bias of a node is one of those there are, as many as bias.offsets has less 1";
        case batch_argument::target_candidates:
        case batch_argument::draft_candidates:
            return "the candidates of a row are of the vocabulary and rise";
        default:
            return "the row of this node is not a distribution";
    }
}

/// A number that may be an integer: all its digits then, up to 2^53.
[[nodiscard]] inline std::string printed_whole(double value) {
    constexpr double most = 0x1p53;
    bool const is_whole =
        value > -most && value < most && static_cast<double>(static_cast<std::int64_t>(value)) == value;
    return is_whole ? printed(static_cast<std::int64_t>(value)) : printed(value);
}

}  // namespace detail

/// Throws `invalid_input` for a report that names an argument.
inline void refuse_reported(validation_report const& report) {
    if (report.what == batch_argument::nothing) return;
    if (report.what == batch_argument::arithmetic)
        refuse(name_of(report.what), report.value,
               std::string(text_of(static_cast<arithmetic_fault>(static_cast<std::int32_t>(report.value)))) +
                   ": see docs/floating_point.md");
    std::string reason = detail::rule_of(report.what, report.token);
    if (report.token != none) reason += " (token " + std::to_string(report.token) + ')';
    bool const of_row = report.what >= batch_argument::target_row_of && report.what <= batch_argument::draft;
    throw invalid_input(name_of(report.what), report.index, detail::printed_whole(report.value),
                        reason + ", request " + std::to_string(report.request),
                        of_row ? static_cast<node_id>(report.index) : none);
}

}  // namespace MULTIDRAFT_NAMESPACE
