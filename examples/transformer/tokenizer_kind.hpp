// What a kind of tokenizer must do: SentencePiece models and the byte-level vocabularies of GGUF files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/config.hpp"
#include "transformer/tokenizer.hpp"

namespace multidraft::examples {

/// What a token adds to a text.
struct token_piece {
    enum class kind {
        bytes,    ///< some bytes, perhaps of an unfinished character
        text,     ///< whole characters, which end the bytes before
        control,  ///< nothing; it ends the bytes before
    };
    kind is = kind::control;
    std::string text{};
    bool drops_space = false;  ///< at the beginning of a text its first character, a space, is dropped
};

struct tokenizer::implementation {
    implementation() = default;
    implementation(implementation const&) = delete;
    implementation& operator=(implementation const&) = delete;
    virtual ~implementation() = default;

    /// The tokens of a text, without the one that begins it. With `names` the names of control tokens in the text are
    /// these tokens.
    [[nodiscard]] virtual std::vector<token_id> encode(std::string_view text, bool names) const = 0;
    [[nodiscard]] virtual bool is_longer_than(std::string_view text, std::int32_t tokens) const = 0;
    [[nodiscard]] virtual std::string decode(std::span<token_id const> tokens) const = 0;
    [[nodiscard]] virtual token_piece piece(token_id token) const = 0;
    [[nodiscard]] virtual token_id control(std::string_view name) const = 0;
    [[nodiscard]] virtual std::int32_t vocabulary() const noexcept = 0;
    [[nodiscard]] virtual token_id bos() const noexcept = 0;
    [[nodiscard]] virtual token_id eos() const noexcept = 0;

    /// Refuses a token that is none.
    void check(token_id token, std::int64_t index) const;
};

}  // namespace multidraft::examples
