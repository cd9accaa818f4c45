// A ragged batch of which every rank has some columns, and its verification on ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/shards/verify.hpp"
#include "multidraft/testing/small_step.hpp"
#include "support/thread_ranks.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The columns of one rank, of all rows, with padding between rows.
template <class T>
class columns_of_rows {
public:
    columns_of_rows(std::vector<T> const& matrix, index_t v, shards::column_range mine, sampling_params const* sampling)
        : stride_(mine.size() + 3), vocabulary_(v), sampling_(sampling) {
        auto const rows = static_cast<std::int64_t>(matrix.size()) / v;
        for (std::int64_t r = 0; r < rows; ++r) {
            auto const first = matrix.begin() + r * v;
            data_.insert(data_.end(), first + mine.begin, first + mine.end);
            data_.resize(static_cast<std::size_t>((r + 1) * stride_), entry_of<T>(1e30));
        }
        if (mine.size() == 0) data_.clear();
    }

    [[nodiscard]] shards::shard_batch<T> view() const {
        return {data_.empty() ? nullptr : data_.data(), stride_, vocabulary_, nullptr, sampling_};
    }

private:
    std::vector<T> data_;
    std::int64_t stride_;
    index_t vocabulary_;
    sampling_params const* sampling_;
};

/// The models whose rows are distributed.
enum class sharded { target, both };

/// Verifies a batch on a rank and returns the verdicts.
template <sharded What, class Verifier, class T, shards::communicator C>
[[nodiscard]] std::vector<outcome> verify_on(shards::rank_team<C>& team, Verifier const& verifier, ragged<T> const& b,
                                             std::int64_t stride = 0) {
    shards::column_range const mine = team.columns().of(team.rank());
    columns_of_rows<T> const p(b.target, b.vocabulary, mine, b.sampling.data());
    verify::scratch_memory memory;
    verdict_memory out(b.trees(), stride);
    auto const bytes = memory.of(verify_workspace_size<Verifier>(team, b.size(), 16, 15));
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    if constexpr (What == sharded::both) {
        columns_of_rows<T> const q(b.draft, b.vocabulary, mine, b.sampling.data());
        verify_batch(team, verifier, drawn_by<typename Verifier::law>(b.trees()), target_rows(p.view()),
                     draft_rows(q.view()), b.requests(), out.view(), bytes);
    } else {
        verify_batch(team, verifier, drawn_by<typename Verifier::law>(b.trees()), target_rows(p.view()),
                     draft_rows(b.draft_logits()), b.requests(), out.view(), bytes);
    }
    return out.outcomes(b.trees());
}

/// Expects on all ranks the verdicts of the host for each request alone.
template <sharded What, class T, class Verifier>
void expect_verdicts_of_host(Verifier const& verifier, ragged<T> const& b, int ranks, cut how,
                             std::string const& name) {
    SCOPED_TRACE(name + ": " + std::to_string(b.vocabulary) + " columns on " + std::to_string(ranks) + " ranks, cut " +
                 std::to_string(static_cast<int>(how)));
    auto const expected = b.template verify_alone<silent_group>(verifier);
    std::mutex one_at_a_time;
    run_ranks(ranks, [&](thread_rank& rank) {
        shards::rank_team team(rank, columns_by(how, b.vocabulary, ranks, rank.rank()));
        auto const first = verify_on<What>(team, verifier, b);
        auto const again = verify_on<What>(team, verifier, b, 9);
        std::scoped_lock const lock(one_at_a_time);
        EXPECT_EQ(first, expected) << "rank " << rank.rank();
        EXPECT_EQ(again, expected) << "rank " << rank.rank();
    });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
