#include "transformer/word_splitter.hpp"

#include <stdexcept>
#include <utility>

#include "transformer/utf8.hpp"

#ifdef MULTIDRAFT_EXAMPLES_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <functional>
#endif

namespace multidraft::examples {

#ifdef MULTIDRAFT_EXAMPLES_PCRE2

namespace {

// White_Space as Unicode has it: PCRE2's own \s differs in a character.
#define WHITE \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

constexpr char const* digit_pattern = "\\p{N}";
constexpr char const* word_pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}++| ?\\p{N}++| ?[^" WHITE
                                     "\\p{L}\\p{N}]++|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+";

#undef WHITE

[[noreturn]] void fail(char const* what, int error) {
    std::array<PCRE2_UCHAR, 128> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw std::runtime_error(std::string("tokenizer: ") + what + ": " + reinterpret_cast<char const*>(message.data()));
}

/// A compiled expression.
struct expression {
    explicit expression(char const* pattern) {
        int error = 0;
        PCRE2_SIZE at = 0;
        code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                 &error, &at, nullptr));
        if (!code) fail("regular expression", error);
        pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where the library cannot, it interprets
    }

    /// Calls `found(begin, end)` for the matches in a text that is UTF-8.
    void each(std::string_view text, std::function<void(std::size_t, std::size_t)> const& found) const {
        struct free_match {
            void operator()(pcre2_match_data* match) const noexcept { pcre2_match_data_free(match); }
        };
        std::unique_ptr<pcre2_match_data, free_match> const match(
            pcre2_match_data_create_from_pattern(code.get(), nullptr));
        if (!match) throw std::bad_alloc();
        std::size_t at = 0;
        while (at < text.size()) {
            int const count = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                          PCRE2_NO_UTF_CHECK, match.get(), nullptr);
            if (count == PCRE2_ERROR_NOMATCH) return;
            if (count < 0) fail("a text cannot be split into words", count);
            PCRE2_SIZE const* const ends = pcre2_get_ovector_pointer(match.get());
            found(ends[0], ends[1]);
            at = ends[1];
        }
    }

    struct free_code {
        void operator()(pcre2_code* one) const noexcept { pcre2_code_free(one); }
    };
    std::unique_ptr<pcre2_code, free_code> code;
};

}  // namespace

struct word_splitter::rules {
    bool digits_apart;
    expression digit{digit_pattern};
    expression word{word_pattern};
};

word_splitter::word_splitter(std::string_view way) {
    if (way != "smollm" && way != "gpt-2")
        throw std::runtime_error("\"" + std::string(way) + "\": only \"smollm\" and \"gpt-2\" are implemented");
    rules_ = std::make_unique<rules const>(rules{way == "smollm"});
}

std::vector<std::string_view> word_splitter::split(std::string_view text) const {
    std::vector<std::string_view> words;
    // The expression sees each stretch alone: what a word may look ahead at ends with it.
    auto const split_stretch = [&](std::string_view stretch) {
        rules_->word.each(
            stretch, [&](std::size_t begin, std::size_t end) { words.push_back(stretch.substr(begin, end - begin)); });
    };
    auto const split_valid = [&](std::string_view valid) {
        std::size_t done = 0;
        if (rules_->digits_apart)
            rules_->digit.each(valid, [&](std::size_t begin, std::size_t end) {
                split_stretch(valid.substr(done, begin - done));
                words.push_back(valid.substr(begin, end - begin));
                done = end;
            });
        split_stretch(valid.substr(done));
    };
    std::size_t begin = 0;
    bool valid = true;
    auto const end_at = [&](std::size_t end) {
        std::string_view const stretch = text.substr(begin, end - begin);
        if (stretch.empty()) return;
        if (valid)
            split_valid(stretch);
        else
            words.push_back(stretch);
        begin = end;
    };
    for (std::size_t at = 0; at < text.size();) {
        auto const [length, complete] = examine(text.substr(at));
        if (complete != valid) {
            end_at(at);
            valid = complete;
        }
        at += complete ? length : 1;
    }
    end_at(text.size());
    return words;
}

#else

struct word_splitter::rules {};

word_splitter::word_splitter(std::string_view) {
    throw std::runtime_error(
        "byte-level tokens need PCRE2, which this build lacks (libpcre2-dev; tools/setup installs it)");
}

std::vector<std::string_view> word_splitter::split(std::string_view text) const { return {text}; }

#endif

word_splitter::~word_splitter() = default;

}  // namespace multidraft::examples
