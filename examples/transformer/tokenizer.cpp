#include "transformer/tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view space_mark = "\xE2\x96\x81";   // U+2581, SentencePiece's space

/// The bytes at the front of a string: a whole character of `length` bytes, the beginning of one (`complete` false), or
/// invalid UTF-8 (`length` 0).
struct utf8_prefix {
    std::size_t length;
    bool complete;
};

utf8_prefix examine(std::string_view bytes) noexcept {
    auto const at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    unsigned const lead = at(0);
    std::size_t length = 0;
    unsigned low = 0x80;  // bounds of the second byte: no overlong forms, surrogates or values beyond U+10FFFF
    unsigned high = 0xBF;
    if (lead < 0x80) return {1, true};
    if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return {0, false};
    }
    for (std::size_t i = 1; i < length; ++i) {
        if (i == bytes.size()) return {length, false};
        if (at(i) < low || at(i) > high) return {0, false};
        low = 0x80;
        high = 0xBF;
    }
    return {length, true};
}

/// Moves the decoded part of `held` to the end of `text`: whole characters as they are, invalid bytes as U+FFFD, one
/// each. With `all` the unfinished character at the end counts as such bytes.
void release(std::string& held, std::string& text, bool all) {
    std::size_t done = 0;
    while (done < held.size()) {
        auto const [length, complete] = examine(std::string_view(held).substr(done));
        if (complete) {
            text.append(held, done, length);
            done += length;
        } else if (length == 0 || all) {
            text += replacement;
            ++done;
        } else {
            break;
        }
    }
    held.erase(0, done);
}

/// The characters of a text that is UTF-8.
std::size_t characters(std::string_view text) noexcept {
    std::size_t count = 0;
    for (char const byte : text) count += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;
    return count;
}

}  // namespace

struct tokenizer::implementation {
    sentencepiece::SentencePieceProcessor processor;

    /// Characters of the longest piece.
    [[nodiscard]] std::size_t longest_piece() const {
        std::size_t longest = 1;
        for (int id = 0; id < processor.GetPieceSize(); ++id)
            if (!processor.IsControl(id) && !processor.IsByte(id))
                longest = std::max(longest, characters(processor.IdToPiece(id)));
        return longest;
    }

    void check(token_id token, std::int64_t index) const {
        if (token < 0 || token >= processor.GetPieceSize()) {
            refuse("tokens", index, token, "must be in [0, " + std::to_string(processor.GetPieceSize()) + ")");
        }
    }
};

tokenizer::tokenizer(std::filesystem::path const& file, std::int32_t vocabulary)
    : implementation_(std::make_unique<implementation>()) {
    auto const status = implementation_->processor.Load(file.string());
    if (!status.ok()) throw std::runtime_error(file.string() + ": " + status.ToString());
    if (vocabulary != 0 && vocabulary != this->vocabulary()) {
        throw std::runtime_error(file.string() + ": has " + std::to_string(this->vocabulary()) +
                                 " pieces, but the model's vocab_size is " + std::to_string(vocabulary));
    }
}

tokenizer::~tokenizer() = default;
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;

std::vector<token_id> tokenizer::encode(std::string_view text) const {
    std::vector<token_id> tokens;
    auto const status = implementation_->processor.Encode({text.data(), text.size()}, &tokens);
    if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
    if (bos() >= 0) tokens.insert(tokens.begin(), bos());
    return tokens;
}

bool tokenizer::is_longer_than(std::string_view text, std::int32_t tokens) const {
    auto const& processor = implementation_->processor;
    auto const limit = static_cast<std::size_t>(std::max(tokens, 0));
    std::size_t const longest = implementation_->longest_piece();
    // The reach of normalisation: characters before the cut that may change because of those after it.
    constexpr std::size_t at_the_cut = 64;
    for (std::size_t take = 2 * (limit + at_the_cut) * longest; take < text.size(); take *= 2) {
        std::size_t cut = take;
        while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
        std::vector<int> ids;
        auto const status = processor.Encode({text.data(), cut}, &ids);
        if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
        // Characters after normalisation. Unknown ones count for nothing, since any number of them is one token; a
        // character that is spelled in bytes has up to four.
        std::size_t known = 0;
        std::size_t bytes = 0;
        for (int const id : ids) {
            if (processor.IsByte(id))
                ++bytes;
            else if (!processor.IsUnknown(id))
                known += characters(processor.IdToPiece(id));
        }
        if (known + bytes / 4 > limit * longest + at_the_cut) return true;
    }
    return false;
}

std::string tokenizer::decode(std::span<token_id const> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) implementation_->check(tokens[i], static_cast<std::int64_t>(i));
    std::string text;
    auto const status = implementation_->processor.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
    return text;
}

std::int32_t tokenizer::vocabulary() const noexcept { return implementation_->processor.GetPieceSize(); }
token_id tokenizer::bos() const noexcept { return implementation_->processor.bos_id(); }
token_id tokenizer::eos() const noexcept { return implementation_->processor.eos_id(); }

std::string stream_decoder::push(token_id token) {
    tokens_->implementation_->check(token, -1);
    auto const& processor = tokens_->implementation_->processor;
    std::string text;
    if (processor.IsByte(token)) {  // its piece reads <0xE2>
        held_ += static_cast<char>(std::stoi(processor.IdToPiece(token).substr(3, 2), nullptr, 16));
        release(held_, text, false);
        if (!text.empty()) at_beginning_ = false;
        return text;
    }
    // Any other piece ends a run of bytes, one without a text too.
    if (processor.IsControl(token)) return finish();
    text = finish();
    if (processor.IsUnknown(token)) {
        at_beginning_ = false;
        return text += processor.DecodeIds(std::vector<int>{token});
    }
    std::string_view piece = processor.IdToPiece(token);
    if (at_beginning_ && piece.starts_with(space_mark)) piece.remove_prefix(space_mark.size());
    at_beginning_ = false;
    while (!piece.empty()) {
        std::size_t const mark = piece.find(space_mark);
        text += piece.substr(0, mark);
        if (mark == std::string_view::npos) break;
        text += ' ';
        piece.remove_prefix(mark + space_mark.size());
    }
    return text;
}

std::string stream_decoder::finish() {
    std::string text;
    release(held_, text, true);
    if (!text.empty()) at_beginning_ = false;
    return text;
}

std::filesystem::path find_tokenizer(std::filesystem::path const& model_directory) {
    auto const inside = model_directory / "tokenizer.model";
    if (std::filesystem::exists(inside)) return inside;
    // An absolute path without a slash at its end, so that its parent is the directory that holds it.
    auto const whole = std::filesystem::absolute(model_directory / ".").lexically_normal().parent_path();
    auto const beside = whole.parent_path() / "tokenizer.model";
    if (std::filesystem::exists(beside)) return beside;
    throw std::runtime_error(model_directory.string() + ": no tokenizer.model in it or beside it");
}

}  // namespace multidraft::examples
