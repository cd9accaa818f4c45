// The progress of generate while models load and while a text grows: its output, and the bar on a terminal only.
#include "generate/progress.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>

namespace progress_test {
namespace {

using multidraft::examples::progress_bar;
using multidraft::examples::text_progress;

TEST(progress_bar, fills_up) {
    EXPECT_EQ(progress_bar::line("loading", 0), "loading [..............................] 0 %");
    EXPECT_EQ(progress_bar::line("loading", 0.5), "loading [###############...............] 50 %");
    EXPECT_EQ(progress_bar::line("loading", 1), "loading [##############################] 100 %");
    EXPECT_EQ(progress_bar::line("loading", 7), progress_bar::line("loading", 1));
}

TEST(progress_bar, writes_nothing_into_a_file) {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    {
        progress_bar bar("loading", file);
        bar.show(0.5);
    }
    EXPECT_EQ(std::ftell(file), 0);
    std::fclose(file);
}

/// What a text of 100 tokens with 10 s of patience writes into a file, after steps of one token at these times.
std::string told(std::initializer_list<double> times, std::int32_t rows) {
    std::FILE* const file = std::tmpfile();
    if (file == nullptr) return "no file";
    {
        text_progress progress(100, rows, text_progress::seconds(10), file);
        for (double const t : times) progress.add(1, text_progress::seconds(t));
    }
    std::string text(static_cast<std::size_t>(std::ftell(file)), ' ');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

TEST(text_progress, tells_once_that_a_text_takes_long) {
    EXPECT_EQ(told({0.01, 0.02, 0.03}, 4097), "");
    EXPECT_EQ(told({0.5, 1.0, 1.5}, 9), "generate: about 0.5 s a token, 50 s for 100 tokens (--tokens, --stream)\n");
    EXPECT_EQ(told({0.01, 4.0}, 4097),
              "generate: about 2 s a token, 200 s for 100 tokens (--tokens, --stream); a step has 4097 rows of the "
              "target, one a node: see --tree\n");
}

TEST(text_progress, is_silent_at_the_end_and_without_tokens) {
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    {
        text_progress none(0, 1, text_progress::seconds(0), file);
        none.add(0, text_progress::seconds(60));
        text_progress one(1, 1, text_progress::seconds(1), file);
        one.add(1, text_progress::seconds(60));  // it is complete
    }
    EXPECT_EQ(std::ftell(file), 0);
    std::fclose(file);
}

}  // namespace
}  // namespace progress_test
