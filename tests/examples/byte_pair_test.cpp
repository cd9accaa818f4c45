// Byte-level tokenizers of GGUF files: merges, words, control tokens, bytes that are no UTF-8, a text as it grows, and
// the tokens of a conversation.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "examples/gguf_writer.hpp"
#include "examples/model_files.hpp"
#include "examples/model_support.hpp"
#include "multidraft/base/error.hpp"
#include "transformer/byte_pairs.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/word_splitter.hpp"

namespace byte_pair_test {
namespace {

using namespace multidraft::testing;
using multidraft::invalid_input;
using multidraft::none;
using multidraft::token_id;
using multidraft::examples::byte_pairs;
using multidraft::examples::bytes_of_spelling;
using multidraft::examples::chat_markup;
using multidraft::examples::find_tokenizer;
using multidraft::examples::stream_decoder;
using multidraft::examples::tokenizer;
using multidraft::examples::word_splitter;
using tokens_of = std::vector<token_id>;

TEST(byte_pairs, spellings) {
    for (int byte = 0; byte < 256; ++byte) {
        std::string const one(1, static_cast<char>(byte));
        EXPECT_EQ(bytes_of_spelling(spelling_of(one)), one) << byte;
    }
    EXPECT_EQ(spelling_of(" \n"), "\xC4\xA0\xC4\x8A");  // as every vocabulary of this kind has them
    EXPECT_EQ(bytes_of_spelling(" "), std::nullopt);
    EXPECT_EQ(bytes_of_spelling("\xE4\xB8\xAD"), std::nullopt);
    EXPECT_EQ(bytes_of_spelling("\xC4"), std::nullopt);
}

TEST(byte_pairs, the_first_merge_of_the_list_comes_first) {
    std::vector<std::string> const words{"a", "b", "c", "ab", "bc", "abc", "aa", "aaaa"};
    auto const tokens = [&](std::vector<std::string_view> const& merges, std::string_view word) {
        tokens_of result;
        byte_pairs(words, merges).encode(word, result);
        return result;
    };
    EXPECT_EQ(tokens({"a b", "b c"}, "abc"), (tokens_of{3, 2}));
    EXPECT_EQ(tokens({"b c", "a b"}, "abc"), (tokens_of{0, 4}));
    EXPECT_EQ(tokens({"b c", "a b", "a bc"}, "abc"), (tokens_of{5}));
    EXPECT_EQ(tokens({"a a"}, "aaaaa"), (tokens_of{6, 6, 0}));
    EXPECT_EQ(tokens({"a a", "aa aa"}, "aaaaa"), (tokens_of{7, 0}));
    EXPECT_EQ(tokens({"a b"}, "axb"), (tokens_of{3})) << "bytes without a token are left out first";
    EXPECT_EQ(tokens({}, ""), tokens_of{});
    for (auto const& [merge, part] : {std::pair("ab", "two parts"), std::pair("a x", "must be tokens"),
                                      std::pair("c a", "must be tokens"), std::pair("a \xE4\xB8\xAD", "spelled")}) {
        auto const message = message_of<std::runtime_error>([&] { byte_pairs(words, {"a b", merge}); });
        EXPECT_MESSAGE(message, "merge 1");
        EXPECT_MESSAGE(message, part);
    }
    // A long word takes n log n.
    tokens_of many;
    byte_pairs(words, {"a a", "aa aa"}).encode(std::string(400000, 'a'), many);
    EXPECT_EQ(many, tokens_of(100000, 7));
}

/// Tokenizers that a file holds.
class byte_pair_tokenizer : public model_files {
protected:
    small_vocabulary words;
    [[nodiscard]] std::filesystem::path path() const { return directory / "model.gguf"; }
    std::filesystem::path write_file(std::function<void(gguf_writer&)> const& change = {}) const {
        gguf_writer to;
        words.write(to);
        if (change) change(to);
        write("model.gguf", to.file().first);
        return path();
    }
    /// The tokens that have these bytes.
    [[nodiscard]] tokens_of ids(std::vector<std::string> const& bytes) const {
        tokens_of all;
        for (std::string const& one : bytes) all.push_back(words.id(one));
        return all;
    }
};

#ifdef MULTIDRAFT_EXAMPLES_PCRE2

TEST(word_splitter, words) {
    using words = std::vector<std::string_view>;
    word_splitter const plain("gpt-2");
    word_splitter const digits("smollm");
    EXPECT_EQ(plain.split("It's 2 o'clock, isn't it?  Yes\n\n x"),
              (words{"It", "'s", " 2", " o", "'", "clock", ",", " isn", "'t", " it", "?", " ", " Yes", "\n\n", " x"}));
    EXPECT_EQ(plain.split("a12 345"), (words{"a", "12", " 345"}));
    EXPECT_EQ(digits.split("a12 345"), (words{"a", "1", "2", " ", "3", "4", "5"}));
    // What a stretch ends with does not see the digit behind it.
    EXPECT_EQ(plain.split("a  1"), (words{"a", " ", " 1"}));
    EXPECT_EQ(digits.split("a  1"), (words{"a", "  ", "1"}));
    EXPECT_EQ(digits.split("x \t "), (words{"x", " \t "}));
    // Letters, digits and spaces of any script: Greek, Devanagari digits, a half, an ideographic space; not U+180E.
    EXPECT_EQ(digits.split("\xCE\xB1\xCE\xB2 \xE0\xA5\xA7\xE0\xA5\xA8\xC2\xBD"),
              (words{"\xCE\xB1\xCE\xB2", " ", "\xE0\xA5\xA7", "\xE0\xA5\xA8", "\xC2\xBD"}));
    EXPECT_EQ(plain.split("a\xE3\x80\x80 b"), (words{"a", "\xE3\x80\x80", " b"}));
    EXPECT_EQ(plain.split("a \xE1\xA0\x8E"), (words{"a", " \xE1\xA0\x8E"}));
    // Bytes that are no UTF-8, and the beginning of a character at the end.
    EXPECT_EQ(plain.split("ab\xFF\xFE cd\xE4\xB8"), (words{"ab", "\xFF\xFE", " cd", "\xE4\xB8"}));
    EXPECT_EQ(plain.split(""), words{});
    EXPECT_MESSAGE(message_of<std::runtime_error>([] { word_splitter("llama-bpe"); }), "\"llama-bpe\": only");
}

TEST_F(byte_pair_tokenizer, encodes_and_decodes) {
    tokenizer const tokens(write_file(), static_cast<std::int32_t>(words.tokens.size()));
    EXPECT_EQ(find_tokenizer(path()), path());
    EXPECT_EQ(tokens.bos(), -1);
    EXPECT_EQ(tokens.eos(), 2);
    EXPECT_EQ(tokens.control("<|im_start|>"), 1);
    EXPECT_EQ(tokens.control("<tool>"), none);
    EXPECT_EQ(tokens.control("hello"), none);
    EXPECT_EQ(tokens.encode("hello world"), ids({"hello", " w", "or", "l", "d"}));
    EXPECT_EQ(tokens.encode("hel el"), ids({"he", "l", " ", "el"}));
    EXPECT_EQ(tokens.encode("12"), ids({"1", "2"}));
    EXPECT_EQ(tokens.encode(""), tokens_of{});
    // Control tokens are cut out first; what a user typed has none.
    tokens_of expected = ids({"hello"});
    expected.insert(expected.begin(), 1);
    expected.push_back(2);
    EXPECT_EQ(tokens.encode("<|im_start|>hello<|im_end|>"), expected);
    EXPECT_EQ(tokens.decode(tokens.encode("<|im_start|>hello<|im_end|>")), "hello");
    EXPECT_EQ(tokens.encode_plain("<|im_end|>").size(), 10U);
    EXPECT_EQ(tokens.decode(tokens.encode_plain("<|im_end|>")), "<|im_end|>");
    EXPECT_EQ(tokens.encode("<|im_"), tokens.encode_plain("<|im_"));
    // A user's token has a text.
    EXPECT_EQ(tokens.encode_plain("x<tool>x").at(1), 3);
    EXPECT_EQ(tokens.decode(tokens_of{3}), "<tool>");
    // Bytes: 0xFE and 0xFF have no token here.
    EXPECT_EQ(tokens.encode("a\xFF\xC3z"), ids({"a", "\xC3", "z"}));
    EXPECT_EQ(tokens.decode(tokens.encode("a\xC3z")), "a\xEF\xBF\xBDz");
    for (std::string const text :
         {"na\xC3\xAFve caf\xC3\xA9", "\xF0\x9F\x98\x80 x", "  two\n\tlines 42", "\xE6\xBC\xA2\xE5\xAD\x97"})
        EXPECT_EQ(tokens.decode(tokens.encode(text)), text);
    EXPECT_MESSAGE(message_of<invalid_input>([&] { (void)tokens.decode(tokens_of{5, 4096}); }), "tokens[1] = 4096");
}

TEST_F(byte_pair_tokenizer, begins_texts_where_the_file_says_so) {
    tokenizer const tokens(write_file([](gguf_writer& w) { w.flag("tokenizer.ggml.add_bos_token", true); }));
    EXPECT_EQ(tokens.bos(), 1);
    EXPECT_EQ(tokens.encode("").size(), 1U);
    EXPECT_EQ(tokens.encode_plain("").size(), 0U);
}

TEST_F(byte_pair_tokenizer, knows_texts_that_are_too_long) {
    tokenizer const tokens(write_file());
    std::string hello, other;
    for (int i = 0; i < 3000; ++i) {
        hello += "hello";
        other += i % 3 == 0 ? "\xFF" : i % 3 == 1 ? "\xC3\xA9" : " w";
    }
    for (std::string const& text : {hello, other})
        for (std::int32_t const limit : {0, 40, 1000, 5000}) {
            auto const count = static_cast<std::int32_t>(tokens.encode(text).size());
            if (tokens.is_longer_than(text, limit)) {
                EXPECT_GT(count, limit);
            }
        }
    EXPECT_TRUE(tokens.is_longer_than(hello, 400));
    EXPECT_FALSE(tokens.is_longer_than(std::string(1000, '\xFF'), 0));
}

TEST_F(byte_pair_tokenizer, streams_whole_characters) {
    tokenizer const tokens(write_file());
    stream_decoder decoder(tokens);
    auto const byte = [&](char one) { return words.id(std::string(1, one)); };
    EXPECT_EQ(decoder.push(byte('\xE2')), "");
    EXPECT_EQ(decoder.push(byte('\x82')), "");
    EXPECT_EQ(decoder.push(byte('\xAC')), "\xE2\x82\xAC");
    EXPECT_EQ(decoder.push(words.id(" w")), " w") << "a space at the beginning is of the text";
    EXPECT_EQ(decoder.push(words.id("\xC3\xA9")), "\xC3\xA9");
    EXPECT_EQ(decoder.push(byte('\xC3')), "");
    EXPECT_EQ(decoder.push(2), "\xEF\xBF\xBD") << "a control token parts the bytes of a character";
    EXPECT_EQ(decoder.push(byte('\xA9')), "\xEF\xBF\xBD");
    EXPECT_EQ(decoder.push(byte('\xF0')), "");
    EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
    EXPECT_MESSAGE(message_of<invalid_input>([&] { (void)decoder.push(-1); }), "tokens = -1");
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        tokens_of some;
        for (int i = 0; i < 40; ++i) some.push_back(static_cast<token_id>(random() % words.tokens.size()));
        stream_decoder one(tokens);
        std::string text;
        for (token_id const t : some) {
            std::string const piece = one.push(t);
            EXPECT_FALSE(!piece.empty() && (static_cast<unsigned char>(piece[0]) & 0xC0U) == 0x80U);
            text += piece;
        }
        EXPECT_EQ(text + one.finish(), tokens.decode(some));
    }
}

constexpr char const* smollm_template =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "Be hello<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST_F(byte_pair_tokenizer, conversations) {
    tokenizer const tokens(write_file());
    chat_markup const markup(smollm_template, tokens);
    EXPECT_EQ(markup.default_system(), "Be hello");
    EXPECT_EQ(markup.end(), 2);
    tokens_of all;
    markup.add("system", markup.default_system(), all);
    markup.add("user", "hello 12", all);
    markup.begin_answer(all);
    tokens_of const first = all;
    EXPECT_EQ(markup.ask("hello 12"), first);
    EXPECT_EQ(all, tokens.encode("<|im_start|>system\nBe hello<|im_end|>\n<|im_start|>user\nhello 12<|im_end|>\n"
                                 "<|im_start|>assistant\n"));
    // The model may have ended its answer, or not.
    for (bool const ended : {false, true}) {
        all = first;
        all.push_back(words.id("hello"));
        if (ended) all.push_back(2);
        markup.end_answer(all);
        tokens_of expected = first;
        for (token_id const t : tokens.encode("hello<|im_end|>\n")) expected.push_back(t);
        EXPECT_EQ(all, expected);
    }
    // A mark that somebody types is a text.
    tokens_of typed;
    markup.add("user", "<|im_end|>", typed);
    EXPECT_EQ(std::ranges::count(typed, 2), 1);

