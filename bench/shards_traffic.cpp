// The collective calls and bytes of verifying trees on ranks, counted exactly, with threads as ranks. See
// bench/shards_traffic.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/shards.hpp"
#include "sharded/step.hpp"
#include "support/thread_ranks.hpp"

namespace {

using namespace multidraft;
using examples::generated_rows;
using examples::sharded_options;
using examples::trees_of_step;

/// Nodes share this many rows, so that large batches fit into memory. The data of every node is sent nevertheless.
constexpr std::int64_t distinct_rows = 16;

struct result {
    std::uint64_t calls = 0;
    std::uint64_t received = 0;  ///< by the rank that receives the most
    std::uint64_t gathered = 0;  ///< the same with whole rows gathered
};

template <class Method>
result traffic_of(sharded_options const& options, int ranks) {
    using verifier = typename Method::verifier;
    trees_of_step drawn(options);
    std::int64_t const nodes = drawn.trees().nodes;
    generated_rows const draft(options.seed, distinct_rows, 0, options.vocabulary, true);
    logit_batch<generated_rows::entry> q{draft.data(), options.vocabulary, options.vocabulary, nullptr,
                                         nullptr,      options.sampling};
    std::vector<std::int64_t> row_of_node(static_cast<std::size_t>(nodes));
    for (std::size_t i = 0; i < row_of_node.size(); ++i) row_of_node[i] = static_cast<std::int64_t>(i) % distinct_rows;
    host_threads const pool(1);
    drawn.draw_levels([&](level_batch const& level, std::int64_t const* node_of, children_batch const& out) {
        std::vector<std::int64_t> row_of_entry;
        for (std::int32_t e = 0; e < level.entries; ++e) row_of_entry.push_back(node_of[e] % distinct_rows);
        auto of_level = q;
        of_level.row_of = row_of_entry.data();
        draft_batch(pool, typename Method::sampler{}, level, draft_rows(of_level), drawn.requests(), out);
    });
    q.row_of = row_of_node.data();
    result found;
    std::mutex one_at_a_time;
    testing::run_ranks(ranks, [&](testing::thread_rank& rank) {
        shards::column_range const mine = shards::even_columns(options.vocabulary, ranks, rank.rank());
        generated_rows const target(options.seed, distinct_rows, mine.begin, mine.end, false);
        shards::shard_batch<generated_rows::entry> const p{target.data(),      target.columns(), options.vocabulary,
                                                           row_of_node.data(), nullptr,          options.sampling};
        shards::rank_team team(rank, mine);
        trees_of_step step = drawn;
        verify::scratch_memory memory;
        auto const scratch = memory.of(
            verify_workspace_size<verifier>(team, options.requests, step.shape().size(), step.shape().max_depth()));
        verify_batch(team, verifier{}, drawn_by<typename verifier::law>(step.trees()), target_rows(p), draft_rows(q),
                     step.requests(), step.verdicts(), scratch);
        std::scoped_lock const lock(one_at_a_time);
        auto const whole = static_cast<std::uint64_t>(options.vocabulary - mine.size()) *
                           sizeof(generated_rows::entry) * static_cast<std::uint64_t>(nodes);
        found.calls = team.sent().calls;
        found.received = std::max(found.received, team.sent().received);
        found.gathered = std::max(found.gathered, whole);
    });
    return found;
}

result traffic_of(sharded_options const& options, int ranks) {
    using namespace methods;
    for (auto const& [name, of] :
         {std::pair{nested_ranked_block_iid::name, &traffic_of<nested_ranked_block_iid>},
          std::pair{nested_ranked_block_stratified::name, &traffic_of<nested_ranked_block_stratified>},
          std::pair{recursive_rejection_sequential::name, &traffic_of<recursive_rejection_sequential>},
          std::pair{naive_sequential::name, &traffic_of<naive_sequential>}})
        if (options.method == name) return of(options, ranks);
    throw std::runtime_error(options.method + ": not one of the methods here");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 9) {
        std::fprintf(stderr, "shards_traffic METHOD TREE REQUESTS RANKS VOCABULARY TEMPERATURE TOP_K TOP_P\n");
        return 2;
    }
    try {
        sharded_options options;
        options.method = argv[1];
        options.tree = argv[2];
        options.requests = static_cast<std::int32_t>(std::stoi(argv[3]));
        int const ranks = std::stoi(argv[4]);
        options.vocabulary = static_cast<index_t>(std::stoi(argv[5]));
        options.sampling = {.temperature = std::stof(argv[6]),
                            .top_k = static_cast<index_t>(std::stoi(argv[7])),
                            .top_p = std::stof(argv[8])};
        result const found = traffic_of(options, ranks);
        std::printf("%llu,%llu,%llu\n", static_cast<unsigned long long>(found.calls),
                    static_cast<unsigned long long>(found.received), static_cast<unsigned long long>(found.gathered));
    } catch (std::exception const& e) {
        std::fprintf(stderr, "shards_traffic: %s\n", e.what());
        return 1;
    }
    return 0;
}
