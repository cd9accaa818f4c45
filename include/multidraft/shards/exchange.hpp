// Data exchange between ranks that process rows together: immediately, or for many tasks in one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/communicator.hpp"

namespace MULTIDRAFT_NAMESPACE::shards {

namespace detail {

/// A hash table of 64-bit keys and values. It keeps its memory when it is cleared.
class value_table {
public:
    void clear() noexcept {
        for (slot& s : slots_) s.used = false;
        count_ = 0;
    }
    /// The value of a key, or null.
    [[nodiscard]] std::uint64_t const* find(std::uint64_t key) const noexcept {
        if (slots_.empty()) return nullptr;
        for (std::size_t at = start(key);; at = (at + 1) & (slots_.size() - 1)) {
            if (!slots_[at].used) return nullptr;
            if (slots_[at].key == key) return &slots_[at].value;
        }
    }
    void insert(std::uint64_t key, std::uint64_t value) {
        if (2 * (count_ + 1) > slots_.size()) grow();
        std::size_t at = start(key);
        while (slots_[at].used && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
        if (!slots_[at].used) ++count_;
        slots_[at] = {key, value, true};
    }

private:
    struct slot {
        std::uint64_t key = 0;
        std::uint64_t value = 0;
        bool used = false;
    };

    [[nodiscard]] std::size_t start(std::uint64_t key) const noexcept {
        return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20) & (slots_.size() - 1);
    }
    void grow() {
        std::vector<slot> old(slots_.empty() ? 256 : 2 * slots_.size());
        old.swap(slots_);
        count_ = 0;
        for (slot const& s : old)
            if (s.used) insert(s.key, s.value);
    }

    std::vector<slot> slots_;
    std::size_t count_ = 0;
};

}  // namespace detail

/// How `shard_group` and rows in shards communicate: the columns of each rank, and collective calls.
///
/// An exchange is one call of the communicator; inside of `run_together` all tasks that wait for an exchange share one
/// call. When the result has arrived, such a task is run again from its start and receives its earlier results again.
/// So a task must be deterministic: the same results lead to the same operations, as in every sampler and verifier.
/// Tasks need no threads and no stacks of their own, and a waiting task uses no CPU time.
///
/// All ranks must make the same exchanges in the same order: their decisions depend only on exchanged data and on data
/// that all ranks have. Memory grows to the needs of the largest batch and is kept.
class exchange {
public:
    /// The data of all ranks in one exchange: `answers.of<T>(r)` is that of rank r.
    class answers {
    public:
        /// The data of rank r begins at `data + r * stride`.
        answers(std::byte const* data, std::size_t stride) noexcept : data_(data), stride_(stride) {}
        /// The data of rank r.
        template <class T>
        [[nodiscard]] T const* of(int r) const noexcept {
            return reinterpret_cast<T const*>(data_ + static_cast<std::size_t>(r) * stride_);
        }

    private:
        std::byte const* data_;
        std::size_t stride_;
    };

    /// `rank`: the number of this rank in `columns`.
    exchange(column_map columns, int rank) : columns_(std::move(columns)), rank_(rank) {}
    exchange(exchange const&) = delete;
    exchange& operator=(exchange const&) = delete;
    virtual ~exchange() = default;

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int ranks() const noexcept { return columns_.ranks(); }
    /// The columns of all ranks.
    [[nodiscard]] column_map const& columns() const noexcept { return columns_; }
    /// The calls of the communicator so far, and their bytes; the call of `rank_team`'s constructor is not counted.
    [[nodiscard]] traffic const& sent() const noexcept { return traffic_; }
    /// Whether this rank is processing its own chunks: rows in shards are then read locally, in these columns only.
    [[nodiscard]] bool reads_own_columns() const noexcept { return reads_own_columns_; }

    /// Every rank contributes `count` numbers of type T, written by `fill(T*)`, and receives those of all ranks. `fill`
    /// may read the rank's columns. The result is valid until the next exchange; inside of `run_together`, until that
    /// returns.
    template <class T, class Fill>
    [[nodiscard]] answers gather(std::size_t count, Fill const& fill) {
        std::size_t const bytes = whole_8(count * sizeof(T));
        if (run_.current == nullptr) {
            now_.sent.assign(bytes, std::byte{0});
            walk([&] { fill(reinterpret_cast<T*>(now_.sent.data())); });
            now_.received.resize(bytes * static_cast<std::size_t>(ranks()));
            gather_now(now_.sent.data(), bytes, now_.received.data());
            return {now_.received.data(), bytes};
        }
        if (step const* const made = answered()) {
            round const& r = rounds_.list[made->round];
            return {r.received.data() + made->offset, r.sent.size()};
        }
        round& r = rounds_.list[rounds_.at];
        std::size_t const offset = r.sent.size();
        r.sent.resize(offset + bytes, std::byte{0});
        walk([&] { fill(reinterpret_cast<T*>(r.sent.data() + offset)); });
        wait(offset);
    }

