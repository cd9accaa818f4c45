// The example's tokenizer: texts to tokens and back, a text as it grows, and files that it refuses.
#include "transformer/tokenizer.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/model_files.hpp"
#include "examples/model_support.hpp"
#include "multidraft/base/error.hpp"

namespace tokenizer_test {
namespace {

using namespace multidraft::testing;
using multidraft::invalid_input;
using multidraft::token_id;
using multidraft::examples::find_tokenizer;
using multidraft::examples::stream_decoder;
using multidraft::examples::tokenizer;
using nlohmann::json;

using transformer_tokenizer_files = model_files;

TEST(transformer_tokenizer, encodes_and_decodes) {
    tokenizer const tokens(find_tokenizer(models / "target"), 4096);
    EXPECT_EQ(tokens.vocabulary(), 4096);
    EXPECT_EQ(tokens.bos(), 1);
    EXPECT_EQ(tokens.eos(), 2);
    json const reference = json::parse(std::ifstream(models / "reference_logits.json"));
    for (json const& entry : reference["models"]["target"]) {
        auto const prompt = entry["prompt"].get<std::string>();
        EXPECT_EQ(tokens.encode(prompt), entry["token_ids"].get<std::vector<token_id>>());
        EXPECT_EQ(tokens.decode(tokens.encode(prompt)), prompt);
    }
    EXPECT_EQ(tokens.encode(""), std::vector<token_id>{1});
    EXPECT_EQ(tokens.decode({}), "");
    std::vector<token_id> const bad{5, 4096};
    EXPECT_MESSAGE(message_of<invalid_input>([&] { (void)tokens.decode(bad); }), "tokens[1] = 4096");
}

// The tokens of a text's beginning are also the first tokens of the whole text.
TEST(transformer_tokenizer, knows_texts_that_are_too_long) {
    tokenizer const tokens(find_tokenizer(models / "target"), 4096);
    std::string letters, words, marks, unknown;
    for (int i = 0; i < 30000; ++i) {
        letters += static_cast<char>('a' + i * 7 % 26);
        words += i % 5 == 0 ? " the" : i % 7 == 0 ? "\n\n" : " unto";
        marks += i % 3 == 0 ? "e\xCC\x81" : "\xE4\xB8\xAD";  // a combining accent; a character of three bytes
        unknown += "\xF0\x9F\x92\xA9";
    }
    for (std::string const& text : {letters, words, marks, unknown, std::string(40000, ' ')})
        for (std::int32_t const limit : {0, 1, 40, 1000, 5000}) {
            auto const count = static_cast<std::int32_t>(tokens.encode(text).size());
            if (tokens.is_longer_than(text, limit)) {
                EXPECT_GT(count, limit) << text.substr(0, 8);
            }
            EXPECT_FALSE(tokens.is_longer_than(text.substr(0, 10), limit));
        }
    EXPECT_TRUE(tokens.is_longer_than(letters, 40));
    EXPECT_TRUE(tokens.is_longer_than(words, 40));
}

TEST(transformer_tokenizer, streams_what_decode_gives) {
    tokenizer const tokens(find_tokenizer(models / "draft/"));
    auto const check = [&](std::vector<token_id> const& ids) {
        stream_decoder decoder(tokens);
        std::string text;
        for (token_id const id : ids) {
            std::string const piece = decoder.push(id);
            EXPECT_FALSE(!piece.empty() && (static_cast<unsigned char>(piece[0]) & 0xC0U) == 0x80U)
                << "begins inside a character";
            text += piece;
        }
        text += decoder.finish();
        EXPECT_EQ(text, tokens.decode(ids));
    };
    for (char const* text :
         {"And the LORD said unto Moses,", "", " two  spaces", "na\xC3\xAFve caf\xC3\xA9 \xE2\x82\xAC 5",
          "\xF0\x9F\x98\x80\xF0\x9F\x98\x81 x", "\xE6\xBC\xA2\xE5\xAD\x97"}) {
        check(tokens.encode(text));
    }
    json const texts = json::parse(std::ifstream(models / "held_out.json"));
    for (auto const& [kind, documents] : texts.items()) {
        for (std::size_t i = 0; i < documents.size(); i += 10) check(tokens.encode(documents[i].get<std::string>()));
    }
    // Byte tokens follow <unk>, <s> and </s>.
    auto const byte = [](unsigned value) { return static_cast<token_id>(3 + value); };
    ASSERT_EQ(tokens.decode(std::vector<token_id>{byte('A')}), "A");
    stream_decoder decoder(tokens);
    EXPECT_EQ(decoder.push(byte(0xE2)), "");
    EXPECT_EQ(decoder.push(byte(0x82)), "");
    EXPECT_EQ(decoder.push(byte(0xAC)), "\xE2\x82\xAC");
    EXPECT_EQ(decoder.push(byte(0xF0)), "");
    EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
    EXPECT_MESSAGE(message_of<invalid_input>([&] { (void)decoder.push(-1); }), "tokens = -1");
    check({byte(0xE2), byte(0x82), 300, byte(0xAC), byte(0xFF), byte(0xC3), byte(0xA9)});
    check({byte(0xED), byte(0xA0), byte(0x80), byte(0xF4), byte(0x90), byte(0x80), byte(0x80)});
    check({1, 300, 301, 2, 302});
    check({300, 0, 301});
    check({byte(0xC6), 1, byte(0xAD)});  // a control token parts the bytes of a character
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        std::vector<token_id> ids{1};
        for (int i = 0; i < 30; ++i) ids.push_back(static_cast<token_id>(random() % (round % 2 == 0 ? 4096 : 300)));
        check(ids);
    }
}

TEST_F(transformer_tokenizer_files, errors) {
    auto const file = find_tokenizer(models / "target");
    auto const message = message_of<std::runtime_error>([&] { tokenizer(file, 32000); });
    EXPECT_MESSAGE(message, file.string());
    EXPECT_MESSAGE(message, "4096 pieces");
    EXPECT_MESSAGE(message, "32000");
    write("tokenizer.model", "nonsense");
    EXPECT_EQ(find_tokenizer(directory), directory / "tokenizer.model");
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { tokenizer(directory / "tokenizer.model"); }),
                   directory.string());
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { tokenizer(directory / "absent.model"); }), "absent.model");
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { (void)find_tokenizer(directory / "a" / "b"); }),
                   "no tokenizer.model");
}

}  // namespace
}  // namespace tokenizer_test
