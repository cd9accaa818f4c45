#include "transformer/tokenizer.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "multidraft/base/error.hpp"
#include "transformer/byte_pair_tokenizer.hpp"
#include "transformer/gguf.hpp"
#include "transformer/tokenizer_kind.hpp"
#include "transformer/utf8.hpp"

namespace multidraft::examples {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

/// The characters of a text that is UTF-8.
std::size_t characters(std::string_view text) noexcept {
    std::size_t count = 0;
    for (char const byte : text) count += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1 : 0;
    return count;
}

/// A SentencePiece model.
class sentence_pieces final : public tokenizer::implementation {
public:
    explicit sentence_pieces(std::filesystem::path const& file) {
        auto const status = processor_.Load(file.string());
        if (!status.ok()) throw std::runtime_error(file.string() + ": " + status.ToString());
    }

    [[nodiscard]] std::vector<token_id> encode(std::string_view text, bool) const override {
        std::vector<token_id> tokens;
        auto const status = processor_.Encode({text.data(), text.size()}, &tokens);
        if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
        return tokens;
    }

    [[nodiscard]] bool is_longer_than(std::string_view text, std::int32_t tokens) const override {
        auto const limit = static_cast<std::size_t>(std::max(tokens, 0));
        std::size_t const longest = longest_piece();
        // The reach of normalisation: characters before the cut that may change because of those after it.
        constexpr std::size_t at_the_cut = 64;
        for (std::size_t take = 2 * (limit + at_the_cut) * longest; take < text.size(); take *= 2) {
            std::size_t cut = take;
            while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
            std::vector<int> ids;
            auto const status = processor_.Encode({text.data(), cut}, &ids);
            if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
            // Characters after normalisation. Unknown ones count for nothing, since any number of them is one token; a
            // character that is spelled in bytes has up to four.
            std::size_t known = 0;
            std::size_t bytes = 0;
            for (int const id : ids) {
                if (processor_.IsByte(id))
                    ++bytes;
                else if (!processor_.IsUnknown(id))
                    known += characters(processor_.IdToPiece(id));
            }
            if (known + bytes / 4 > limit * longest + at_the_cut) return true;
        }
        return false;
    }

    [[nodiscard]] std::string decode(std::span<token_id const> tokens) const override {
        std::string text;
        auto const status = processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
        if (!status.ok()) throw std::runtime_error("tokenizer: " + status.ToString());
        return text;
    }

    [[nodiscard]] token_piece piece(token_id token) const override {
        using kind = token_piece::kind;
        if (processor_.IsByte(token)) {  // its piece reads <0xE2>
            auto const byte = static_cast<char>(std::stoi(processor_.IdToPiece(token).substr(3, 2), nullptr, 16));
            return {kind::bytes, std::string(1, byte)};
        }
        if (processor_.IsControl(token)) return {};
        if (processor_.IsUnknown(token)) return {kind::text, processor_.DecodeIds(std::vector<int>{token})};
        std::string_view rest = processor_.IdToPiece(token);
        token_piece result{kind::text, {}, rest.starts_with(space_mark)};
        while (!rest.empty()) {
            std::size_t const mark = rest.find(space_mark);
            result.text += rest.substr(0, mark);
            if (mark == std::string_view::npos) break;
            result.text += ' ';
            rest.remove_prefix(mark + space_mark.size());
        }
        return result;
    }

    [[nodiscard]] token_id control(std::string_view name) const override {
        int const id = processor_.PieceToId({name.data(), name.size()});
        return processor_.IsControl(id) ? id : none;
    }

    [[nodiscard]] std::int32_t vocabulary() const noexcept override { return processor_.GetPieceSize(); }
    [[nodiscard]] token_id bos() const noexcept override { return processor_.bos_id(); }
    [[nodiscard]] token_id eos() const noexcept override { return processor_.eos_id(); }

private:
    /// Characters of the longest piece.
    [[nodiscard]] std::size_t longest_piece() const {
        std::size_t longest = 1;
        for (int id = 0; id < processor_.GetPieceSize(); ++id)
            if (!processor_.IsControl(id) && !processor_.IsByte(id))
                longest = std::max(longest, characters(processor_.IdToPiece(id)));
        return longest;
    }

    sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

void tokenizer::implementation::check(token_id token, std::int64_t index) const {
    if (token < 0 || token >= vocabulary())
        refuse("tokens", index, token, "must be in [0, " + std::to_string(vocabulary()) + ")");
}

tokenizer::tokenizer(std::filesystem::path const& file, std::int32_t vocabulary) {
    if (gguf_file::is_one(file))
        implementation_ = byte_pair_tokenizer(gguf_file(file));
    else
        implementation_ = std::make_unique<sentence_pieces const>(file);
    if (vocabulary != 0 && vocabulary != this->vocabulary()) {
        throw std::runtime_error(file.string() + ": has " + std::to_string(this->vocabulary()) +
                                 " pieces, but the model's vocab_size is " + std::to_string(vocabulary));
    }
}

tokenizer::~tokenizer() = default;
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;

std::vector<token_id> tokenizer::encode(std::string_view text) const {
    std::vector<token_id> tokens = implementation_->encode(text, true);
    if (bos() >= 0) tokens.insert(tokens.begin(), bos());
    return tokens;
}

std::vector<token_id> tokenizer::encode_plain(std::string_view text) const {
    return implementation_->encode(text, false);
}

bool tokenizer::is_longer_than(std::string_view text, std::int32_t tokens) const {
    return implementation_->is_longer_than(text, tokens);
}

std::string tokenizer::decode(std::span<token_id const> tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) implementation_->check(tokens[i], static_cast<std::int64_t>(i));
    return implementation_->decode(tokens);
}

std::int32_t tokenizer::vocabulary() const noexcept { return implementation_->vocabulary(); }
token_id tokenizer::bos() const noexcept { return implementation_->bos(); }
token_id tokenizer::eos() const noexcept { return implementation_->eos(); }
token_id tokenizer::control(std::string_view name) const { return implementation_->control(name); }

std::string stream_decoder::push(token_id token) {
    tokens_->implementation_->check(token, -1);
    token_piece const one = tokens_->implementation_->piece(token);
    if (one.is == token_piece::kind::bytes) {
        std::string text;
        held_ += one.text;
        release_characters(held_, text, false);
        if (!text.empty()) at_beginning_ = false;
        return text;
    }
    // Any other piece ends a run of bytes, one without a text too.
    std::string text = finish();
    if (one.is == token_piece::kind::control) return text;
    text += at_beginning_ && one.drops_space ? std::string_view(one.text).substr(1) : std::string_view(one.text);
    at_beginning_ = false;
    return text;
}

std::string stream_decoder::finish() {
    std::string text;
    release_characters(held_, text, true);
    if (!text.empty()) at_beginning_ = false;
    return text;
}

std::filesystem::path find_tokenizer(std::filesystem::path const& model_directory) {
    if (gguf_file::is_one(model_directory)) return model_directory;
    auto const inside = model_directory / "tokenizer.model";
    if (std::filesystem::exists(inside)) return inside;
    // An absolute path without a slash at its end, so that its parent is the directory that holds it.
    auto const whole = std::filesystem::absolute(model_directory / ".").lexically_normal().parent_path();
    auto const beside = whole.parent_path() / "tokenizer.model";
    if (std::filesystem::exists(beside)) return beside;
    throw std::runtime_error(model_directory.string() + ": no tokenizer.model in it or beside it");
}

}  // namespace multidraft::examples
