// The pool of host threads: every task once, exceptions, several callers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"

namespace host_threads_test {
namespace {

using namespace multidraft;

TEST(host_threads, run_every_task_once) {
    for (int const threads : {1, 2, 4, 9}) {
        host_threads const pool(threads);
        EXPECT_EQ(pool.concurrency(), threads);
        for (int const count : {0, 1, 2, 3, 8, 100}) {
            for (int again = 0; again < 50; ++again) {
                std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
                pool.parallel_for(count, [&](int k) { ++calls[static_cast<std::size_t>(k)]; });
                for (auto const& c : calls) ASSERT_EQ(c, 1);
            }
        }
    }
}

TEST(host_threads, hand_on_what_a_task_throws_and_go_on) {
    host_threads const pool(3);
    for (int again = 0; again < 20; ++again) {
        std::atomic<int> done{0};
        EXPECT_THROW(pool.parallel_for(8,
                                       [&](int k) {
                                           if (k == 5) throw std::runtime_error("five");
                                           ++done;
                                       }),
                     std::runtime_error);
        EXPECT_EQ(done, 7);
        pool.parallel_for(8, [&](int) { ++done; });
        EXPECT_EQ(done, 15);
    }
}

TEST(host_threads, serve_several_callers_one_after_another) {
    host_threads const pool(3);
    std::vector<int> sums(4);
    {
        std::vector<std::jthread> callers;
        for (int& sum : sums)
            callers.emplace_back([&pool, &sum] {
                for (int again = 0; again < 50; ++again) {
                    std::atomic<int> here{0};
                    pool.parallel_for(3, [&](int k) { here += k; });
                    sum += here;
                }
            });
    }
    for (int const sum : sums) EXPECT_EQ(sum, 150);
}

TEST(host_threads, are_one_or_more) {
    EXPECT_THROW(host_threads(0), invalid_input);
    EXPECT_THROW(host_tasks(0, [](int, auto const&) {}), invalid_input);
}

}  // namespace
}  // namespace host_threads_test
