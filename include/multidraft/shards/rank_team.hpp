// The ranks over which columns of rows are distributed, with a communicator and the memory of their calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/communicator.hpp"
#include "multidraft/shards/exchange.hpp"
#include "multidraft/shards/shard_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

/// What calls of a team check before they begin.
enum class team_checks {
    none,       ///< this rank's arguments: errors are thrown on this rank only, and other ranks may wait forever
    arguments,  ///< the arguments of all ranks, and that they are equal, in one more call of the communicator
    rows        ///< also the entries of rows, as `validate_batch` does
};

namespace detail {

/// An entry of a batch's rows: that of `token` in the row of `node`, numbered across all requests.
struct row_entry {
    std::int64_t node;
    token_id token;
};

}  // namespace detail

/// Rows in shards for `rank_team::complete`: `nodes` are those whose rows are read, `entries` are needed by all ranks.
/// `tails` is memory for the received columns; it is resized.
template <class T, class Layout>
struct incomplete_rows {
    shard_batch<T, Layout>* rows;
    span<std::int64_t const> nodes;
    span<detail::row_entry const> entries;
    std::vector<std::byte>* tails;
};

/// Ranks that each have some columns of every row: the policy of `verify_batch`, `draft_batch` and `validate_batch` for
/// rows in shards, with the memory of these calls.
///
///     shards::rank_team team(communicator, shards::even_columns(V, ranks, rank));
///     verify_batch(team, verifier, drawn_by<Law>(trees), target_rows(p), draft_rows(q), requests, out, workspace);
///
/// Constructed and called by all ranks, in the same order, one call at a time. It allocates only while batches grow.
/// The communicator belongs to the caller and must outlive the team.
template <communicator C>
class rank_team final : public exchange {
public:
    /// `mine`: the columns of this rank. The ranges of all ranks must follow one another in the order of ranks, from 0
    /// to the size of the vocabulary; else throws `invalid_input` on all ranks. One call of the communicator.
    rank_team(C& comm, column_range mine, team_checks checks = team_checks::arguments)
        : exchange(columns_of_all(comm, mine), static_cast<int>(comm.rank())), comm_(&comm), checks_(checks) {}

    /// What its calls check before they begin.
    [[nodiscard]] team_checks checks() const noexcept { return checks_; }

    /// Sends every rank the parts that it lacks of rows in shards, in one call of the communicator: the columns that
    /// complete its last chunk, and the entries that all ranks need. Discards entries known before. `rows`:
    /// `incomplete_rows`, or `no_rows` for rows that are on every rank.
    template <class... Rows>
    void complete(Rows const&... rows) {
        start_completing(rows...);
        finish_completing(rows...);
    }
    /// The same in two steps: with a communicator that can (`has_all_to_all`), the first one returns at once, and
    /// the second, with the same rows, waits. Between them only `is_complete` may be called.
    template <class... Rows>
    void start_completing(Rows const&... rows) {
        clear_values();
        (make_room(rows), ...);
        if (!lacks<Rows...>()) return;
        if constexpr (has_all_to_all<C>)
            send_parts(rows...);
        else
            complete_by_all(rows...);
    }
    /// The second step, with the same rows.
    template <class... Rows>
    void finish_completing(Rows const&... rows) {
        if (!lacks<Rows...>()) return;
        if constexpr (has_all_to_all<C>) {
            comm_->wait();
            read_parts(rows...);
        }
    }
    /// Whether `finish_completing` would not wait.
    [[nodiscard]] bool is_complete() {
        if constexpr (has_all_to_all<C>)
            return comm_->test();
        else
            return true;
    }

    /// A placeholder for rows that need not be completed.
    struct no_rows {};

    /// The memory of the team's calls for the rows of one model.
    struct model_memory {
        std::vector<std::int64_t> nodes;
        std::vector<detail::row_entry> entries;
        std::vector<std::byte> tails;
        std::vector<std::byte> rows;
    };
    model_memory target_memory;
    model_memory draft_memory;

private:
    [[nodiscard]] static column_map columns_of_all(C& comm, column_range mine) {
        std::vector<column_range> all(static_cast<std::size_t>(comm.size()));
        comm.all_gather(&mine, sizeof mine, all.data());
        return column_map(all);
    }

    void all_gather(void const* from, std::size_t bytes, void* to) override { comm_->all_gather(from, bytes, to); }
    void all_reduce(span<std::uint64_t> numbers) override { comm_->all_reduce(numbers); }

    /// Whether any rows have to be completed.
    template <class... Rows>
    [[nodiscard]] bool lacks() const noexcept {
        return (!std::is_same_v<Rows, no_rows> || ...) && ranks() > 1;
    }

