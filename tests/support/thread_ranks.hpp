// Ranks that are threads of one process: a communicator for tests, and one that counts another's calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "multidraft/base/span.hpp"
#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/communicator.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The barrier of the threads, and the data that each publishes there.
class meeting {
public:
    explicit meeting(int ranks) : shown_(static_cast<std::size_t>(ranks)), ranks_(ranks) {}

    [[nodiscard]] int ranks() const noexcept { return ranks_; }
    /// The data of rank r: valid between two barriers.
    struct place {
        void const* data = nullptr;
        span<std::size_t const> sizes{};
        std::size_t bytes = 0;
    };
    [[nodiscard]] place& shown(int r) noexcept { return shown_[static_cast<std::size_t>(r)]; }

    /// Waits until all have arrived.
    void meet() {
        std::unique_lock lock(mutex_);
        std::uint64_t const number = meetings_;
        if (++here_ == ranks_) {
            here_ = 0;
            ++meetings_;
            all_here_.notify_all();
        } else {
            all_here_.wait(lock, [&] { return meetings_ != number; });
        }
    }

private:
    std::vector<place> shown_;
    int ranks_;
    int here_ = 0;
    std::uint64_t meetings_ = 0;
    std::mutex mutex_;
    std::condition_variable all_here_;
};

/// A rank that is a thread. Throws if ranks make different calls, which would deadlock in MPI.
class thread_rank {
public:
    thread_rank(meeting& all, int rank) : all_(&all), rank_(rank) {}

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return all_->ranks(); }
    void all_gather(void const* from, std::size_t bytes, void* to) {
        all_->shown(rank_) = {from, {}, bytes};
        all_->meet();
        for (int r = 0; r < size(); ++r) {
            if (all_->shown(r).bytes != bytes) throw std::logic_error("ranks gather different numbers of bytes");
            if (bytes > 0)
                std::memcpy(static_cast<std::byte*>(to) + static_cast<std::size_t>(r) * bytes, all_->shown(r).data,
                            bytes);
        }
        all_->meet();
    }
    void all_reduce(span<std::uint64_t> numbers) {
        all_->shown(rank_) = {numbers.data(), {}, numbers.size()};
        all_->meet();
        sums_.assign(numbers.size(), 0);
        for (int r = 0; r < size(); ++r) {
            if (all_->shown(r).bytes != numbers.size())
                throw std::logic_error("ranks add different numbers of numbers");
            auto const* const theirs = static_cast<std::uint64_t const*>(all_->shown(r).data);
            for (std::size_t k = 0; k < sums_.size(); ++k) sums_[k] += theirs[k];
        }
        all_->meet();
        for (std::size_t k = 0; k < sums_.size(); ++k) numbers[k] = sums_[k];
    }
    void start_all_to_all(void const* from, span<std::size_t const> sent, void* to, span<std::size_t const> received) {
        all_->shown(rank_) = {from, sent, 0};
        all_->meet();
        auto* out = static_cast<std::byte*>(to);
        auto const me = static_cast<std::size_t>(rank_);
        for (int r = 0; r < size(); ++r) {
            meeting::place const& theirs = all_->shown(r);
            std::size_t at = 0;
            for (std::size_t k = 0; k < me; ++k) at += theirs.sizes[k];
            std::size_t const bytes = received[static_cast<std::size_t>(r)];
            if (theirs.sizes[me] != bytes) throw std::logic_error("a rank is sent another number of bytes");
            if (bytes > 0) std::memcpy(out, static_cast<std::byte const*>(theirs.data) + at, bytes);
            out += bytes;
        }
        all_->meet();
    }
    [[nodiscard]] static bool test() { return true; }
    static void wait() {}

private:
    meeting* all_;
    int rank_;
    std::vector<std::uint64_t> sums_;
};

/// The same without `start_all_to_all`.
class plain_thread_rank {
public:
    explicit plain_thread_rank(thread_rank& rank) : rank_(&rank) {}
    [[nodiscard]] int rank() const noexcept { return rank_->rank(); }
    [[nodiscard]] int size() const noexcept { return rank_->size(); }
    void all_gather(void const* from, std::size_t bytes, void* to) { rank_->all_gather(from, bytes, to); }
    void all_reduce(span<std::uint64_t> numbers) { rank_->all_reduce(numbers); }

private:
    thread_rank* rank_;
};

static_assert(shards::has_all_to_all<thread_rank>);
static_assert(shards::communicator<plain_thread_rank> && !shards::has_all_to_all<plain_thread_rank>);

/// Runs `body(rank)` on a thread per rank, and rethrows what the first failed rank threw.
template <class Body>
void run_ranks(int ranks, Body const& body) {
    meeting all(ranks);
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
            try {
                thread_rank rank(all, r);
                body(rank);
            } catch (...) {
                failures[static_cast<std::size_t>(r)] = std::current_exception();
            }
        });
    for (std::thread& t : threads) t.join();
    for (std::exception_ptr const& f : failures)
        if (f != nullptr) std::rethrow_exception(f);
}

/// Ways to split the columns of a row over ranks.
enum class cut { even, uneven, by_chunks, first_has_all, ends_are_empty };
inline constexpr cut all_cuts[] = {cut::even, cut::uneven, cut::by_chunks, cut::first_has_all, cut::ends_are_empty};

[[nodiscard]] inline shards::column_range columns_by(cut how, index_t v, int ranks, int r) {
    auto const border = [&](int k) -> index_t {
        if (k <= 0) return 0;
        if (k >= ranks) return v;
        switch (how) {
            case cut::even:
                return shards::even_columns(v, ranks, k).begin;
            case cut::uneven: {  // some ranks lie inside of one chunk, some have none
                auto const at = static_cast<index_t>(std::int64_t{v} * k * k / (std::int64_t{ranks} * ranks));
                return k % 3 == 2
                           ? static_cast<index_t>(std::int64_t{v} * (k - 1) * (k - 1) / (std::int64_t{ranks} * ranks))
                           : at;
            }
            case cut::by_chunks:
                return shards::even_columns(v, ranks, k).begin / chunk_size * chunk_size;
            case cut::first_has_all:
                return v;
            default:
                return k == 1 ? 0 : (k == ranks - 1 ? v : shards::even_columns(v, ranks, k).begin);
        }
    };
    return {border(r), border(r + 1)};
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
