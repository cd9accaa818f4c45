// The progress bar of generate while models load: its output, and none without a terminal.
#include "generate/progress.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

using multidraft::examples::progress_bar;

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

}  // namespace
