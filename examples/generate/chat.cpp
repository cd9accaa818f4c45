#include "generate/chat.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "generate/continued_text.hpp"
#include "generate/progress.hpp"
#include "generate/report.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/verify/naive.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/gguf.hpp"

namespace multidraft::examples {
namespace {

constexpr char const* without_drafts = "autoregressive";
constexpr char const* by_lookup = "naive/lookup";

using generator = std::function<generation(std::span<token_id const> prompt, generation_options const& options,
                                           token_callback const& on_tokens)>;

/// The method over a target that keeps the conversation, where only the target is called.
generator generator_of(method const& how, continued_text<transformer>& continued, transformer& target,
                       transformer& draft, topology const& shape) {
    if (how.name == without_drafts)
        return [&](auto prompt, auto const& options, auto const& on_tokens) {
            return autoregressive(continued, prompt, options, on_tokens);
        };
    if (how.name == by_lookup)
        return [&](auto prompt, auto const& options, auto const& on_tokens) {
            lookup_options const back{
                {settings().lookup_longest, 1}, settings().lookup_paths, std::max(1, shape.max_depth())};
            return make_speculative<verify::naive<law::deterministic>>(continued, lookup_drafter(back))(prompt, options,
                                                                                                        on_tokens);
        };
    return [&](auto prompt, auto const& options, auto const& on_tokens) {
        return how.run(target, draft, shape, prompt, options, on_tokens);
    };
}

/// The next line, false at the end of the input.
bool read_turn(std::string& line) {
    bool const asks = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
    do {
        if (asks) std::cerr << "> " << std::flush;
        if (!std::getline(std::cin, line)) {
            if (asks) std::cerr << '\n';
            return false;
        }
    } while (line.find_first_not_of(" \t\r") == std::string::npos);
    return true;
}

}  // namespace

bool drafts_without_model(method const& how) { return how.name == without_drafts || how.name == by_lookup; }

int chat(std::filesystem::path const& model, transformer& target, transformer& draft, tokenizer const& tokens,
         method const& how, topology const& shape, generation_options options, chat_options const& what) {
    std::string source;
    if (gguf_file::is_one(model)) source = gguf_file(model).text("tokenizer.chat_template").value_or("");
    if (source.empty())
        throw std::runtime_error("--chat: " + model.string() +
                                 " has no chat template; the target must be the GGUF file of a chat model");
    chat_markup const markup(source, tokens);
    if (std::ranges::find(options.stop_tokens, markup.end()) == options.stop_tokens.end())
        options.stop_tokens.push_back(markup.end());

    std::vector<token_id> conversation;
    std::string const system = what.system.value_or(markup.default_system());
    if (!system.empty()) markup.add("system", system, conversation);

    continued_text<transformer> continued(target);
    generator const generate = generator_of(how, continued, target, draft, shape);
    std::string question = what.question;
    while (!question.empty() || read_turn(question)) {
        markup.add("user", question, conversation);
        markup.begin_answer(conversation);
        if (conversation.size() >= static_cast<std::size_t>(target.context_limit()))
            throw std::runtime_error("--chat: the conversation is " + std::to_string(conversation.size()) +
                                     " tokens, and the model's context has " + std::to_string(target.context_limit()) +
                                     ": begin another one");
        stream_decoder decoder(tokens, false);
        progress_bar bar("generating");
        std::size_t done = 0;
        generation const answer = generate(conversation, options, [&](std::span<token_id const> emitted) {
            if (what.json) {
                done += emitted.size();
                bar.show(static_cast<double>(done) / std::max(1, options.max_tokens));
                return true;
            }
            for (token_id const t : emitted) std::cout << decoder.push(t);
            return output_arrives();
        });
        if (what.json) {
            auto report = to_json(how, answer, continuation(tokens, answer.tokens), options.seed);
            report["question"] = question;
            std::cout << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
        } else {
            std::cout << decoder.finish() << std::endl;
            print_summary(how.name, answer.metrics);
        }
        check_output();
        if (!what.question.empty()) return 0;
        conversation.insert(conversation.end(), answer.tokens.begin(), answer.tokens.end());
        markup.end_answer(conversation);
        ++options.request;  // other draws
        question.clear();
    }
    return 0;
}

}  // namespace multidraft::examples
