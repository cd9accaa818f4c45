// Drawing and verifying the trees of a step, by the same code on a host and on ranks.
#pragma once

#include <chrono>
#include <cstdint>

#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/verify/verifier.hpp"
#include "sharded/step.hpp"
#include "with_method.hpp"

namespace multidraft::examples {

/// Draws the trees from the rows q by the method of the options, calls `drawn()`, and verifies them. `policy` is passed
/// to `draft_batch` and `verify_batch`. The result has the tokens, and the seconds of the verification alone. Throws
/// `std::runtime_error` for a method that does not exist or does not accept trees of this shape.
template <class Policy, class P, class Q, class Drawn>
sharded_result draw_and_verify(Policy& policy, sharded_options const& options, P const& p, Q const& q,
                               trees_of_step& step, Drawn const& drawn) {
    sharded_result result;
    with_method(options.method, step.shape(), [&](auto method) {
        using verifier = typename decltype(method)::verifier;
        step.draw_levels([&](level_batch const& level, std::int64_t const* row_of, children_batch const& out) {
            Q of_level = q;
            of_level.row_of = row_of;
            draft_batch(policy, typename decltype(method)::sampler{}, level, draft_rows(of_level), step.requests(),
                        out);
        });
        verify::scratch_memory memory;
        auto const bytes = memory.of(
            verify_workspace_size<verifier>(policy, options.requests, step.shape().size(), step.shape().max_depth()));
        drawn();
        auto const begin = std::chrono::steady_clock::now();
        verify_batch(policy, verifier{}, drawn_by<typename verifier::law>(step.trees()), target_rows(p), draft_rows(q),
                     step.requests(), step.verdicts(), bytes);
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
    step.emitted(result);
    return result;
}

}  // namespace multidraft::examples
