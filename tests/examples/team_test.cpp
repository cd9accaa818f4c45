// The team of threads: every piece once, whatever the threads are doing; and the choice of their number.
#include "transformer/team.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace team_test {
namespace {

using multidraft::examples::available_threads;
using multidraft::examples::team;
using multidraft::examples::thread_choice;

TEST(team, does_every_piece_once) {
    for (int const threads : {1, 2, 3, 8}) {
        team together(threads);
        EXPECT_EQ(together.threads(), threads);
        std::vector<int> done;
        for (int job = 0; job < 3000; ++job) {
            auto const count = static_cast<std::int32_t>(job % 97);
            int const active = 1 + job % threads;
            done.assign(static_cast<std::size_t>(count), 0);
            std::atomic<int> wrong = 0;
            // Pieces are no two threads' at a time, so plain numbers will do: a thread sanitizer would see it.
            together.run(count, active, [&](std::int32_t first, std::int32_t last, int thread) {
                if (first >= last || thread < 0 || thread >= active) ++wrong;
                for (std::int32_t i = first; i < last; ++i) done[static_cast<std::size_t>(i)] += job + 1;
            });
            ASSERT_EQ(wrong, 0);
            ASSERT_TRUE(std::ranges::all_of(done, [&](int n) { return n == job + 1; })) << "job " << job;
        }
    }
}

TEST(team, works_after_its_helpers_fell_asleep) {
    team together(3);
    for (int job = 0; job < 20; ++job) {
        std::atomic<std::int32_t> sum = 0;
        together.run(100, 3, [&](std::int32_t first, std::int32_t last, int) { sum += last - first; });
        EXPECT_EQ(sum, 100);
        std::this_thread::sleep_for(std::chrono::milliseconds(job % 3));
    }
}

TEST(team, a_slow_thread_takes_less) {
    team together(2);
    std::vector<std::int32_t> pieces(2, 0);
    together.run(200, 2, [&](std::int32_t first, std::int32_t last, int thread) {
        pieces[static_cast<std::size_t>(thread)] += last - first;
        // The helper is held up, as by another program on its core.
        std::this_thread::sleep_for(std::chrono::microseconds(thread == 1 ? 20000 : 50) *
                                    (thread == 1 ? 1 : last - first));
    });
    EXPECT_EQ(pieces[0] + pieces[1], 200);
    EXPECT_GT(pieces[0], pieces[1]);
}

TEST(team, a_share_is_the_same_in_every_call) {
    team together(2);
    std::vector<int> of(100, -1);
    std::atomic<int> arrived = 0;
    for (int job = 0; job < 50; ++job) {
        arrived = 0;
        together.run(100, 2, [&](std::int32_t first, std::int32_t last, int thread) {
            // The first piece of each thread waits for the other thread: none is late, and none helps the other.
            if (first == thread * 50) {
                ++arrived;
                auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
                while (arrived < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
                for (std::int32_t i = first; i < last; ++i) of[static_cast<std::size_t>(i)] = thread;
            }
        });
        EXPECT_EQ(arrived, 2);
        EXPECT_EQ(of[0], 0);
        EXPECT_EQ(of[50], 1);
    }
}

TEST(team, counts_beyond_what_a_share_can_number) {
    team together(3);
    for (std::int32_t const count : {(1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3'000'000, 2'147'483'647}) {
        std::atomic<std::int64_t> sum = 0;
        std::atomic<int> wrong = 0;
        together.run(count, 3, [&](std::int32_t first, std::int32_t last, int) {
            if (first < 0 || first >= last || last > count) ++wrong;
            sum += last - first;
        });
        EXPECT_EQ(wrong, 0);
        EXPECT_EQ(sum, count);
    }
}

TEST(team, several_teams_at_once) {
    std::atomic<std::int64_t> sum = 0;
    std::vector<std::thread> callers;
    for (int c = 0; c < 3; ++c)
        callers.emplace_back([&] {
            team together(2);
            for (int job = 0; job < 500; ++job)
                together.run(64, 2, [&](std::int32_t first, std::int32_t last, int) { sum += last - first; });
        });
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(sum, 3 * 500 * 64);
}

TEST(team, sees_the_cores_it_may_use) { EXPECT_GE(available_threads(), 1); }

/// Runs calls whose time depends on their threads alone, and counts those that took another number than `best`.
template <class F>
int others(thread_choice& choice, int calls, int kind, int best, F const& seconds) {
    int count = 0;
    for (int i = 0; i < calls; ++i) {
        int const threads = choice.next(kind);
        if (threads != best) ++count;
        choice.took(kind, seconds(threads));
    }
    return count;
}

TEST(thread_choice, finds_what_is_fastest_and_seldom_tries_the_rest) {
    auto const free = [](int threads) { return 1.0 / threads; };
    auto const held = [](int threads) { return threads == 1 ? 1.0 : 3.0; };
    for (int const most : {2, 3, 4, 8, 12}) {
        thread_choice choice(most);
        EXPECT_LE(others(choice, 1000, 0, most, free), 12) << most;
        // Another program comes: soon one thread, and seldom more.
        EXPECT_LE(others(choice, 1000, 0, 1, held), 40) << most;
        // It goes away again: found out by the next trials.
        EXPECT_LE(others(choice, 2000, 0, most, free), 600) << most;
    }
}

TEST(thread_choice, kinds_of_calls_are_apart) {
    thread_choice choice(2);
    (void)others(choice, 100, 0, 2, [](int threads) { return 1.0 / threads; });
    (void)others(choice, 100, 3, 1, [](int threads) { return 1.0 * threads; });
    EXPECT_LE(others(choice, 100, 0, 2, [](int threads) { return 1.0 / threads; }), 4);
    EXPECT_LE(others(choice, 100, 3, 1, [](int threads) { return 1.0 * threads; }), 4);
}

TEST(thread_choice, one_thread_is_no_choice) {
    thread_choice choice(1);
    EXPECT_EQ(others(choice, 50, 2, 1, [](int) { return 1.0; }), 0);
}

}  // namespace
}  // namespace team_test
