// A progress line for long runs on a terminal.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace multidraft::examples {

/// Rewrites one line of standard error if that is a terminal, a few times per second; silent otherwise.
class progress {
public:
    progress(std::int64_t all, char const* what) : all_(all), what_(what), shown_(::isatty(STDERR_FILENO) == 1) {}
    ~progress() {
        if (drawn_) std::fprintf(stderr, "\r\x1b[K");
    }
    progress(progress const&) = delete;
    progress& operator=(progress const&) = delete;

    /// One more is done. From any thread.
    void step() {
        if (!shown_) return;
        std::lock_guard const lock(mutex_);
        ++done_;
        auto const now = clock::now();
        if (now - last_ < std::chrono::milliseconds(100) && done_ < all_) return;
        last_ = now;
        drawn_ = true;
        constexpr std::int64_t cells = 30;
        auto const full = static_cast<std::size_t>(cells * done_ / std::max<std::int64_t>(all_, 1));
        double const seconds = std::chrono::duration<double>(now - begin_).count();
        double const left = seconds / static_cast<double>(done_) * static_cast<double>(all_ - done_);
        std::fprintf(stderr, "\r\x1b[K[%s%s] %lld of %lld %s, %.0f s left", std::string(full, '#').c_str(),
                     std::string(static_cast<std::size_t>(cells) - full, '.').c_str(), static_cast<long long>(done_),
                     static_cast<long long>(all_), what_, left);
        std::fflush(stderr);
    }

private:
    using clock = std::chrono::steady_clock;
    std::mutex mutex_;
    std::int64_t all_;
    std::int64_t done_ = 0;
    char const* what_;
    clock::time_point begin_ = clock::now();
    clock::time_point last_ = begin_;
    bool shown_;
    bool drawn_ = false;
};

}  // namespace multidraft::examples
