// Text and tokens by llama.cpp's own functions: tokenising, pieces of a text, chat templates, comparing vocabularies.
#pragma once

#include <llama.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// The tokens of a text, with those that begin one by the model's settings. `special`: names of control tokens in the
/// text, such as <|im_start|>, become those tokens; templates need it. Throws `std::runtime_error`.
std::vector<token_id> tokenize(llama_vocab const* vocabulary, std::string_view text, bool special);

/// The bytes of a token, which may be a part of a character.
std::string piece(llama_vocab const* vocabulary, token_id token);

/// The text of some tokens as a continuation.
std::string text_of(llama_vocab const* vocabulary, std::vector<token_id> const& tokens);

/// The tokens that end a text or a turn.
std::vector<token_id> end_tokens(llama_vocab const* vocabulary);

/// The first difference of a draft model's vocabulary from the target's, in words; empty if they are equal.
std::optional<std::string> vocabulary_difference(llama_vocab const* target, llama_vocab const* draft);

/// A conversation of role and content, up to where the assistant is to speak, by a template: that of the model where
/// `name` is empty, with the system message that it writes itself where there is no other, or one that llama.cpp knows
/// by that name. Throws `std::runtime_error` where there is none.
std::string apply_chat_template(::llama_model const* model, std::string const& name,
                                std::vector<std::pair<std::string, std::string>> const& messages);

}  // namespace multidraft::examples
