// Text to tokens and back, by a SentencePiece model or the byte-level vocabulary of a GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// A `tokenizer.model`, or the tokenizer in a GGUF file. Constant after construction, so one may serve several threads.
class tokenizer {
public:
    /// Loads the file. With a `vocabulary` other than 0 the number of pieces must equal it: pass the model's, so that a
    /// tokenizer of another model is refused. Throws `std::runtime_error`.
    explicit tokenizer(std::filesystem::path const& file, std::int32_t vocabulary = 0);
    ~tokenizer();
    tokenizer(tokenizer&&) noexcept;
    tokenizer& operator=(tokenizer&&) noexcept;

    /// The tokens of a text, with the token that begins one in front, if the model has one. The name of a control token
    /// in the text is this token where the kind of tokenizer reads them (GGUF).
    [[nodiscard]] std::vector<token_id> encode(std::string_view text) const;
    /// The tokens of a text alone, in which such names are texts as others: for what a user typed.
    [[nodiscard]] std::vector<token_id> encode_plain(std::string_view text) const;
    /// Whether a text certainly has more than that many tokens, determined from its beginning: a token has a bounded
    /// number of characters. False is inconclusive.
    [[nodiscard]] bool is_longer_than(std::string_view text, std::int32_t tokens) const;
    /// The text of some tokens; control tokens have none.
    [[nodiscard]] std::string decode(std::span<token_id const> tokens) const;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] token_id bos() const noexcept;  ///< the token that begins a text, or -1
    [[nodiscard]] token_id eos() const noexcept;  ///< the token that ends a text, or -1
    /// The control token of that name, or -1.
    [[nodiscard]] token_id control(std::string_view name) const;

    struct implementation;  ///< of a kind: tokenizer_kind.hpp

private:
    friend class stream_decoder;
    std::unique_ptr<implementation const> implementation_;
};

/// Decodes token after token, for output while a text grows: the pieces it returns, with that of `finish()`, join to
/// what `tokenizer::decode` makes of all tokens.
///
/// A character may be spelled by several tokens, of one or more bytes each, so the bytes of an unfinished character are
/// held back until it is complete.
class stream_decoder {
public:
    /// At the beginning of a text the space that SentencePiece inserts is dropped, but not in a continuation.
    explicit stream_decoder(tokenizer const& tokens, bool at_beginning = true)
        : tokens_(&tokens), at_beginning_(at_beginning) {}

    /// The text that the token completes.
    [[nodiscard]] std::string push(token_id token);
    /// The remaining text; afterwards the decoder is in the state after the text so far.
    [[nodiscard]] std::string finish();

private:
    tokenizer const* tokens_;
    std::string held_;
    bool at_beginning_;
};

/// The tokenizer of a model directory: `tokenizer.model` in it, or beside it for models that share one. That of a GGUF
/// file is in the file.
[[nodiscard]] std::filesystem::path find_tokenizer(std::filesystem::path const& model_directory);

}  // namespace multidraft::examples
