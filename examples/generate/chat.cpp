#include "generate/chat.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "generate/continued_text.hpp"
#include "generate/lookup_text.hpp"
#include "generate/progress.hpp"
#include "generate/report.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/gguf.hpp"

namespace multidraft::examples {
namespace {

constexpr char const* without_drafts = "autoregressive";
constexpr char const* by_lookup = "naive/lookup";

/// The method over models that keep the conversation, where only the target and its block drafter are called.
class answers {
public:
    answers(method const& how, transformer& target, transformer& draft, topology const& shape) {
        if (drafts_without_model(how.name)) {
            alone_.emplace(target);
            if (how.name == without_drafts)
                run_ = [this](auto prompt, auto const& options, auto const& on_tokens) {
                    return autoregressive(*alone_, prompt, options, on_tokens);
                };
            else
                run_ = [this, shape](auto prompt, auto const& options, auto const& on_tokens) {
                    return run_lookup(*alone_, shape, prompt, options, on_tokens);
                };
            return;
        }
        bool const by_block = !settings().block_drafter.empty();
        if (by_block && how.short_rows && settings().candidates > 0)
            settings().short_turns = &with_short_rows_.emplace(target, short_block_drafter_of(target));
        else if (by_block)
            settings().turns = &with_drafter_.emplace(target, block_drafter_of(target));
        run_ = [&](auto prompt, auto const& options, auto const& on_tokens) {
            return how.run(target, draft, shape, prompt, options, on_tokens);
        };
    }
    ~answers() {
        settings().turns = nullptr;
        settings().short_turns = nullptr;
    }
    answers(answers const&) = delete;
    answers& operator=(answers const&) = delete;

    [[nodiscard]] generation next(std::span<token_id const> prompt, generation_options const& options,
                                  token_callback const& on_tokens) const {
        return run_(prompt, options, on_tokens);
    }

private:
    std::optional<continued_text<transformer>> alone_;
    std::optional<continued_pair<transformer, block_drafter_model>> with_drafter_;
    std::optional<continued_pair<transformer, short_block_drafter>> with_short_rows_;
    std::function<generation(std::span<token_id const>, generation_options const&, token_callback const&)> run_;
};

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
    if (line.back() == '\r') line.pop_back();  // lines of other systems
    return true;
}

}  // namespace

bool drafts_without_model(std::string_view method) { return method == without_drafts || method == by_lookup; }

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

    std::optional<answers> answer_of;
    std::string costs;
    std::string question = what.question;
    while (!question.empty() || read_turn(question)) {
        markup.add("user", question, conversation);
        markup.begin_answer(conversation);
        if (conversation.size() >= static_cast<std::size_t>(target.context_limit()))
            throw std::runtime_error("--chat: the conversation is " + std::to_string(conversation.size()) +
                                     " tokens, and the model's context has " + std::to_string(target.context_limit()) +
                                     ": begin another one");
        if (!answer_of) {
            if (what.choose) costs = what.choose(conversation);
            answer_of.emplace(how, target, draft, shape);
        }
        stream_decoder decoder(tokens, false);
        progress_bar bar("generating");
        std::size_t done = 0;
        generation const answer = answer_of->next(conversation, options, [&](std::span<token_id const> emitted) {
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
            for (std::string const& drafter : {settings().block_drafter, settings().eagle_head})
                if (!drafter.empty()) report["drafter"] = drafter;
            if (!costs.empty()) report["costs"] = costs;
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