    static void make_room(no_rows const&) noexcept {}
    template <class T, class Layout>
    void make_room(incomplete_rows<T, Layout> const& part) {
        std::int64_t last = -1;
        for (std::int64_t const i : part.nodes) last = i > last ? i : last;
        auto const tail = static_cast<std::size_t>(columns().columns_to_receive(rank()).size());
        part.tails->resize(static_cast<std::size_t>(last + 1) * tail * sizeof(T));
        part.rows->ranks = this;
        part.rows->tails = reinterpret_cast<T const*>(part.tails->data());
    }

    /// The columns that rank `from` sends to rank `to`.
    [[nodiscard]] column_range moved(int from, int to) const noexcept {
        column_range const given = columns().columns_to_send(from);
        column_range const taken = columns().columns_to_receive(to);
        index_t const begin = given.begin > taken.begin ? given.begin : taken.begin;
        index_t const end = given.end < taken.end ? given.end : taken.end;
        return from != to && begin < end ? column_range{begin, end} : column_range{0, 0};
    }

    static std::size_t entry_bytes(no_rows const&) noexcept { return 0; }
    template <class T, class Layout>
    static std::size_t entry_bytes(incomplete_rows<T, Layout> const&) noexcept {
        return sizeof(T);
    }
    static std::size_t row_bytes(no_rows const&) noexcept { return 0; }
    template <class T, class Layout>
    static std::size_t row_bytes(incomplete_rows<T, Layout> const& part) noexcept {
        return part.nodes.size() * sizeof(T);
    }

    /// Writes columns of this rank's rows, row after row, and returns the end of what it wrote.
    static std::byte* write(no_rows const&, column_range, std::byte* to) noexcept { return to; }
    template <class T, class Layout>
    std::byte* write(incomplete_rows<T, Layout> const& part, column_range columns_moved, std::byte* to) const {
        if (columns_moved.size() == 0) return to;
        index_t const first = columns_moved.begin - columns().of(rank()).begin;
        for (std::int64_t const i : part.nodes) {
            T const* const row = part.rows->data + part.rows->row(i) * part.rows->own_stride();
            for (index_t k = 0; k < columns_moved.size(); ++k, to += sizeof(T))
                std::memcpy(to, row + part.rows->layout(first + k), sizeof(T));
        }
        return to;
    }
    /// Stores columns of another rank in the tails of this rank's rows, and returns the end of what it read.
    static std::byte const* read(no_rows const&, column_range, std::byte const* from) noexcept { return from; }
    template <class T, class Layout>
    std::byte const* read(incomplete_rows<T, Layout> const& part, column_range columns_moved,
                          std::byte const* from) const {
        if (columns_moved.size() == 0) return from;
        column_range const tail = columns().columns_to_receive(rank());
        std::size_t const bytes = static_cast<std::size_t>(columns_moved.size()) * sizeof(T);
        for (std::int64_t const i : part.nodes) {
            std::int64_t const at = i * tail.size() + (columns_moved.begin - tail.begin);
            std::memcpy(part.tails->data() + static_cast<std::size_t>(at) * sizeof(T), from, bytes);
            from += bytes;
        }
        return from;
    }

    /// Calls `use(part, entry)` for the entries whose column is in `held`.
    template <class Use>
    static void for_entries(no_rows const&, column_range, Use const&) noexcept {}
    template <class T, class Layout, class Use>
    static void for_entries(incomplete_rows<T, Layout> const& part, column_range held, Use const& use) {
        for (detail::row_entry const& e : part.entries)
            if (held.contains(e.token)) use(part, e);
    }

