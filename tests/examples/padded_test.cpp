// Models that models/train/pad.py makes larger: the same function, wider and deeper.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "examples/model_support.hpp"
#include "multidraft/decode/autoregressive.hpp"

namespace padded_test {
namespace {

namespace fs = std::filesystem;
using namespace multidraft::testing;
using multidraft::token_id;

/// A way to make a model larger.
struct padding {
    char const* name;
    char const* source;
    char const* arguments;
    // What it must have then.
    std::int32_t hidden, layers, heads, kv_heads;
};

void PrintTo(padding const& p, std::ostream* out) { *out << p.source << " " << p.arguments; }

int pad(std::string const& source, std::string const& destination, std::string const& arguments,
        std::string const& messages = "/dev/null") {
    std::string const command = "\"" MULTIDRAFT_PYTHON "\" \"" MULTIDRAFT_PAD "\" \"" + source + "\" \"" + destination +
                                "\" " + arguments + " > /dev/null 2> \"" + messages + "\"";
    int const status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A path for a model, of this process alone: other tests of the same model may run at the same time.
fs::path work_directory(std::string const& name) {
    fs::path path = fs::temp_directory_path() / ("multidraft_padded_test_" + std::to_string(::getpid()) + "_" + name);
    fs::remove_all(path);
    return path;
}

class padded : public ::testing::TestWithParam<padding> {
protected:
    void SetUp() override {
        directory = work_directory(GetParam().name);
        ASSERT_EQ(pad((models / GetParam().source).string(), directory.string(), GetParam().arguments), 0);
    }
    void TearDown() override { fs::remove_all(directory); }

    fs::path directory;
};

INSTANTIATE_TEST_SUITE_P(
    sizes, padded,
    ::testing::Values(
        // Exact scales; scales that bfloat16 would round; smaller groups of heads, so that key-value heads are copied;
        // one layer more and nothing else.
        padding{"four_times", "draft", "--hidden 384 --intermediate 640 --heads 6 --kv-heads 2 --layers 3", 384, 3, 6,
                2},
        padding{"twice", "target", "--hidden 512 --intermediate 700 --heads 8 --kv-heads 4 --layers 9", 512, 9, 8, 4},
        padding{"single_groups", "draft", "--hidden 100 --heads 4 --kv-heads 4 --seed 7", 100, 2, 4, 4},
        padding{"deeper", "draft-tiny", "--layers 2", 48, 2, 2, 1}),
    [](auto const& param) { return param.param.name; });

TEST_P(padded, has_the_logits_of_its_source) {
    for (auto const numbers : {precision::f32, precision::bf16}) {
        transformer small(models / GetParam().source, options_for(numbers));
        transformer large(directory, options_for(numbers));
        auto const& config = large.weights()->config();
        EXPECT_EQ(config.hidden, GetParam().hidden);
        EXPECT_EQ(config.layers, GetParam().layers);
        EXPECT_EQ(config.heads, GetParam().heads);
        EXPECT_EQ(config.kv_heads, GetParam().kv_heads);
        EXPECT_EQ(config.head_dim, small.weights()->config().head_dim);
        EXPECT_GT(large.weights()->parameters(), small.weights()->parameters());

        auto const tokens = some_tokens(60, 3);
        auto const expected = forward_chain(small, tokens, 60);
        auto const logits = forward_chain(large, tokens, 60);
        double largest = 0;
        double squares = 0;
        for (std::size_t i = 0; i < logits.size(); ++i) {
            double const difference = std::abs(double{logits[i]} - double{expected[i]});
            largest = std::max(largest, difference);
            squares += difference * difference;
        }
        // Zeros change the order of sums only. In bf16 that moves roundings of inputs: as for the reference logits.
        bool const exact = numbers == precision::f32;
        EXPECT_LT(largest, exact ? 1e-4 : 0.2);
        EXPECT_LT(std::sqrt(squares / static_cast<double>(logits.size())), exact ? 1e-5 : 0.032);
    }
}

TEST_P(padded, has_the_text_of_its_source) {
    transformer small(models / GetParam().source, options_for(precision::f32));
    transformer large(directory, options_for(precision::f32));
    multidraft::generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    for (unsigned seed = 0; seed < 3; ++seed) {
        auto const prompt = some_tokens(8, seed);
        EXPECT_EQ(multidraft::autoregressive(large, prompt, options).tokens,
                  multidraft::autoregressive(small, prompt, options).tokens);
    }
}

TEST_P(padded, can_be_padded_again) {
    fs::path const again = directory.string() + "_again";
    EXPECT_EQ(pad(directory.string(), again.string(), "--layers 10"), 0);
    transformer small(models / GetParam().source, options_for(precision::f32));
    transformer large(again, options_for(precision::f32));
    fs::remove_all(again);
    auto const tokens = some_tokens(5, 1);
    auto const expected = forward_chain(small, tokens, 1);
    auto const logits = forward_chain(large, tokens, 1);
    for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4);
}

TEST(padding_program, refuses_what_would_be_another_function) {
    auto const directory = work_directory("refused");
    std::string const source = (models / "draft").string();
    std::string const messages = directory.string() + ".messages";
    auto const refusal = [&](std::string const& from, std::string const& arguments) {
        EXPECT_NE(pad(from, directory.string(), arguments, messages), 0) << arguments;
        std::ifstream in(messages);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(refusal(source, "--hidden 16"), "pad.py: --hidden 16: the source has 96\n");
    EXPECT_EQ(refusal(source, "--heads 40 --kv-heads 3"), "pad.py: --kv-heads 3: must divide --heads, 40\n");
    std::string const absent = (directory / "absent").string();
    EXPECT_EQ(refusal(absent, "--layers 10"), "pad.py: " + absent + ": has no config.json\n");
    fs::remove(messages);
    EXPECT_FALSE(fs::exists(directory / "model.safetensors"));
    // In place it would read what it writes.
    fs::create_directories(directory);
    for (char const* const file : {"config.json", "model.safetensors"})
        fs::copy_file(models / "draft-tiny" / file, directory / file);
    auto const size = fs::file_size(directory / "model.safetensors");
    EXPECT_NE(pad(directory.string(), directory.string(), "--layers 10"), 0);
    EXPECT_EQ(fs::file_size(directory / "model.safetensors"), size);
    fs::remove_all(directory);
}

}  // namespace
}  // namespace padded_test
