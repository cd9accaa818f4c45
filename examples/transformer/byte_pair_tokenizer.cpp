#include "transformer/byte_pair_tokenizer.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include "transformer/byte_pairs.hpp"
#include "transformer/utf8.hpp"
#include "transformer/word_splitter.hpp"

namespace multidraft::examples {
namespace {

/// The types of tokens, by their numbers in the file.
enum token_type : std::int64_t { normal = 1, unknown = 2, control_type = 3, user_defined = 4, unused = 5, byte = 6 };

/// A token that is found in a text as it is.
struct whole_token {
    std::string_view text;  ///< in `implementation::texts`
    token_id id;
    bool control;
};

class implementation final : public tokenizer::implementation {
public:
    implementation(std::vector<std::string> texts, std::vector<std::int64_t> types, byte_pairs pairs,
                   std::string_view way, token_id bos, token_id eos, bool begins)
        : texts_(std::move(texts)),
          types_(std::move(types)),
          pairs_(std::move(pairs)),
          splitter_(way),
          bos_(begins ? bos : none),
          eos_(eos) {
        for (std::size_t t = 0; t < texts_.size(); ++t) {
            longest_ = std::max(longest_, texts_[t].size());
            bool const is_control = types_[t] == control_type;
            if ((is_control || types_[t] == user_defined) && !texts_[t].empty())
                whole_.push_back({texts_[t], static_cast<token_id>(t), is_control});
        }
        // Of those that begin at a place, the longest.
        std::ranges::sort(whole_, std::ranges::greater{}, [](whole_token const& t) { return t.text.size(); });
    }

    [[nodiscard]] std::vector<token_id> encode(std::string_view text, bool names) const override {
        std::vector<token_id> tokens;
        std::size_t begin = 0;
        auto const encode_to = [&](std::size_t end) {
            for (std::string_view const word : splitter_.split(text.substr(begin, end - begin)))
                pairs_.encode(word, tokens);
        };
        for (std::size_t at = 0; at < text.size();) {
            auto const found = std::ranges::find_if(whole_, [&](whole_token const& t) {
                return (names || !t.control) && text.substr(at).starts_with(t.text);
            });
            if (found == whole_.end()) {
                ++at;
                continue;
            }
            encode_to(at);
            tokens.push_back(found->id);
            at += found->text.size();
            begin = at;
        }
        encode_to(text.size());
        return tokens;
    }

    [[nodiscard]] bool is_longer_than(std::string_view text, std::int32_t tokens) const override {
        // Only the bytes that have no token are not in one.
        std::size_t const spelled = static_cast<std::size_t>(
            std::ranges::count_if(text, [&](char const one) { return pairs_.has(static_cast<unsigned char>(one)); }));
        return spelled / longest_ > static_cast<std::size_t>(std::max(tokens, 0));
    }

    [[nodiscard]] std::string decode(std::span<token_id const> tokens) const override {
        std::string text;
        std::string held;
        for (token_id const t : tokens) {
            token_piece const one = piece(t);
            held += one.text;
            release_characters(held, text, one.is == token_piece::kind::control);
        }
        release_characters(held, text, true);
        return text;
    }

    [[nodiscard]] token_piece piece(token_id token) const override {
        auto const t = static_cast<std::size_t>(token);
        if (types_[t] == control_type) return {};
        return {token_piece::kind::bytes, texts_[t]};
    }

    [[nodiscard]] token_id control(std::string_view name) const override {
        auto const found =
            std::ranges::find_if(whole_, [&](whole_token const& t) { return t.control && t.text == name; });
        return found == whole_.end() ? none : found->id;
    }

    [[nodiscard]] std::int32_t vocabulary() const noexcept override { return static_cast<std::int32_t>(texts_.size()); }
    [[nodiscard]] token_id bos() const noexcept override { return bos_; }
    [[nodiscard]] token_id eos() const noexcept override { return eos_; }

private:
    std::vector<std::string> texts_;  ///< what they spell; the names of control tokens
    std::vector<std::int64_t> types_;
    byte_pairs pairs_;
    word_splitter splitter_;
    token_id bos_;
    token_id eos_;
    std::size_t longest_ = 1;
    std::vector<whole_token> whole_;
};

}  // namespace

std::unique_ptr<tokenizer::implementation const> byte_pair_tokenizer(gguf_file const& file) {
    std::string const key = "tokenizer.ggml.";
    if (file.text(key + "model").value_or("") != "gpt2") {
        file.refuse(key + "model",
                    "only the byte-level \"gpt2\" is read from a GGUF file; name a tokenizer.model with --tokenizer");
    }
    auto const spellings = file.texts(key + "tokens");
    if (!spellings || spellings->empty()) file.refuse(key + "tokens", "a tokenizer has tokens");
    auto const merges = file.texts(key + "merges");
    if (!merges) file.refuse(key + "merges", "byte-level tokens are merged by them");
    if (spellings->size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
        file.refuse(key + "tokens", "too many");
    auto types = file.integers(key + "token_type").value_or(std::vector<std::int64_t>(spellings->size(), normal));
    if (types.size() != spellings->size())
        file.refuse(key + "token_type", "must have one for each of " + std::to_string(spellings->size()) + " tokens");
    std::vector<std::string> texts;
    std::vector<std::string> words;  // without those that are no bytes to be merged
    for (std::size_t t = 0; t < spellings->size(); ++t) {
        auto const& spelling = (*spellings)[t];
        bool const merged = types[t] == normal;
        if (!merged) {
            texts.emplace_back(spelling);
        } else if (auto bytes = bytes_of_spelling(spelling)) {
            texts.push_back(std::move(*bytes));
        } else {
            file.refuse(key + "tokens", "token " + std::to_string(t) + ", \"" + std::string(spelling) +
                                            "\", is not spelled in the characters of bytes");
        }
        words.push_back(merged ? texts.back() : "");
    }
    auto const token = [&](char const* name) {
        std::int64_t const id = file.integer(key + name).value_or(none);
        if (id < -1 || id >= static_cast<std::int64_t>(texts.size()))
            file.refuse(key + name, "must be in [0, " + std::to_string(texts.size()) + ")");
        return static_cast<token_id>(id);
    };
    bool const begins = file.flag(key + "add_bos_token").value_or(false);
    token_id const bos = token("bos_token_id");
    token_id const eos = token("eos_token_id");
    std::string at = key + "merges";
    try {
        byte_pairs pairs(words, *merges);
        at = key + "pre";
        return std::make_unique<implementation const>(std::move(texts), std::move(types), std::move(pairs),
                                                      file.text(at).value_or(""), bos, eos, begins);
    } catch (std::runtime_error const& e) {
        throw std::runtime_error(file.name() + ": " + at + ": " + e.what());
    }
}

}  // namespace multidraft::examples
