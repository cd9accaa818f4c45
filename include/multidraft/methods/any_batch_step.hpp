// A step of a batch whose requests name their methods at run time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/any_method.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// The methods of a step in which each request has one of a list.
template <class List>
struct methods_of_requests {
    using choice = any_method_of<List>;

    [[nodiscard]] static bool counts_certain(choice const& method) noexcept { return method.counts_certain(); }
    [[nodiscard]] static bool reads_draft(choice const& method) noexcept { return method.reads_draft(); }
    [[nodiscard]] static allowed_trees trees(choice const& method) noexcept { return method.trees(); }
    template <class P, class Rows>
    static void draw(choice const& method, P const& policy, level_batch const& level, Rows const& q,
                     request_batch const& requests, children_batch const& out) {
        draft_batch(policy, method, level, draft_rows(q), requests, out);
    }
    template <class P>
    [[nodiscard]] static std::size_t workspace_size(choice const& method, P const& policy, std::int32_t requests,
                                                    node_id nodes, std::int32_t depth) {
        return verify_workspace_size(policy, method, requests, nodes, depth);
    }
    template <class P, class Target, class Draft>
    static void verify(choice const& method, P const& policy, tree_batch const& trees, Target const& p, Draft const& q,
                       request_batch const& requests, verdict_batch const& out, workspace const& scratch) {
        verify_batch(policy, method, any_drafted_batch{trees, method.law_name()}, target_rows(p), draft_rows(q),
                     requests, out, scratch);
    }
};

}  // namespace detail

/// A `batch_step` in which each request names its method: `step.add({..}, parse_method("traversal/sequential"))`;
/// without one it has the first of the list. Requests of one method that follow one another are drawn and verified in
/// one call, so engines add them together. The calls of the models are those of all requests. Each request has the text
/// that its method gives it alone.
///
/// The tables compile every method of the list for each type of rows: see `any_method_of`. `step.draw` throws
/// `invalid_input` for methods of several draft models.
template <class List>
using any_batch_step_of = basic_batch_step<detail::methods_of_requests<List>>;

/// Of the methods for engines.
using any_batch_step = any_batch_step_of<methods::for_engines>;

}  // namespace MULTIDRAFT_NAMESPACE
