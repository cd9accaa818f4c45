// The step on one host, with whole rows.
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "sharded/draw_and_verify.hpp"
#include "sharded/step.hpp"

namespace multidraft::examples {

sharded_result run_on_host(sharded_options const& options) {
    trees_of_step step(options);
    host_threads const pool(1);
    generated_rows const target(options.seed, step.trees().nodes, 0, options.vocabulary, false);
    generated_rows const draft(options.seed, step.trees().nodes, 0, options.vocabulary, true);
    using rows = logit_batch<generated_rows::entry>;
    rows const p{target.data(), options.vocabulary, options.vocabulary, nullptr, nullptr, options.sampling};
    rows const q{draft.data(), options.vocabulary, options.vocabulary, nullptr, nullptr, options.sampling};
    return draw_and_verify(pool, options, p, q, step, [] {});
}

}  // namespace multidraft::examples