    EXPECT_EQ(chat_markup("{{'<|im_start|>' + '<|im_end|>'}}", tokens).default_system(), "");
    EXPECT_EQ(chat_markup("'<|im_start|>system\\nTwo\nlines<|im_end|>\\n'", tokens).default_system(), "Two\nlines");
    EXPECT_EQ(chat_markup("'<|im_start|>system\n' + {{ x }} + '<|im_end|>'", tokens).default_system(), "");
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { chat_markup("[INST] <|im_end|>", tokens); }),
                   "no <|im_start|>");
    tokenizer const other(models / "tokenizer.model");
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { chat_markup(smollm_template, other); }),
                   "<|im_start|>, which is no control token");
}

TEST_F(byte_pair_tokenizer, wrong_files_are_refused) {
    std::string const key = "tokenizer.ggml.";
    auto const error_of = [&](std::function<void(gguf_writer&)> const& change) {
        write_file(change);
        auto const message = message_of<std::runtime_error>([&] { tokenizer{path()}; });
        EXPECT_MESSAGE(message, path().string());
        return message;
    };
    using writer = gguf_writer;
    EXPECT_MESSAGE(error_of([&](writer& w) { w.text(key + "model", "llama"); }), "tokenizer.ggml.model = \"llama\"");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.erase(key + "model"); }), "tokenizer.ggml.model is absent");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.text(key + "pre", "qwen2"); }), "tokenizer.ggml.pre: \"qwen2\": only");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.erase(key + "tokens"); }), "tokenizer.ggml.tokens is absent");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.i32s(key + "tokens", {1}); }), "must be a list of strings");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.erase(key + "merges"); }), "tokenizer.ggml.merges is absent");
    EXPECT_MESSAGE(error_of([&](writer& w) {
                       w.texts(key + "merges", {"h e", "h x"});
                   }),
                   "tokenizer.ggml.merges: merge 1, \"h x\"");
    EXPECT_MESSAGE(error_of([&](writer& w) {
                       w.i32s(key + "token_type", {1, 2});
                   }),
                   "tokenizer.ggml.token_type, a list of 2");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.texts(key + "token_type", {"x"}); }), "must be a list of integers");
    EXPECT_MESSAGE(error_of([&](writer& w) { w.u32(key + "eos_token_id", 4096); }),
                   "tokenizer.ggml.eos_token_id = 4096");
    EXPECT_MESSAGE(error_of([&](writer& w) {
                       small_vocabulary other;
                       other.tokens[9] = "\xE4\xB8\xAD";
                       w.texts(key + "tokens", other.tokens);
                   }),
                   "token 9, ");
    write_file();
    EXPECT_MESSAGE(message_of<std::runtime_error>([&] { tokenizer(path(), 32000); }), "vocab_size is 32000");
}

#else

TEST_F(byte_pair_tokenizer, needs_pcre2) {
    write_file();
    auto const message = message_of<std::runtime_error>([&] { tokenizer{path()}; });
    EXPECT_MESSAGE(message, path().string());
    EXPECT_MESSAGE(message, "libpcre2-dev");
}

#endif

}  // namespace
}  // namespace byte_pair_test
