// `generate --chat`: questions and answers on the terminal.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "generate/methods.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// How a model is talked to.
struct chat_options {
    std::string question;                 ///< empty: the lines of standard input, each with the conversation before it
    std::optional<std::string> system{};  ///< the system message; by default that of the model's template
    bool json = false;                    ///< an object an answer, instead of its text as it grows
};

/// Whether a method needs no draft model.
[[nodiscard]] bool drafts_without_model(method const& how);

/// Answers by the chat template of the model, a GGUF file. What each answer took goes to standard error. Without a
/// draft model the target's cache is kept from turn to turn, and only what is new is read. Throws `std::runtime_error`
/// for a model without a template that is known, and for a conversation that is longer than its context.
int chat(std::filesystem::path const& model, transformer& target, transformer& draft, tokenizer const& tokens,
         method const& how, topology const& shape, generation_options options, chat_options const& what);

}  // namespace multidraft::examples