    /// Every rank contributes `count` counters, written by `fill(span)`, and receives their sums over the ranks, in
    /// order.
    template <class Fill>
    [[nodiscard]] std::uint64_t const* reduce(std::size_t count, Fill const& fill) {
        if (run_.current == nullptr) {
            now_.sums.resize(count);
            walk([&] { fill(span<std::uint64_t>(now_.sums)); });
            reduce_now(now_.sums);
            return now_.sums.data();
        }
        if (step const* const made = answered()) return rounds_.list[made->round].sums.data() + made->offset;
        round& r = rounds_.list[rounds_.at];
        std::size_t const offset = r.sums.size();
        r.sums.resize(offset + count);
        walk([&] { fill(span<std::uint64_t>(r.sums).subspan(offset)); });
        wait(offset);
    }

    /// The bits of an entry of a row, which only the owner of its chunk can read, by `own()`. `key` identifies row and
    /// token, and is the same on all ranks. The entry is exchanged if it is not known yet.
    ///
    /// Inside of `run_together` an unknown value is returned as 0, and results that depend on it are discarded: the
    /// task waits for the value at its next operation or at its end.
    template <class Own>
    [[nodiscard]] std::uint64_t value(std::uint64_t key, index_t column, Own const& own) {
        if (ranks() == 1) return own();
        if (std::uint64_t const* const known = values_.known.find(key)) return *known;
        int const owner = columns_.owner(column / chunk_size);
        std::uint64_t bits = 0;
        if (owner == rank_) walk([&] { bits = own(); });
        if (run_.current == nullptr) {
            answers const all = gather<std::uint64_t>(1, [&](std::uint64_t* out) { *out = bits; });
            bits = *all.of<std::uint64_t>(owner);
            values_.known.insert(key, bits);
            return bits;
        }
        run_.stalled = true;
        if (values_.asked.find(key) == nullptr) {
            values_.asked.insert(key, 0);
            values_.wanted.push_back({key, bits, owner});
        }
        return 0;
    }
    /// Stores the value of a key, the same on all ranks.
    void store_value(std::uint64_t key, std::uint64_t bits) { values_.known.insert(key, bits); }
    /// Discards all values, because the rows have changed.
    void clear_values() noexcept { values_.known.clear(); }

    /// Calls `task(k)` for k < count until all have ended. When all unfinished tasks wait for an exchange, one call is
    /// made for all of them. Tasks must be independent of one another and write to different memory.
    template <class Task>
    void run_together(std::size_t count, Task const& task) {
        if (run_.tasks.size() < count) run_.tasks.resize(count);
        for (std::size_t k = 0; k < count; ++k) {
            run_.tasks[k].steps.clear();
            run_.tasks[k].ended = false;
        }
        rounds_.used = 0;
        std::size_t left = count;
        while (left > 0) {
            begin_round();
            for (std::size_t k = 0; k < count; ++k) {
                if (run_.tasks[k].ended) continue;
                if (!run_once(run_.tasks[k], [&] { task(k); })) continue;
                run_.tasks[k].ended = true;
                --left;
            }
            end_round();
        }
    }

    /// Scratch memory for one operation of `shard_group`.
    [[nodiscard]] std::vector<std::size_t>& places() noexcept { return places_; }

protected:
    virtual void all_gather(void const* from, std::size_t bytes, void* to) = 0;
    virtual void all_reduce(span<std::uint64_t> numbers) = 0;

    traffic traffic_;

private:
    /// Where the result of an operation lies.
    struct step {
        std::size_t round;
        std::size_t offset;
    };
    /// The operations of a task so far, and how many of them its present run has come to.
    struct task_state {
        std::vector<step> steps;
        std::size_t next = 0;
        bool ended = false;
    };
    /// The data of one call.
    struct round {
        std::vector<std::byte> sent;
        std::vector<std::byte> received;
        std::vector<std::uint64_t> sums;
    };
    struct wanted_value {
        std::uint64_t key;
        std::uint64_t bits;
        int owner;
    };
    /// The tasks of `run_together`, and the one that runs.
    struct running {
        std::vector<task_state> tasks;
        task_state* current = nullptr;
        bool stalled = false;  ///< a value (`value`) has not arrived yet
    };
    /// The calls so far, and the present one.
    struct calls {
        std::vector<round> list;
        std::size_t used = 0;
        std::size_t at = 0;
    };
    /// Single values of rows: those that have arrived, and those to be exchanged in this round.
    struct values {
        detail::value_table known;
        std::vector<wanted_value> wanted;
        detail::value_table asked;  ///< the keys of `wanted`
    };
    /// Thrown to leave a task that waits for an exchange.
    struct waiting {};

