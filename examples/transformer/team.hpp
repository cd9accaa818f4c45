// A team of threads that takes pieces of work, for machines whose cores may have other work too.
//
// Each thread has a share of its own, the same in every call of a size, which it takes piece after piece: what it reads
// lies one behind the other, and may be in its cache from the call before. A thread without a rest of its share takes
// from the ends of others', so a slow or interrupted core does less. There is no barrier: the calling thread works too,
// and at the end waits only for pieces that others have started. Idle threads spin for some microseconds and then
// sleep.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "available_threads.hpp"

namespace multidraft::examples {

/// As many numbers, each read and written once, are some 10 us of work: for fewer, other threads come too late.
inline constexpr std::int64_t numbers_for_threads = 30'000;

/// A calling thread and its helpers. One `run` at a time.
class team {
public:
    /// Starts `threads - 1` helpers.
    explicit team(int threads);
    ~team();
    team(team const&) = delete;
    team& operator=(team const&) = delete;

    [[nodiscard]] int threads() const noexcept { return static_cast<int>(helpers_.size()) + 1; }

    /// Calls `f(first, last, thread)` for disjoint ranges that make up [0, count), in up to `active` threads at once,
    /// the calling one among them; `thread` is in [0, active). The pieces of a share get smaller towards its end. `f`
    /// must not throw.
    template <class F>
    void run(std::int32_t count, int active, F const& f) {
        if (count <= 0) return;
        if (active <= 1 || count == 1 || helpers_.empty()) {
            f(std::int32_t{0}, count, 0);
            return;
        }
        share({[](void const* object, std::int32_t first, std::int32_t last, int thread) {
                   (*static_cast<F const*>(object))(first, last, thread);
               },
               &f, count, active});
    }

private:
    struct job {
        void (*call)(void const* object, std::int32_t first, std::int32_t last, int thread);
        void const* object;
        std::int32_t count;
        int active;
    };

    /// What is left of a thread's share of a job, and the job's number: all change at once, so a helper that comes late
    /// takes nothing of a job that it does not know.
    struct alignas(64) share_left {
        std::atomic<std::uint64_t> state{0};
    };

    void share(job const& work);
    void help(int thread);
    /// Takes pieces of a job, the `number`th, until none is left.
    void work_on(job const& work, std::uint64_t number, int thread);
    /// Takes pieces of thread `of`'s share, of its begin or of its end, and returns how many units these were.
    [[nodiscard]] std::int32_t take_from(int of, job const& work, std::uint64_t number, int thread);

    std::vector<share_left> left_;          ///< by thread
    std::atomic<std::uint64_t> number_{0};  ///< of the job, which is written while no share has anything left
    std::atomic<decltype(job::call)> call_{nullptr};
    std::atomic<void const*> object_{nullptr};
    std::atomic<std::int32_t> count_{0};
    std::atomic<int> active_{1};  ///< helpers beyond these sleep until it changes

    alignas(64) std::atomic<std::int32_t> unfinished_{0};  ///< units of the job
    alignas(64) std::atomic<std::int32_t> asleep_{0};      ///< of the active helpers
    std::atomic<std::int32_t> calls_{0};                   ///< changes when sleepers are called
    std::atomic<bool> ends_{false};
    std::vector<std::thread> helpers_;
};

/// The number of threads for calls: the one that was recently fastest. If another program uses a core, more threads can
/// be slower than one, which shows only in the time of a call. Calls of similar size are compared, by `kind`; from time
/// to time one tries another power of two: seldom where that takes far longer, and soon after calls have become slower.
/// A kind begins with the threads of the one nearest to it.
class thread_choice {
public:
    /// Between 1 and `most` threads.
    explicit thread_choice(int most);

    static constexpr int kinds = 10;
    /// That of a call with so many rows, of all kinds but the last.
    [[nodiscard]] static int kind_of(std::size_t rows) noexcept {
        return std::min(static_cast<int>(std::bit_width(rows - 1)), kinds - 2);
    }

    /// The threads of the next call.
    [[nodiscard]] int next(int kind);
    /// Records the time of that call.
    void took(int kind, double seconds);
    /// Calls `work(threads)` in the threads of the next call, and records its time.
    template <class Work>
    void run(int kind, Work const& work) {
        int const threads = next(kind);
        auto const begin = std::chrono::steady_clock::now();
        work(threads);
        took(kind, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }

private:
    struct record {
        std::vector<double> seconds;  ///< by power of two of the threads; 0: not known
        int now = 0;
        int tried = 0;         ///< what the running call tries
        int until_trial = 16;  ///< calls until the next trial
        int interval = 8;
        int slow = 0;         ///< calls in a row that took far longer than those before
        int last_trial = -1;  ///< what it tried; -1: there was none
    };

    /// Takes the threads of the nearest kind that has had a trial.
    void begin(std::size_t kind);

    int levels_;
    int most_;
    std::array<record, kinds> records_;
};

}  // namespace multidraft::examples