    /// Writes an entry whose column this rank has.
    template <class T, class Layout>
    void write_entry(incomplete_rows<T, Layout> const& part, detail::row_entry const& e, std::byte* to) const {
        T const* const row = part.rows->data + part.rows->row(e.node) * part.rows->own_stride();
        std::memcpy(to, row + part.rows->layout(e.token - columns().of(rank()).begin), sizeof(T));
    }
    template <class T, class Layout>
    void read_entry(incomplete_rows<T, Layout> const& part, detail::row_entry const& e, std::byte const* from) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, from, sizeof(T));
        store_value(part.rows->view(e.node).key(e.token), bits);
    }

    /// Sends to every rank what it lacks.
    template <class... Rows>
    void send_parts(Rows const&... rows) {
        auto const size = static_cast<std::size_t>(ranks());
        sent_bytes_.assign(size, 0);
        received_bytes_.assign(size, 0);
        auto const of_columns = [&](int from, int to) {
            auto const moved_columns = static_cast<std::size_t>(moved(from, to).size());
            return ((row_bytes(rows) * moved_columns) + ...);
        };
        auto const of_entries = [&](int from) {  // the same for every other rank
            std::size_t sum = 0;
            (for_entries(rows, columns().of(from),
                         [&](auto const& part, detail::row_entry const&) { sum += entry_bytes(part); }),
             ...);
            return sum;
        };
        auto const bytes = [&](int from, int to) { return of_columns(from, to) + of_entries(from); };
        if constexpr (requires { comm_->most_bytes(); }) refuse_too_much(of_columns, of_entries);
        std::size_t sent = 0;
        std::size_t received = 0;
        for (int r = 0; r < ranks(); ++r) {
            auto const at = static_cast<std::size_t>(r);
            sent += sent_bytes_[at] = bytes(rank(), r);
            received += received_bytes_[at] = bytes(r, rank());
        }
        from_.resize(sent);
        to_.resize(received);
        std::byte* out = from_.data();
        for (int r = 0; r < ranks(); ++r) {
            ((out = write(rows, moved(rank(), r), out)), ...);
            (for_entries(rows, columns().of(rank()),
                         [&](auto const& part, detail::row_entry const& e) {
                             write_entry(part, e, out);
                             out += entry_bytes(part);
                         }),
             ...);
        }
        span<std::size_t const> const to_ranks(sent_bytes_);
        span<std::size_t const> const of_ranks(received_bytes_);
        comm_->start_all_to_all(from_.data(), to_ranks, to_.data(), of_ranks);
        auto const self = static_cast<std::size_t>(rank());
        ++traffic_.calls;
        traffic_.sent += sent - sent_bytes_[self];
        traffic_.received += received - received_bytes_[self];
    }
    /// Refuses, on all ranks alike, a call in which one of them would move too much: one that refuses alone would leave
    /// the others waiting. O(ranks^2), and O(entries) for each rank.
    template <class OfColumns, class OfEntries>
    void refuse_too_much(OfColumns const& of_columns, OfEntries const& of_entries) const {
        std::size_t of_all_entries = 0;
        for (int r = 0; r < ranks(); ++r) of_all_entries += of_entries(r);
        for (int r = 0; r < ranks(); ++r) {
            std::size_t sent = of_entries(r) * static_cast<std::size_t>(ranks());
            std::size_t received = of_all_entries;
            for (int other = 0; other < ranks(); ++other) {
                sent += of_columns(r, other);
                received += of_columns(other, r);
            }
            if (std::size_t const more = sent > received ? sent : received; more > comm_->most_bytes())
                refuse("count", more,
                       "a call of the communicator moves " + std::to_string(comm_->most_bytes()) +
                           " bytes at most, rank " + std::to_string(r) + ": verify fewer requests at a time");
        }
    }
    template <class... Rows>
    void read_parts(Rows const&... rows) {
        std::byte const* in = to_.data();
        for (int r = 0; r < ranks(); ++r) {
            ((in = read(rows, moved(r, rank()), in)), ...);
            (for_entries(rows, columns().of(r),
                         [&](auto const& part, detail::row_entry const& e) {
                             read_entry(part, e, in);
                             in += entry_bytes(part);
                         }),
             ...);
        }
    }

    /// Sends to every rank what any rank lacks, for communicators without `start_all_to_all`.
    template <class... Rows>
    void complete_by_all(Rows const&... rows) {
        std::size_t most = 0;
        for (int r = 0; r < ranks(); ++r) {
            auto const given = static_cast<std::size_t>(columns().columns_to_send(r).size());
            std::size_t sum = ((row_bytes(rows) * given) + ...);
            (for_entries(rows, columns().of(r),
                         [&](auto const& part, detail::row_entry const&) { sum += entry_bytes(part); }),
             ...);
            most = sum > most ? sum : most;
        }
        if (most == 0) return;
        from_.assign(most, std::byte{0});
        to_.resize(most * static_cast<std::size_t>(ranks()));
        std::byte* out = from_.data();
        ((out = write(rows, columns().columns_to_send(rank()), out)), ...);
        (for_entries(rows, columns().of(rank()),
                     [&](auto const& part, detail::row_entry const& e) {
                         write_entry(part, e, out);
                         out += entry_bytes(part);
                     }),
         ...);
        comm_->all_gather(from_.data(), most, to_.data());
        ++traffic_.calls;
        traffic_.sent += most;
        traffic_.received += most * static_cast<std::size_t>(ranks() - 1);
        for (int r = 0; r < ranks(); ++r) {
            std::byte const* in = to_.data() + static_cast<std::size_t>(r) * most;
            column_range const mine = moved(r, rank());
            auto const skipped = [&](auto const& part) {
                if (mine.size() > 0) static_cast<void>(read(part, mine, in));
                in += row_bytes(part) * static_cast<std::size_t>(columns().columns_to_send(r).size());
            };
            (skipped(rows), ...);
            (for_entries(rows, columns().of(r),
                         [&](auto const& part, detail::row_entry const& e) {
                             read_entry(part, e, in);
                             in += entry_bytes(part);
                         }),
             ...);
        }
    }

    C* comm_;
    team_checks checks_;
    std::vector<std::size_t> sent_bytes_;
    std::vector<std::size_t> received_bytes_;
    std::vector<std::byte> from_;
    std::vector<std::byte> to_;
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