    [[nodiscard]] static constexpr std::size_t whole_8(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

    template <class Body>
    void walk(Body const& body) {
        struct restore {
            bool& flag;
            bool before;
            ~restore() { flag = before; }
        } const restored{reads_own_columns_, reads_own_columns_};
        reads_own_columns_ = true;
        body();
    }

    void gather_now(void const* from, std::size_t bytes, void* to) {
        all_gather(from, bytes, to);
        ++traffic_.calls;
        traffic_.sent += bytes;
        traffic_.received += bytes * static_cast<std::size_t>(ranks() - 1);
    }
    void reduce_now(span<std::uint64_t> numbers) {
        all_reduce(numbers);
        ++traffic_.calls;
        traffic_.sent += numbers.size() * sizeof(std::uint64_t);
        traffic_.received += ranks() > 1 ? numbers.size() * sizeof(std::uint64_t) : 0;
    }

    /// The result of the task's next operation if an earlier run of the task made it, else null.
    [[nodiscard]] step const* answered() {
        if (run_.stalled) throw waiting{};
        task_state& task = *run_.current;
        return task.next < task.steps.size() ? &task.steps[task.next++] : nullptr;
    }
    [[noreturn]] void wait(std::size_t offset) {
        run_.current->steps.push_back({rounds_.at, offset});
        throw waiting{};
    }

    /// Runs a task from its start; true if it has ended.
    template <class Body>
    [[nodiscard]] bool run_once(task_state& state, Body const& body) {
        struct restore {
            exchange& e;
            ~restore() { e.run_.current = nullptr; }
        } const restored{*this};
        run_.current = &state;
        state.next = 0;
        run_.stalled = false;
        try {
            body();
        } catch (waiting const&) {
            return false;
        }
        return !run_.stalled;
    }

    /// Both in one call: each rank's data has its own place in the sum, where all other ranks add zeros.
    void reduce_and_gather(round& r) {
        std::size_t const counters = r.sums.size();
        r.sums.resize(counters + r.received.size() / sizeof(std::uint64_t), 0);
        auto* const all = reinterpret_cast<std::byte*>(r.sums.data() + counters);
        std::memcpy(all + static_cast<std::size_t>(rank_) * r.sent.size(), r.sent.data(), r.sent.size());
        reduce_now(r.sums);
        std::memcpy(r.received.data(), all, r.received.size());
        r.sums.resize(counters);
    }

    void begin_round() {
        rounds_.at = rounds_.used++;
        if (rounds_.list.size() < rounds_.used) rounds_.list.resize(rounds_.used);
        rounds_.list[rounds_.at].sent.clear();
        rounds_.list[rounds_.at].sums.clear();
        if (!values_.wanted.empty()) values_.asked.clear();
        values_.wanted.clear();
    }
    void end_round() {
        round& r = rounds_.list[rounds_.at];
        std::size_t const of_tasks = r.sent.size();
        for (wanted_value const& w : values_.wanted) {
            std::size_t const at = r.sent.size();
            r.sent.resize(at + sizeof w.bits);
            std::memcpy(r.sent.data() + at, &w.bits, sizeof w.bits);
        }
        r.received.resize(r.sent.size() * static_cast<std::size_t>(ranks()));
        if (r.sums.empty()) {
            if (!r.sent.empty()) gather_now(r.sent.data(), r.sent.size(), r.received.data());
        } else if (r.sent.empty()) {
            reduce_now(r.sums);
        } else {
            reduce_and_gather(r);
        }
        for (std::size_t k = 0; k < values_.wanted.size(); ++k) {
            std::uint64_t bits = 0;
            std::memcpy(&bits,
                        r.received.data() + static_cast<std::size_t>(values_.wanted[k].owner) * r.sent.size() +
                            of_tasks + k * sizeof bits,
                        sizeof bits);
            values_.known.insert(values_.wanted[k].key, bits);
        }
    }

    column_map columns_;
    int rank_;
    bool reads_own_columns_ = false;
    running run_;
    calls rounds_;
    values values_;
    round now_;  ///< of a call outside `run_together`
    std::vector<std::size_t> places_;
};

}  // namespace MULTIDRAFT_NAMESPACE::shards
