// A progress bar on standard error for long operations.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace multidraft::examples {

/// Appears after half a second, on a terminal only, and disappears at the end.
class progress_bar {
public:
    explicit progress_bar(std::string what, std::FILE* to = stderr)
        : what_(std::move(what)), to_(to), on_(::isatty(::fileno(to)) == 1) {}
    ~progress_bar() {
        if (shown_) std::fprintf(to_, "\r\033[K");
    }
    progress_bar(progress_bar const&) = delete;
    progress_bar& operator=(progress_bar const&) = delete;

    /// `done` is in [0, 1].
    void show(double done) {
        using namespace std::chrono_literals;
        auto const now = std::chrono::steady_clock::now();
        if (!on_ || now - begin_ < 500ms || now - last_ < 50ms) return;
        std::fprintf(to_, "\r%s", line(what_, done).c_str());
        std::fflush(to_);
        shown_ = true;
        last_ = now;
    }

    /// The bar as it is printed: what is done, marks, percent.
    [[nodiscard]] static std::string line(std::string const& what, double done) {
        constexpr int width = 30;
        double const part = std::clamp(done, 0.0, 1.0);
        auto const marks = static_cast<std::size_t>(std::lround(part * width));
        return what + " [" + std::string(marks, '#') + std::string(width - marks, '.') + "] " +
               std::to_string(std::lround(100 * part)) + " %";
    }

private:
    std::string what_;
    std::FILE* to_;
    bool on_;
    bool shown_ = false;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace multidraft::examples
