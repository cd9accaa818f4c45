// The step on MPI ranks, each with some columns of every row.
#include "sharded/ranks.hpp"

#include <algorithm>

#include "multidraft/batch/row_batch.hpp"
#include "multidraft/shards.hpp"
#include "sharded/draw_and_verify.hpp"

namespace multidraft::examples {

namespace {

using entry = generated_rows::entry;

template <class Draft>
sharded_result run(shards::rank_team<mpi::communicator>& team, sharded_options const& options,
                   shards::shard_batch<entry> const& p, Draft const& q, trees_of_step& step) {
    shards::traffic before{};
    sharded_result result = draw_and_verify(team, options, p, q, step, [&] { before = team.sent(); });
    result.calls = team.sent().calls - before.calls;
    result.bytes = team.sent().received - before.received;
    return result;
}

}  // namespace

sharded_result run_on_ranks(mpi::communicator& ranks, sharded_options const& options) {
    shards::column_range const mine = shards::even_columns(options.vocabulary, ranks.size(), ranks.rank());
    shards::rank_team team(ranks, mine);
    trees_of_step step(options);
    std::int64_t const nodes = step.trees().nodes;
    generated_rows const target(options.seed, nodes, mine.begin, mine.end, false);
    shards::shard_batch<entry> const p{target.data(), target.columns(), options.vocabulary,
                                       nullptr,       nullptr,          options.sampling};
    sharded_result result;
    if (options.draft_in_shards) {
        generated_rows const draft(options.seed, nodes, mine.begin, mine.end, true);
        shards::shard_batch<entry> const q{draft.data(), draft.columns(), options.vocabulary,
                                           nullptr,      nullptr,         options.sampling};
        result = run(team, options, p, q, step);
    } else {
        generated_rows const draft(options.seed, nodes, 0, options.vocabulary, true);
        logit_batch<entry> const q{draft.data(), options.vocabulary, options.vocabulary, nullptr,
                                   nullptr,      options.sampling};
        result = run(team, options, p, q, step);
    }
    auto const rows = static_cast<std::uint64_t>(nodes) * (options.draft_in_shards ? 2 : 1);
    result.gathered = static_cast<std::uint64_t>(options.vocabulary - mine.size()) * sizeof(entry) * rows;
    // The maximum over the ranks.
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
