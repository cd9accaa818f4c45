// `generate --chat`: questions and answers on the terminal.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "generate/methods.hpp"
#include "multidraft/base/config.hpp"
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
    /// Called with the first conversation before it is answered: for trees that are chosen at each step it sets how.
    /// Returns the file of the costs by which they are, empty where there is none.
    std::function<std::string(std::span<token_id const> conversation)> choose{};
};

/// Whether the method of that name needs no draft model.
[[nodiscard]] bool drafts_without_model(std::string_view method);

/// Answers by the chat template of the model, a GGUF file. What each answer took goes to standard error. Without a
/// draft model, and with a block drafter, caches are kept from turn to turn, and only what is new is read. Throws
/// `std::runtime_error` for a model without a template that is known, and for a conversation that is longer than its
/// context.
int chat(std::filesystem::path const& model, transformer& target, transformer& draft, tokenizer const& tokens,
         method const& how, topology const& shape, generation_options options, chat_options const& what);

}  // namespace multidraft::examples
