// Errors on one rank: all ranks throw the same error, and none waits for another. Also communicators that only gather.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/validate.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace faults_test {
namespace {

TEST(shard_columns, follow_one_another) {
    using range = shards::column_range;
    auto const map_of = [](std::vector<range> const& ranges) { return shards::column_map(ranges); };
    // Ranges that end inside of chunks, ranks without columns, and a rank with columns of an earlier rank's chunk only.
    auto const map = map_of({{0, 100}, {100, 100}, {100, 4000}, {4000, 4100}, {4100, 13000}, {13000, 13000}});
    EXPECT_EQ(map.vocabulary(), 13000);
    EXPECT_EQ(map.owner(0), 0);
    EXPECT_EQ(map.owner(1), 3);
    EXPECT_EQ(map.owner(2), 4);
    EXPECT_EQ(map.owner(3), 4);
    EXPECT_EQ(map.rank_of_column(99), 0);
    EXPECT_EQ(map.rank_of_column(100), 2);
    EXPECT_EQ(map.rank_of_column(12999), 4);
    EXPECT_EQ(map.columns_to_receive(0), (range{100, 4096}));
    EXPECT_EQ(map.columns_to_send(2), (range{100, 4000}));
    EXPECT_EQ(map.columns_to_send(3), (range{4000, 4096}));
    EXPECT_EQ(map.columns_to_receive(3), (range{4100, 8192}));
    EXPECT_EQ(map.columns_to_send(4), (range{4100, 8192}));
    EXPECT_EQ(map.columns_to_receive(4), (range{13000, 13000}));
    index_t chunks = 0;
    for (int r = 0; r < map.ranks(); ++r) {
        EXPECT_EQ(map.chunks(r, 13000).begin, chunks);
        chunks = map.chunks(r, 13000).end;
    }
    EXPECT_EQ(chunks, chunks_of(13000));
    EXPECT_THROW(map_of({}), invalid_input);
    EXPECT_THROW(map_of({{0, 10}, {11, 20}}), invalid_input);
    EXPECT_THROW(map_of({{0, 10}, {10, 9}}), invalid_input);
    EXPECT_THROW(map_of({{0, 0}}), invalid_input);
    for (int const ranks : {1, 2, 3, 5, 8}) {
        index_t end = 0;
        for (int r = 0; r < ranks; ++r) {
            EXPECT_EQ(shards::even_columns(50257, ranks, r).begin, end);
            end = shards::even_columns(50257, ranks, r).end;
        }
        EXPECT_EQ(end, 50257);
    }
}

/// Columns are exchanged by gathering if the communicator has no `start_all_to_all`.
TEST(shard_verify, needs_no_more_than_gathering) {
    ragged<float> b(ragged_shapes, 9001, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    verify::recursive_rejection<law::sequential> const verifier;
    auto const expected = b.verify_alone<silent_group>(verifier);
    std::mutex one_at_a_time;
    run_ranks(5, [&](thread_rank& rank) {
        plain_thread_rank plain(rank);
        shards::rank_team team(plain, columns_by(cut::uneven, b.vocabulary, 5, rank.rank()));
        auto const made = verify_on<sharded::both>(team, verifier, b);
        std::scoped_lock const lock(one_at_a_time);
        EXPECT_EQ(made, expected);
    });
}

/// The error that `body` throws, which must be the same on all ranks.
template <class Body>
std::string error_of_all(int ranks, Body const& body) {
    std::vector<std::string> said(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](thread_rank& rank) {
        try {
            body(rank);
        } catch (invalid_input const& e) {
            said[static_cast<std::size_t>(rank.rank())] = e.what();
        }
    });
    for (std::string const& s : said) EXPECT_EQ(s, said[0]);
    return said[0];
}

/// A rank whose calls move a few bytes at most.
struct limited_rank {
    thread_rank* all;

