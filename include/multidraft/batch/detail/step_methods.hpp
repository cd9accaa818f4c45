// The methods of a step of a batch whose requests all have one, and where its calls run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The methods of a step whose requests all have one: a sampler and a verifier.
template <sampler Sampler, verify::verifier Verifier>
struct one_method {
    using choice = std::monostate;
    Sampler sampler{};
    Verifier verifier{};

    [[nodiscard]] static constexpr bool counts_certain(choice) noexcept {
        return multidraft::counts_certain<typename Sampler::law>;
    }
    [[nodiscard]] static constexpr bool reads_draft(choice) noexcept {
        return multidraft::verify::reads_draft<Verifier>;
    }
    [[nodiscard]] static constexpr allowed_trees trees(choice) noexcept {
        return multidraft::verify::trees_of<Verifier>;
    }
    template <class P, class Rows>
    auto draw(choice, P const& policy, level_batch const& level, Rows const& q, request_batch const& requests,
              children_batch const& out, workspace const& scratch = {}) const {
        return draft_batch(policy, sampler, level, draft_rows(q), requests, out, scratch);
    }
    template <class P>
    [[nodiscard]] static std::size_t workspace_size(choice, P const& policy, std::int32_t requests, node_id nodes,
                                                    std::int32_t depth) {
        return verify_workspace_size<Verifier>(policy, requests, nodes, depth);
    }
    template <class P, class Target, class Draft>
    auto verify(choice, P const& policy, tree_batch const& trees, Target const& p, Draft const& q,
                request_batch const& requests, verdict_batch const& out, workspace const& scratch) const {
        auto const drafts = drawn_by<typename Sampler::law>(trees);
        if constexpr (multidraft::verify::reads_draft<Verifier>)
            return verify_batch(policy, verifier, drafts, target_rows(p), draft_rows(q), requests, out, scratch);
        else
            return verify_batch(policy, verifier, drafts, target_rows(p),
                                draft_rows(multidraft::verify::no_draft_rows{}), requests, out, scratch);
    }
};

/// Where the calls of a step run: on host threads, unless its methods name their policy.
template <class P, class Methods>
concept step_policy =
    (!requires { typename Methods::policy; } && host_policy<P>) || std::same_as<P, typename Methods::policy>;

/// Calls `call(k)` for 0 <= k < count, then `finish()`. The first error that a call returns is returned, and ends this.
template <class Call, class Finish>
auto in_turn(std::size_t count, Call const& call, Finish const& finish) {
    using error = decltype(call(std::size_t{}));
    for (std::size_t k = 0; k < count; ++k) {
        if constexpr (std::is_void_v<error>)
            call(k);
        else if (error const e = call(k); e != error())
            return e;
    }
    finish();
    return error();
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
