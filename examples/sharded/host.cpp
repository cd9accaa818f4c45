// The step on one host, whose rows are whole.
#include <chrono>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "sharded/step.hpp"

namespace multidraft::examples {

sharded_result run_on_host(sharded_options const& options) {
    sharded_result result;
    trees_of_step step(options);
    host_threads const pool(1);
    made_up_rows const target(options.seed, step.trees().nodes, 0, options.vocabulary, false);
    made_up_rows const draft(options.seed, step.trees().nodes, 0, options.vocabulary, true);
    using rows = logit_batch<made_up_rows::entry>;
    rows const p{target.data(), options.vocabulary, options.vocabulary, nullptr, nullptr, options.sampling};
    rows q{draft.data(), options.vocabulary, options.vocabulary, nullptr, nullptr, options.sampling};
    with_method(options.method, parse_shape(options.tree), [&](auto method) {
        using verifier = typename decltype(method)::verifier;
        step.draw_levels([&](level_batch const& level, std::int64_t const* row_of, children_batch const& out) {
            rows of_level = q;
            of_level.row_of = row_of;
            draft_batch(pool, typename decltype(method)::sampler{}, level, draft_rows(of_level), step.requests(), out);
        });
        verify::scratch_memory memory;
        auto const bytes =
            memory.of(verify_workspace_size<verifier>(pool, options.requests, step.nodes_of_one(), step.depth()));
        auto const begin = std::chrono::steady_clock::now();
        verify_batch(pool, verifier{}, drawn_by<typename verifier::law>(step.trees()), target_rows(p), draft_rows(q),
                     step.requests(), step.verdicts(), bytes);
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
    step.emitted(result);
    return result;
}

}  // namespace multidraft::examples