    [[nodiscard]] int rank() const { return all->rank(); }
    [[nodiscard]] int size() const { return all->size(); }
    void all_gather(void const* from, std::size_t bytes, void* to) { all->all_gather(from, bytes, to); }
    void all_reduce(span<std::uint64_t> numbers) { all->all_reduce(numbers); }
    void start_all_to_all(void const* from, span<std::size_t const> sent, void* to, span<std::size_t const> received) {
        all->start_all_to_all(from, sent, to, received);
    }
    [[nodiscard]] static bool test() { return true; }
    static void wait() {}
    [[nodiscard]] static std::size_t most_bytes() { return 5000; }
};

TEST(shard_verify, refuses_on_all_ranks_what_one_cannot_move) {
    ragged<float> b(ragged_shapes, 9001, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    // Of these the second rank lacks nothing: without a word of the others it would wait for them.
    std::string const said = error_of_all(3, [&](thread_rank& rank) {
        limited_rank limited{&rank};
        shards::rank_team team(limited, columns_by(cut::uneven, b.vocabulary, 3, rank.rank()));
        static_cast<void>(verify_on<sharded::both>(team, verify::recursive_rejection<law::sequential>{}, b));
    });
    EXPECT_EQ(said.substr(0, 8), "count = ") << said;
    EXPECT_NE(said.find("a call of the communicator moves 5000 bytes at most, rank "), std::string::npos) << said;
}

TEST(shard_verify, refuses_on_all_ranks_what_is_wrong_on_one) {
    verify::recursive_rejection<law::sequential> const verifier;
    ragged<float> good(ragged_shapes, 9001, samplings_of_all_kinds);
    good.draw_alone(draft::sequential{});
    auto const with = [&](shards::team_checks checks, auto const& change) {
        return error_of_all(3, [&](thread_rank& rank) {
            ragged<float> mine = good;
            change(mine, rank.rank());
            shards::rank_team team(rank, columns_by(cut::even, good.vocabulary, 3, rank.rank()), checks);
            static_cast<void>(verify_on<sharded::both>(team, verifier, mine));
        });
    };
    using shards::team_checks;
    auto const on = [](int rank, auto const& change) {
        return [rank, change](ragged<float>& b, int r) {
            if (r == rank) change(b);
        };
    };
    EXPECT_EQ(with(team_checks::arguments, on(1, [](ragged<float>&) {})), "");
    EXPECT_EQ(with(team_checks::arguments, on(1, [](ragged<float>& b) { b.seeds[3] = 5; })),
              "requests[1] = not those of rank 0: all ranks are called with the same trees, requests and sampling "
              "parameters; the index is the rank");
    EXPECT_EQ(with(team_checks::arguments, on(2, [](ragged<float>& b) { b.tokens[4] = (b.tokens[4] + 1) % 9000; }))
                  .substr(0, 8),
              "trees[2]");
    EXPECT_EQ(
        with(team_checks::arguments, on(0, [](ragged<float>& b) { b.sampling[0].temperature = 0.5F; })).substr(0, 9),
        "target[1]");
    EXPECT_EQ(with(team_checks::arguments, on(2, [](ragged<float>& b) { b.parents[1] = 7; })),
              "parents[1] = 7: a parent comes before its child, and parents never decrease, request 0, rank 2");
    EXPECT_EQ(with(team_checks::arguments, on(1, [](ragged<float>& b) { b.vocabulary = 9000; })).substr(0, 24),
              "target.vocabulary = 9000");
    // A row that is not a distribution, by one rank's columns: it affects its request, or is an error on all ranks.
    float const bad = std::numeric_limits<float>::quiet_NaN();
    auto const spoil = on(1, [&](ragged<float>& b) { b.target[4000] = bad; });
    EXPECT_EQ(with(team_checks::arguments, spoil), "");
    EXPECT_EQ(with(team_checks::rows, spoil),
              "target[0] = nan: the row of this node is not a distribution (token 4000), request 0");
    std::mutex one_at_a_time;
    run_ranks(3, [&](thread_rank& rank) {
        ragged<float> mine = good;
        if (rank.rank() == 1) mine.target[4000] = bad;
        shards::rank_team team(rank, columns_by(cut::even, good.vocabulary, 3, rank.rank()));
        auto const made = verify_on<sharded::both>(team, verifier, mine);
        std::scoped_lock const lock(one_at_a_time);
        EXPECT_EQ(made[0], outcome{});
        auto expected = good.verify_alone<silent_group>(verifier);
        expected[0] = {};
        EXPECT_EQ(made, expected);
    });
}

/// Rows and slots are a rank's own: where they are at fault on one, all ranks report it, and none waits.
TEST(shard_validate, reports_on_all_ranks_what_is_wrong_on_one) {
    ragged<float> good(ragged_shapes, 9001, samplings_of_all_kinds);
    good.draw_alone(draft::sequential{});
    auto const reported = [&](shards::team_checks checks, auto const& change) {
        std::vector<validation_report> all(3);
        run_ranks(3, [&](thread_rank& rank) {
            auto const r = static_cast<std::size_t>(rank.rank());
            shards::rank_team team(rank, columns_by(cut::even, good.vocabulary, 3, rank.rank()), checks);
            shards::column_range const mine = team.columns().of(team.rank());
            columns_of_rows<float> const p(good.target, good.vocabulary, mine, good.sampling.data());
            columns_of_rows<float> const q(good.draft, good.vocabulary, mine, good.sampling.data());
            auto target = p.view();
            auto requests = good.requests();
            std::vector<std::int64_t> rows(static_cast<std::size_t>(good.trees().nodes));
            std::iota(rows.begin(), rows.end(), 0);
            std::vector<std::int32_t> slots(static_cast<std::size_t>(good.trees().requests));
            std::iota(slots.begin(), slots.end(), 0);
            target.row_of = rows.data();
            requests.slot_of = slots.data();
            if (rank.rank() == 1) change(rows, slots);
            validate_batch(team, tree_rules{}, drawn_by<law::sequential>(good.trees()), target_rows(target),
                           draft_rows(q.view()), requests, &all[r]);
        });
        for (auto const& one : all) {
            EXPECT_EQ(one.what, all[0].what);
            EXPECT_EQ(one.request, all[0].request);
            EXPECT_EQ(one.index, all[0].index);
            EXPECT_EQ(one.value, all[0].value);
        }
        return all[0];
    };
    using shards::team_checks;
    for (team_checks const checks : {team_checks::none, team_checks::arguments}) {
        EXPECT_EQ(reported(checks, [](auto const&, auto const&) {}).what, batch_argument::nothing);
        EXPECT_EQ(reported(checks, [](auto& rows, auto const&) { rows[4] = -1; }).what, batch_argument::target_row_of);
        EXPECT_EQ(reported(checks, [](auto const&, auto& slots) { slots[2] = -7; }).what, batch_argument::slot_of);
    }
}

}  // namespace
}  // namespace faults_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
