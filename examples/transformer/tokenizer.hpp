// Text to tokens and back, by a SentencePiece model.
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

/// A `tokenizer.model`. Constant after construction, so one may serve several threads.
class tokenizer {
public:
    /// Loads the file. With a `vocabulary` other than 0 the number of pieces must equal it: pass the model's, so that a
    /// tokenizer of another model is refused. Throws `std::runtime_error`.
    explicit tokenizer(std::filesystem::path const& file, std::int32_t vocabulary = 0);
    ~tokenizer();
    tokenizer(tokenizer&&) noexcept;
    tokenizer& operator=(tokenizer&&) noexcept;

    /// The tokens of a text, with the token that begins one in front.
    [[nodiscard]] std::vector<token_id> encode(std::string_view text) const;
    /// Whether a text certainly has more than that many tokens, determined from its beginning: a token has a bounded
    /// number of characters. False is inconclusive.
    [[nodiscard]] bool is_longer_than(std::string_view text, std::int32_t tokens) const;
    /// The text of some tokens; control tokens have none.
    [[nodiscard]] std::string decode(std::span<token_id const> tokens) const;

    [[nodiscard]] std::int32_t vocabulary() const noexcept;
    [[nodiscard]] token_id bos() const noexcept;  ///< the token that begins a text, or -1
    [[nodiscard]] token_id eos() const noexcept;  ///< the token that ends a text, or -1

private:
    friend class stream_decoder;
    struct implementation;
    std::unique_ptr<implementation> implementation_;
};

/// Decodes token after token, for output while a text grows: the pieces it returns, with that of `finish()`, join to
/// what `tokenizer::decode` makes of all tokens.
///
/// A character outside the vocabulary is spelled by one token a byte, so the bytes of an unfinished character are held
/// back until it is complete.
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

/// The tokenizer of a model directory: `tokenizer.model` in it, or beside it for models that share one.
[[nodiscard]] std::filesystem::path find_tokenizer(std::filesystem::path const& model_directory);

}  // namespace multidraft::examples
