// Common parts of a team's calls: assigning rows to the team, completing them, and comparing arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/shards/detail/agreement.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/candidates.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// Refuses rows in shards that do not match their team. The checks of every batch call this overload.
template <class T, class Layout>
void refuse_bad_extents(shard_batch<T, Layout> const& rows, char const* name) {
    index_t const all = rows.ranks->columns().vocabulary();
    if (rows.vocabulary != all)
        refuse(std::string(name) + ".vocabulary", rows.vocabulary,
               "the columns of all ranks are " + std::to_string(all));
    multidraft::detail::refuse_bad_stride<Layout>(rows.row_stride, rows.ranks->columns().of(rows.ranks->rank()).size(),
                                                  (std::string(name) + ".row_stride").c_str());
    if (rows.data == nullptr && rows.ranks->columns().of(rows.ranks->rank()).size() > 0)
        refuse(std::string(name) + ".data", "null", "this array is read or written");
}

namespace detail {

template <class Rows>
inline constexpr bool is_shard_batch = false;
template <class T, class Layout>
inline constexpr bool is_shard_batch<shard_batch<T, Layout>> = true;

/// Lists the nodes whose rows of a model may be read, and the entries that all ranks need: at the children's tokens.
inline void list_rows(tree_batch const& trees, batch_argument model, index_t vocabulary,
                      std::vector<std::int64_t>& nodes, std::vector<row_entry>& entries) {
    nodes.clear();
    entries.clear();
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        tree_view const tree = trees(b);
        std::int64_t const first = trees.offsets[b];
        for (node_id v = 0; v < tree.size(); ++v) {
            if (multidraft::detail::may_be_read(tree, model, v)) nodes.push_back(first + v);
            token_id const x = tree.tokens[v];
            if (v > 0 && x >= 0 && x < vocabulary && verify::is_present(tree, v))
                entries.push_back({first + tree.parents[v], x});
        }
    }
}

/// The argument of `rank_team::complete` for these rows: `no_rows` if they are on every rank.
template <class Team, class Rows, class Memory>
[[nodiscard]] auto to_complete(Rows& rows, Memory& memory) {
    if constexpr (is_shard_batch<Rows>)
        return incomplete_rows<typename Rows::element, typename Rows::layout_type>{
            &rows, span<std::int64_t const>(memory.nodes), span<row_entry const>(memory.entries), &memory.tails};
    else
        return typename Team::no_rows{};
}

/// Assigns rows in shards to their team. `first_row` numbers their keys, so that those of two models differ.
template <class Rows>
void join_team([[maybe_unused]] Rows& rows, [[maybe_unused]] exchange& ranks, [[maybe_unused]] std::int64_t first_row) {
    if constexpr (is_shard_batch<Rows>) {
        rows.ranks = &ranks;
        rows.first_row = static_cast<std::uint32_t>(first_row);
    }
}

/// Begins to complete the rows of both models.
template <class Team, class Target, class Draft>
void start_completing(Team& team, tree_batch const& trees, Target& target, Draft& draft) {
    list_rows(trees, batch_argument::target, target.vocabulary, team.target_memory.nodes, team.target_memory.entries);
    list_rows(trees, batch_argument::draft, target.vocabulary, team.draft_memory.nodes, team.draft_memory.entries);
    team.start_completing(to_complete<Team>(target, team.target_memory), to_complete<Team>(draft, team.draft_memory));
}
/// Finishes what `start_completing` began.
template <class Team, class Target, class Draft>
void finish_completing(Team& team, Target& target, Draft& draft) {
    team.finish_completing(to_complete<Team>(target, team.target_memory), to_complete<Team>(draft, team.draft_memory));
}

/// A function that writes the checksums of a call with trees. It is called when the checks have passed.
template <class Target, class Draft>
[[nodiscard]] auto summary_of(tree_batch const& trees, request_batch const& requests, Target const& target,
                              Draft const& draft) {
    return [&trees, &requests, &target, &draft](argument_summary& mine) {
        mine.sums = {checksum_of_trees(trees), checksum_of_requests(requests, trees.requests),
                     checksum_of_rows(target, trees.requests), checksum_of_rows(draft, trees.requests), 0};
    };
}

/// Calls `check`, which refuses invalid arguments of this rank, then `state`, which writes their checksums or a fault.
/// Throws on all ranks if one throws, or if checksums differ. Returns on all ranks the report of the first fault.
template <class State, class Check>
validation_report agree_always(exchange& ranks, State const& state, Check const& check) {
    argument_summary mine;
    try {
        check();
        state(mine);
    } catch (invalid_input const& e) {
        mine.set(e);
    }
    return agree(ranks, mine);
}

/// `agree_always`; with `team_checks::none` only `check` is called.
template <class Team, class State, class Check>
void agree(Team& team, State const& state, Check const& check) {
    if (team.checks() == team_checks::none)
        check();
    else
        agree_always(team, state, check);
}

}  // namespace detail
}  // namespace MULTIDRAFT_NAMESPACE::shards
