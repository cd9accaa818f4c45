// Progress on standard error of long operations.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

/// The progress of a text that is printed when it is complete: a bar on a terminal, and elsewhere too a line if the
/// text will take longer than `patience`.
class text_progress {
public:
    using seconds = std::chrono::duration<double>;

    /// `tokens`: of the text, at most. `rows`: of the target in a step.
    text_progress(std::int32_t tokens, std::int32_t rows, seconds patience = seconds(10), std::FILE* to = stderr)
        : tokens_(tokens), rows_(rows), patience_(patience), to_(to), bar_("generating", to) {}

    /// After each step, with the tokens that it has emitted.
    void add(std::size_t emitted) { add(emitted, std::chrono::steady_clock::now() - begin_); }

    /// The same, with the time since the beginning.
    void add(std::size_t emitted, seconds since) {
        done_ += static_cast<double>(emitted);
        if (done_ < 1 || tokens_ < 1) return;
        double const each = since.count() / done_;
        if (!noted_ && each * tokens_ > patience_.count() && done_ < tokens_) {
            noted_ = true;
            std::fprintf(to_, "%s\n", note(each, tokens_, rows_).c_str());
        }
        bar_.show(done_ / tokens_);
    }

    /// The line, for a token that takes `each` seconds.
    [[nodiscard]] static std::string note(double each, std::int32_t tokens, std::int32_t rows) {
        std::array<char, 128> text{};
        std::snprintf(text.data(), text.size(),
                      "generate: about %.2g s a token, %.0f s for %d tokens (--tokens, --stream)", each, each * tokens,
                      tokens);
        std::string const line = text.data();
        if (rows <= 64) return line;
        return line + "; a step has " + std::to_string(rows) + " rows of the target, one a node: see --tree";
    }

private:
    std::int32_t tokens_;
    double done_ = 0;
    std::int32_t rows_;
    seconds patience_;
    std::FILE* to_;
    progress_bar bar_;
    bool noted_ = false;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace multidraft::examples
