// Common parts of a team's calls: assigning rows to the team, completing them, and comparing arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/shards/exchange.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::shards::detail {

/// A 64-bit hash of values and arrays.
class checksum {
public:
    template <class T>
    void add(T const& x) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
        std::uint64_t bits = 0;
        std::memcpy(&bits, &x, sizeof x);
        sum_ = (sum_ ^ bits) * 0x9E3779B97F4A7C15U;
        sum_ ^= sum_ >> 29;
    }
    template <class T>
    void add(T const* data, std::int64_t count) {
        add(data == nullptr);
        if (data == nullptr) return;
        add(count);
        for (std::int64_t i = 0; i < count; ++i) add(data[i]);
    }
    void add(sampling_params const& w) {
        add(w.temperature);
        add(w.top_k);
        add(w.top_p);
        add(w.min_p);
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return sum_; }

private:
    std::uint64_t sum_ = 0x243F6A8885A308D3U;
};

/// What a rank sends about its arguments: their checksums, or an error, or the first fault that validation found.
struct argument_summary {
    static constexpr std::size_t kinds = 5;
    static constexpr std::array<std::string_view, kinds> names{"trees", "requests", "target", "draft", "level"};

    std::array<std::uint64_t, kinds> sums{};  ///< checksums of what must be equal on all ranks, by `names`
    std::int64_t index = -1;
    std::int32_t is_bad = 0;
    multidraft::detail::fault_key fault = multidraft::detail::no_fault;
    validation_report report{};  ///< of `fault`
    char argument[60]{};
    char value[64]{};
    char reason[192]{};

    /// Records an error of this rank.
    void set(invalid_input const& e) {
        is_bad = 1;
        index = e.index();
        copy(e.argument(), argument);
        copy(e.value(), value);
        copy(e.reason(), reason);
    }

private:
    template <std::size_t N>
    static void copy(std::string const& from, char (&to)[N]) {
        std::size_t const n = std::min(from.size(), N - 1);
        std::copy_n(from.begin(), n, to);
        to[n] = 0;
    }
};

/// Throws the same `invalid_input` on all ranks if a rank's arguments are invalid or differ from those of rank 0.
/// Returns on all ranks the report of the first fault that any of them found; their arguments are then not compared.
inline validation_report agree(exchange& ranks, argument_summary const& mine) {
    auto const all = ranks.gather<argument_summary>(1, [&](argument_summary* out) { *out = mine; });
    for (int r = 0; r < ranks.ranks(); ++r) {
        argument_summary const& s = *all.of<argument_summary>(r);
        if (s.is_bad != 0)
            throw invalid_input(s.argument, s.index, s.value, std::string(s.reason) + ", rank " + std::to_string(r));
    }
    argument_summary const& first = *all.of<argument_summary>(0);
    argument_summary const* faulty = &first;
    for (int r = 1; r < ranks.ranks(); ++r)
        if (all.of<argument_summary>(r)->fault < faulty->fault) faulty = all.of<argument_summary>(r);
    if (faulty->fault != multidraft::detail::no_fault) return faulty->report;
    for (int r = 1; r < ranks.ranks(); ++r)
        for (std::size_t k = 0; k < argument_summary::kinds; ++k)
            if (all.of<argument_summary>(r)->sums[k] != first.sums[k])
                refuse(std::string(argument_summary::names[k]), static_cast<std::int64_t>(r), "not those of rank 0",
                       "all ranks are called with the same trees, requests and sampling parameters; the index is the "
                       "rank");
    return {};
}

/// The checksum of what must be equal on all ranks about rows: size, type and sampling parameters.
template <class Rows>
[[nodiscard]] std::uint64_t checksum_of_rows(Rows const& rows, std::int32_t requests) {
    checksum sum;
    if constexpr (!std::is_same_v<Rows, verify::no_draft_rows>) {
        sum.add(index_t{rows.vocabulary});
        if constexpr (multidraft::detail::has_element<Rows>) sum.add(sizeof(typename Rows::element));
        if constexpr (multidraft::detail::has_sampling<Rows>)
            for (std::int32_t b = 0; b < requests; ++b) sum.add(rows.sampling_of(b));
    }
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_trees(tree_batch const& trees) {
    checksum sum;
    sum.add(trees.requests);
    sum.add(trees.offsets, trees.requests + 1);
    sum.add(trees.parents, trees.nodes);
    sum.add(trees.tokens, trees.nodes);
    sum.add(trees.certain, trees.nodes);
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_requests(request_batch const& requests, std::int32_t count) {
    checksum sum;
    for (std::int32_t b = 0; b < count; ++b) {
        sum.add(requests.seed(b));
        sum.add(requests.position(b));
        sum.add(requests.id(b));
    }
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_level(level_batch const& level, children_batch const& out) {
    checksum sum;
    sum.add(level.entries);
    sum.add(level.requests, level.entries);
    sum.add(level.nodes, level.entries);
    for (std::int32_t e = 0; e < level.entries; ++e) sum.add(level.wanted == nullptr ? out.stride : level.wanted[e]);
    sum.add(level.depths, level.entries);
    // Outputs for which ranks exchange entries.
    sum.add(out.probabilities == nullptr);
    sum.add(out.states == nullptr);
    return sum.value();
}

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail

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
