// Trees drawn and verified on MPI ranks: the tokens of one host, errors that all ranks throw, and a rank that is
// late.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/mpi/communicator.hpp"
#include "multidraft/shards/draft.hpp"
#include "multidraft/shards/validate.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

using team_of_mpi = shards::rank_team<mpi::communicator>;

TEST(mpi_communicator, exchanges_data) {
    mpi::communicator ranks;
    int const n = ranks.size();
    std::int32_t const mine = 10 + ranks.rank();
    std::vector<std::int32_t> all(static_cast<std::size_t>(n));
    ranks.all_gather(&mine, sizeof mine, all.data());
    for (int r = 0; r < n; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], 10 + r);
    std::vector<std::uint64_t> sums{1, std::uint64_t{1} << 62, static_cast<std::uint64_t>(ranks.rank())};
    ranks.all_reduce(sums);
    EXPECT_EQ(sums[0], static_cast<std::uint64_t>(n));
    EXPECT_EQ(sums[1], static_cast<std::uint64_t>(n) << 62);
    EXPECT_EQ(sums[2], static_cast<std::uint64_t>(n * (n - 1) / 2));
    // Rank r sends r + s bytes to rank s.
    std::vector<std::size_t> bytes;
    std::vector<char> from;
    for (int s = 0; s < n; ++s) {
        bytes.push_back(static_cast<std::size_t>(ranks.rank() + s));
        from.insert(from.end(), bytes.back(), static_cast<char>(ranks.rank()));
    }
    std::vector<char> to(from.size());
    ranks.start_all_to_all(from.data(), span<std::size_t const>(bytes), to.data(), span<std::size_t const>(bytes));
    ranks.wait();
    std::size_t at = 0;
    for (int r = 0; r < n; ++r)
        for (std::size_t k = 0; k < bytes[static_cast<std::size_t>(r)]; ++k) EXPECT_EQ(to[at++], static_cast<char>(r));
}

/// Draws and verifies trees on the ranks, and compares with the results of one host, which every rank computes itself.
/// tests/shards covers all methods and types of rows, on threads.
template <class T, class Sampler, class Verifier>
void expect_tokens_of_host(Sampler const& sampler, Verifier const& verifier, index_t v, std::uint64_t seed) {
    mpi::communicator ranks;
    ragged<T> alone(ragged_shapes, v, samplings_of_all_kinds, seed);
    ragged<T> b = alone;
    alone.draw_alone(sampler);
    cut const how = all_cuts[seed % std::size(all_cuts)];
    team_of_mpi team(ranks, columns_by(how, v, ranks.size(), ranks.rank()));
    columns_of_rows<T> const q(b.draft, v, team.columns().of(ranks.rank()), b.sampling.data());
    b.draw_levels([&](level_batch const& level, logit_batch<T> const& rows, request_batch const& requests,
                      children_batch const& out) {
        shards::shard_batch<T> mine = q.view();
        mine.row_of = rows.row_of;
        draft_batch(team, sampler, level, draft_rows(mine), requests, out);
    });
    EXPECT_EQ(b.tokens, alone.tokens);
    auto const expected = alone.template verify_alone<silent_group>(verifier);
    EXPECT_EQ(verify_on<sharded::both>(team, verifier, b), expected);
    EXPECT_EQ(verify_on<sharded::target>(team, verifier, b), expected);
}

TEST(mpi_verify, has_the_tokens_of_one_host) {
    using namespace verify;
    expect_tokens_of_host<float>(draft::sequential{}, recursive_rejection<law::sequential>{}, 9001, 1);
    expect_tokens_of_host<float>(draft::stratified{}, nested_ranked_block<law::stratified>{}, 9001, 3);
}

/// A verification makes progress while the rank does other work.
TEST(mpi_verify, works_while_the_rank_does) {
    mpi::communicator ranks;
    ragged<float> b(ragged_shapes, 9001, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    verify::recursive_rejection<law::sequential> const verifier;
    auto const columns = columns_by(cut::even, b.vocabulary, ranks.size(), ranks.rank());
    team_of_mpi team(ranks, columns);
    columns_of_rows<float> const p(b.target, b.vocabulary, columns, b.sampling.data());
    verdict_memory out(b.trees(), 0);
    {
        auto call = start_verify_batch(team, verifier, drawn_by<law::sequential>(b.trees()), target_rows(p.view()),
                                       draft_rows(b.draft_logits()), b.requests(), out.view());
        EXPECT_TRUE(out.is_unwritten());
        while (!call.test()) std::this_thread::yield();
        call.wait();
        EXPECT_TRUE(call.test());
        call.wait();
    }
    EXPECT_EQ(out.outcomes(b.trees()), b.verify_alone<silent_group>(verifier));
    // A call without `wait`.
    verdict_memory unwritten(b.trees(), 0);
    {
        auto const call =
            start_verify_batch(team, verifier, drawn_by<law::sequential>(b.trees()), target_rows(p.view()),
                               draft_rows(b.draft_logits()), b.requests(), unwritten.view());
    }
    EXPECT_TRUE(unwritten.is_unwritten());
    EXPECT_EQ(verify_on<sharded::target>(team, verifier, b), out.outcomes(b.trees()));
}

TEST(mpi_verify, has_the_tokens_of_one_host_in_random_cases) {
    test_numbers numbers(7);
    for (std::uint64_t k = 0; k < 6; ++k)
        expect_tokens_of_host<float>(draft::sequential{}, verify::recursive_rejection<law::sequential>{},
                                     static_cast<index_t>(1 + 20000 * numbers()), 10 + k);
}

/// A rank that starts late, a rank with another seed, a rank with a row that is not a distribution.
TEST(mpi_verify, ends_on_all_ranks) {
    mpi::communicator ranks;
    ragged<float> b(ragged_shapes, 9001, samplings_of_all_kinds);
    b.draw_alone(draft::sequential{});
    verify::recursive_rejection<law::sequential> const verifier;
    auto const columns = columns_by(cut::even, b.vocabulary, ranks.size(), ranks.rank());
    auto const expected = b.verify_alone<silent_group>(verifier);
    bool const is_last = ranks.rank() == ranks.size() - 1;
    if (is_last) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    team_of_mpi team(ranks, columns);
    EXPECT_EQ(verify_on<sharded::both>(team, verifier, b), expected);
    auto const error_of = [&](ragged<float> const& with, team_of_mpi& by) {
        try {
            static_cast<void>(verify_on<sharded::both>(by, verifier, with));
        } catch (invalid_input const& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    ragged<float> other = b;
    if (is_last) other.seeds[2] = 99;
    std::string const differs = "requests[" + std::to_string(ranks.size() - 1) + "] = not those of rank 0";
    std::string const said = error_of(other, team);
    EXPECT_EQ(said.substr(0, differs.size()), ranks.size() > 1 ? differs : "");
    ragged<float> bad = b;
    if (is_last) bad.target[9000] = std::numeric_limits<float>::quiet_NaN();
    auto without_first = expected;
    without_first[0] = {};
    EXPECT_EQ(verify_on<sharded::both>(team, verifier, bad), without_first);
    team_of_mpi strict(ranks, columns, shards::team_checks::rows);
    EXPECT_EQ(error_of(bad, strict),
              "target[0] = nan: the row of this node is not a distribution (token 9000), request 0");
    EXPECT_EQ(verify_on<sharded::both>(team, verifier, b), expected);
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
