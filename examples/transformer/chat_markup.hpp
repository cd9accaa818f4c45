// A conversation in tokens, as a chat model was trained on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/config.hpp"
#include "transformer/tokenizer.hpp"

namespace multidraft::examples {

/// ChatML: `<|im_start|>role`, a line break, the text, `<|im_end|>` and a line break. What a text says is never a mark:
/// the marks are tokens that no text has (`tokenizer::encode_plain`).
class chat_markup {
public:
    /// `source`: the model's template, in Jinja (`tokenizer.chat_template` of a GGUF file). It is not run: one that has
    /// both marks is taken for ChatML, and the system message that it writes in full, if there is one, for the default.
    /// Throws `std::runtime_error` for another template, or a vocabulary without the marks. `tokens` must outlive this.
    chat_markup(std::string_view source, tokenizer const& tokens);

    /// The system message of a conversation that begins without one; empty: none.
    [[nodiscard]] std::string const& default_system() const noexcept { return default_system_; }
    [[nodiscard]] token_id end() const noexcept { return end_; }  ///< the token that ends an answer

    /// Appends a message to a conversation.
    void add(std::string_view role, std::string_view text, std::vector<token_id>& to) const;
    /// Appends what comes before an answer.
    void begin_answer(std::vector<token_id>& to) const;
    /// A conversation of one question, with the default system message, up to where its answer begins.
    [[nodiscard]] std::vector<token_id> ask(std::string_view question) const;
    /// Appends what comes after an answer: its end too, where the model has not written it.
    void end_answer(std::vector<token_id>& to) const;

private:
    void append(std::string_view text, std::vector<token_id>& to) const;

    tokenizer const* tokens_;
    token_id begin_;
    token_id end_;
    std::string default_system_;
};

}  // namespace multidraft::examples
