// The step on ranks of which each has some columns of every row.
#include "sharded/ranks.hpp"

#include <algorithm>
#include <chrono>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/shards.hpp"

namespace multidraft::examples {

namespace {

using entry = made_up_rows::entry;

template <class Draft>
sharded_result run(shards::rank_team<mpi::communicator>& team, sharded_options const& options,
                   shards::shard_batch<entry> const& p, Draft const& q, trees_of_step& step) {
    sharded_result result;
    with_method(options.method, parse_shape(options.tree), [&](auto method) {
        using verifier = typename decltype(method)::verifier;
        step.draw_levels([&](level_batch const& level, std::int64_t const* row_of, children_batch const& out) {
            Draft of_level = q;
            of_level.row_of = row_of;
            draft_batch(team, typename decltype(method)::sampler{}, level, draft_rows(of_level), step.requests(), out);
        });
        verify::scratch_memory memory;
        auto const bytes =
            memory.of(verify_workspace_size<verifier>(team, options.requests, step.nodes_of_one(), step.depth()));
        shards::traffic const before = team.sent();
        auto const begin = std::chrono::steady_clock::now();
        verify_batch(team, verifier{}, drawn_by<typename verifier::law>(step.trees()), target_rows(p), draft_rows(q),
                     step.requests(), step.verdicts(), bytes);
        result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        result.calls = team.sent().calls - before.calls;
        result.bytes = team.sent().received - before.received;
    });
    step.emitted(result);
    return result;
}

}  // namespace

sharded_result run_on_ranks(mpi::communicator& ranks, sharded_options const& options) {
    shards::column_range const mine = shards::even_columns(options.vocabulary, ranks.size(), ranks.rank());
    shards::rank_team team(ranks, mine);
    trees_of_step step(options);
    std::int64_t const nodes = step.trees().nodes;
    made_up_rows const target(options.seed, nodes, mine.begin, mine.end, false);
    shards::shard_batch<entry> const p{target.data(), target.columns(), options.vocabulary,
                                       nullptr,       nullptr,          options.sampling};
    sharded_result result;
    if (options.draft_in_shards) {
        made_up_rows const draft(options.seed, nodes, mine.begin, mine.end, true);
        shards::shard_batch<entry> const q{draft.data(), draft.columns(), options.vocabulary,
                                           nullptr,      nullptr,         options.sampling};
        result = run(team, options, p, q, step);
    } else {
        made_up_rows const draft(options.seed, nodes, 0, options.vocabulary, true);
        logit_batch<entry> const q{draft.data(), options.vocabulary, options.vocabulary, nullptr,
                                   nullptr,      options.sampling};
        result = run(team, options, p, q, step);
    }
    auto const rows = static_cast<std::uint64_t>(nodes) * (options.draft_in_shards ? 2 : 1);
    result.gathered = static_cast<std::uint64_t>(options.vocabulary - mine.size()) * sizeof(entry) * rows;
    // What the rank says that has the most.
    std::uint64_t const own[] = {result.bytes, result.gathered};
    std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(own, sizeof own, all.data());
    for (std::size_t r = 0; r < all.size(); r += 2) {
        result.bytes = std::max(result.bytes, all[r]);
        result.gathered = std::max(result.gathered, all[r + 1]);
    }
    return result;
}

}  // namespace multidraft::examples
