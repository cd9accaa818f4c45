// Methods chosen by name at run time, for batches on host threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/methods/any_method.hpp"
#include "multidraft/methods/method_calls.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Trees of a batch whose law is known at run time: the counterpart of `drafted_batch<Law>`.
struct any_drafted_batch {
    tree_batch trees;
    /// How the children were drawn: see `any_drafted::law`.
    std::string_view law;
};

namespace detail {

/// Reports what a batch cannot do with a method, by the method's name.
template <class Method>
void refuse_several_drafts() {
    if constexpr (of_several_drafts<Method>)
        refuse("method", Method::name, "children drawn from several draft models are verified one request at a time");
}

template <class P>
struct workspace_of {
    using function = std::size_t (*)(P const& policy, std::int32_t requests, node_id nodes, std::int32_t depth);

    template <class Method>
    static std::size_t by(P const& policy, std::int32_t requests, node_id nodes, std::int32_t depth) {
        return verify_workspace_size<typename Method::verifier>(policy, requests, nodes, depth);
    }
};

template <class P, class Target, class Draft>
struct verify_batch_of {
    using function = void (*)(P const& policy, tree_batch const& trees, target_rows<Target> const& target,
                              draft_rows<Draft> const& draft, request_batch const& requests, verdict_batch const& out,
                              workspace const& scratch);

    template <class Method>
    static void by(P const& policy, tree_batch const& trees, target_rows<Target> const& target,
                   [[maybe_unused]] draft_rows<Draft> const& draft, request_batch const& requests,
                   verdict_batch const& out, workspace const& scratch) {
        using verifier = typename Method::verifier;
        refuse_several_drafts<Method>();
        if constexpr (of_several_drafts<Method>)
            return;
        else if constexpr (!verify::reads_draft<verifier>)
            verify_batch(policy, verifier{}, drawn_by<typename Method::law>(trees), target,
                         draft_rows(verify::no_draft_rows{}), requests, out, scratch);
        else if constexpr (std::is_same_v<Draft, verify::no_draft_rows>)
            refuse("draft", "unread", std::string(Method::name) + " reads the draft's rows");
        else
            verify_batch(policy, verifier{}, drawn_by<typename Method::law>(trees), target, draft, requests, out,
                         scratch);
    }
};

template <class P, class Target, class Draft>
struct validate_batch_of {
    using function = void (*)(P const& policy, tree_batch const& trees, target_rows<Target> const& target,
                              draft_rows<Draft> const& draft, request_batch const& requests, validation_report* report);

    template <class Method>
    static void by(P const& policy, tree_batch const& trees, target_rows<Target> const& target,
                   draft_rows<Draft> const& draft, request_batch const& requests, validation_report* report) {
        validate_batch(policy, rules_of<typename Method::verifier>(), drawn_by<typename Method::law>(trees), target,
                       draft, requests, report);
    }
};

template <class P, class Rows>
struct draft_batch_of {
    using function = void (*)(P const& policy, level_batch const& level, draft_rows<Rows> const& rows,
                              request_batch const& requests, children_batch const& out);

    template <class Method>
    static void by(P const& policy, level_batch const& level, draft_rows<Rows> const& rows,
                   request_batch const& requests, children_batch const& out) {
        refuse_several_drafts<Method>();
        if constexpr (!of_several_drafts<Method>)
            draft_batch(policy, typename Method::sampler{}, level, rows, requests, out);
    }
};

/// Throws `invalid_input` unless the trees follow the law of the method; the message names the methods that fit.
template <class List>
void check_law(any_method_of<List> const& method, any_drafted_batch const& drafts) {
    if (method.takes_law(drafts.law)) return;
    std::string fitting;
    for (std::string_view const name : any_method_of<List>::names())
        if (any_method_of<List>::parse(name).takes_law(drafts.law))
            fitting += (fitting.empty() ? "" : ", ") + std::string(name);
    refuse("drafts.law", "'" + std::string(drafts.law) + "'",
           std::string(method.name()) + " verifies trees of law '" + std::string(method.law_name()) + "'; " +
               (fitting.empty() ? "no method verifies this one" : "this one is verified by " + fitting));
}

}  // namespace detail

/// Bytes of workspace for `verify_batch` with this method. See the overload for a verifier.
template <host_policy P, class List>
[[nodiscard]] std::size_t verify_workspace_size(P const& policy, any_method_of<List> const& method,
                                                std::int32_t requests, node_id nodes, std::int32_t depth) {
    using calls = detail::workspace_of<P>;
    return detail::table_of<calls, List>[method.index()](policy, requests, nodes, depth);
}

/// Verifies the trees of a batch on host threads by a method chosen by name: the decisions, checks and arguments are
/// those of `verify_batch` with its verifier. A method that does not read draft rows ignores those it is given.
///
/// Also throws `invalid_input` for trees of another law, with the names of the methods that verify them; for missing
/// draft rows that the method reads; for methods of several draft models. The tables compile every method of the list
/// for each type of rows: see `any_method_of`.
template <host_policy P, class List, row_batch Target, draft_row_batch Draft>
void verify_batch(P const& policy, any_method_of<List> const& method, any_drafted_batch const& drafts,
                  target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                  verdict_batch const& out, workspace const& scratch = {}) {
    using calls = detail::verify_batch_of<P, Target, Draft>;
    detail::check_law(method, drafts);
    detail::table_of<calls, List>[method.index()](policy, drafts.trees, target, draft, requests, out, scratch);
}

/// Validates a batch, its rows included: `validate_batch` with the law of the method. Also throws `invalid_input` for
/// trees of another law.
template <host_policy P, class List, row_batch Target, draft_row_batch Draft>
void validate_batch(P const& policy, any_method_of<List> const& method, any_drafted_batch const& drafts,
                    target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                    validation_report* report) {
    using calls = detail::validate_batch_of<P, Target, Draft>;
    detail::check_law(method, drafts);
    detail::table_of<calls, List>[method.index()](policy, drafts.trees, target, draft, requests, report);
}

/// Draws the children of the nodes of a level on host threads with the sampler of a method chosen by name:
/// `draft_batch` with that sampler. Also throws `invalid_input` for methods of several draft models.
template <host_policy P, class List, logit_row_batch Rows>
void draft_batch(P const& policy, any_method_of<List> const& method, level_batch const& level,
                 draft_rows<Rows> const& rows, request_batch const& requests, children_batch const& out) {
    using calls = detail::draft_batch_of<P, Rows>;
    detail::table_of<calls, List>[method.index()](policy, level, rows, requests, out);
}

}  // namespace MULTIDRAFT_NAMESPACE
