#include "transformer/chat_markup.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "chat_template.hpp"

namespace multidraft::examples {

chat_markup::chat_markup(std::string_view source, tokenizer const& tokens)
    : tokens_(&tokens), begin_(tokens.control(begin_mark)), end_(tokens.control(end_mark)) {
    for (std::string_view const mark : {begin_mark, end_mark})
        if (source.find(mark) == std::string_view::npos)
            throw std::runtime_error("the model's chat template has no " + std::string(mark) +
                                     ": only ChatML is implemented");
    for (auto const& [mark, id] : {std::pair(begin_mark, begin_), std::pair(end_mark, end_)})
        if (id < 0)
            throw std::runtime_error("the model's chat template has " + std::string(mark) +
                                     ", which is no control token of its vocabulary");
    default_system_ = system_message_in(source);
}

void chat_markup::append(std::string_view text, std::vector<token_id>& to) const {
    auto const tokens = tokens_->encode_plain(text);
    to.insert(to.end(), tokens.begin(), tokens.end());
}

void chat_markup::add(std::string_view role, std::string_view text, std::vector<token_id>& to) const {
    to.push_back(begin_);
    append(std::string(role) + '\n' + std::string(text), to);
    end_answer(to);
}

void chat_markup::begin_answer(std::vector<token_id>& to) const {
    to.push_back(begin_);
    append("assistant\n", to);
}

std::vector<token_id> chat_markup::ask(std::string_view question) const {
    std::vector<token_id> text;
    if (!default_system().empty()) add("system", default_system(), text);
    add("user", question, text);
    begin_answer(text);
    return text;
}

void chat_markup::end_answer(std::vector<token_id>& to) const {
    if (to.empty() || to.back() != end_) to.push_back(end_);
    append("\n", to);
}

}  // namespace multidraft::examples
