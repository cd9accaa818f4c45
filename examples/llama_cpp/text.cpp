#include "llama_cpp/text.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

#include "chat_template.hpp"

namespace multidraft::examples {

std::vector<token_id> tokenize(llama_vocab const* vocabulary, std::string_view text, bool special) {
    if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() - 16))
        throw std::runtime_error("a text of " + std::to_string(text.size()) + " bytes is too long for llama.cpp");
    auto const size = static_cast<std::int32_t>(text.size());
    std::vector<token_id> tokens(text.size() / 2 + 16);
    for (;;) {
        std::int32_t const count = llama_tokenize(vocabulary, text.data(), size, tokens.data(),
                                                  static_cast<std::int32_t>(tokens.size()), true, special);
        if (count >= 0) {
            tokens.resize(static_cast<std::size_t>(count));
            return tokens;
        }
        if (count == std::numeric_limits<std::int32_t>::min() || static_cast<std::size_t>(-count) <= tokens.size())
            throw std::runtime_error("llama.cpp cannot tokenise the text");
        tokens.resize(static_cast<std::size_t>(-count));
    }
}

std::string piece(llama_vocab const* vocabulary, token_id token) {
    std::string text(32, '\0');
    for (;;) {
        std::int32_t const count =
            llama_token_to_piece(vocabulary, token, text.data(), static_cast<std::int32_t>(text.size()), 0, false);
        if (count >= 0) {
            text.resize(static_cast<std::size_t>(count));
            return text;
        }
        text.resize(static_cast<std::size_t>(-count));
    }
}

std::string text_of(llama_vocab const* vocabulary, std::vector<token_id> const& tokens) {
    std::string text;
    for (token_id const token : tokens) text += piece(vocabulary, token);
    return text;
}

std::vector<token_id> end_tokens(llama_vocab const* vocabulary) {
    std::vector<token_id> tokens;
    for (token_id t = 0; t < llama_vocab_n_tokens(vocabulary); ++t)
        if (llama_vocab_is_eog(vocabulary, t)) tokens.push_back(t);
    return tokens;
}

std::optional<std::string> vocabulary_difference(llama_vocab const* target, llama_vocab const* draft) {
    if (llama_vocab_type(target) != llama_vocab_type(draft))
        return "the target's is of kind " + std::to_string(llama_vocab_type(target)) + ", the draft's of " +
               std::to_string(llama_vocab_type(draft));
    std::int32_t const size = llama_vocab_n_tokens(target);
    std::int32_t const other = llama_vocab_n_tokens(draft);
    for (token_id t = 0; t < std::min(size, other); ++t) {
        std::string const a = llama_vocab_get_text(target, t);
        std::string const b = llama_vocab_get_text(draft, t);
        if (a != b) return "token " + std::to_string(t) + " is \"" + a + "\" of the target, \"" + b + "\" of the draft";
    }
    if (size != other) return "the target has " + std::to_string(size) + " tokens, the draft " + std::to_string(other);
    if (llama_vocab_bos(target) != llama_vocab_bos(draft) || llama_vocab_eos(target) != llama_vocab_eos(draft))
        return "the tokens that begin and end a text are " + std::to_string(llama_vocab_bos(target)) + " and " +
               std::to_string(llama_vocab_eos(target)) + " of the target, " + std::to_string(llama_vocab_bos(draft)) +
               " and " + std::to_string(llama_vocab_eos(draft)) + " of the draft";
    return std::nullopt;
}

std::string apply_chat_template(::llama_model const* model, std::string const& name,
                                std::vector<std::pair<std::string, std::string>> const& messages) {
    char const* const source = name.empty() ? llama_model_chat_template(model, nullptr) : name.c_str();
    if (source == nullptr) throw std::runtime_error("the model has no chat template; name one with --chat-template");
    std::vector<llama_chat_message> chat;
    std::size_t size = 256;
    // llama.cpp's C interface knows how a template writes messages, not the one that it writes itself.
    std::string const own = name.empty() ? system_message_in(source) : std::string();
    if (!own.empty() && (messages.empty() || messages.front().first != "system")) {
        chat.push_back({"system", own.c_str()});
        size += own.size();
    }
    for (auto const& [role, content] : messages) {
        chat.push_back({role.c_str(), content.c_str()});
        size += 2 * (role.size() + content.size());
    }
    std::string text(size, '\0');
    for (;;) {
        std::int32_t const count = llama_chat_apply_template(source, chat.data(), chat.size(), true, text.data(),
                                                             static_cast<std::int32_t>(text.size()));
        if (count < 0) {
            if (!name.empty()) throw std::runtime_error("--chat-template " + name + ": llama.cpp knows no such one");
            throw std::runtime_error(
                "the model's chat template is not one that llama.cpp's C interface knows; name one "
                "with --chat-template");
        }
        bool const fits = static_cast<std::size_t>(count) <= text.size();
        text.resize(static_cast<std::size_t>(count));
        if (fits) return text;
    }
}

}  // namespace multidraft::examples
