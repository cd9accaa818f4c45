// Byte-level byte-pair encoding: the vocabulary and the merges of GPT-2's kind of tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// The bytes that a token of such a vocabulary spells, each by one printable character; empty if another character is
/// among them.
[[nodiscard]] std::optional<std::string> bytes_of_spelling(std::string_view spelling);

/// Merges the bytes of a word into tokens. Constant after construction.
class byte_pairs {
public:
    /// `words[t]`: the bytes of token t, empty for one that no text has. `merges`: pairs of spellings with a space
    /// between, the first ones first. Throws `std::runtime_error` that names the merge whose parts or result are no
    /// tokens.
    byte_pairs(std::vector<std::string> const& words, std::vector<std::string_view> const& merges);

    /// Appends the tokens of a word: of the pairs that are side by side the first one of the list is merged, the
    /// leftmost where there are several. Bytes for which there is no token are left out, as in Hugging Face's
    /// tokenizers. Cost: O(n log n) for n bytes.
    void encode(std::string_view word, std::vector<token_id>& tokens) const;
    /// Whether there is a token for this byte alone.
    [[nodiscard]] bool has(unsigned char byte) const noexcept { return of_byte_[byte] != none; }

private:
    struct merge {
        std::int32_t rank;
        token_id whole;
    };
    static constexpr std::uint64_t pair_of(token_id left, token_id right) noexcept {
        return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
    }

    std::array<token_id, 256> of_byte_{};
    std::unordered_map<std::uint64_t, merge> merges_;
};

}  // namespace multidraft::examples
