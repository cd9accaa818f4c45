// Many prompts together by a program that generates text: `--prompt-file`, `--parallel`.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "command_line.hpp"
#include "generate/progress.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/methods/list.hpp"
#include "run_report.hpp"

namespace multidraft::examples {

/// Prompts to continue together.
struct many_prompts {
    std::string program;  ///< as messages name it
    std::span<std::string const> texts;
    std::span<std::vector<token_id> const> prompts;  ///< their tokens
    /// The text of emitted tokens.
    std::function<std::string(std::vector<token_id> const&)> continuation;
    std::string between = {};   ///< what is printed between prompt and continuation
    std::int32_t parallel = 4;  ///< requests in flight at most
    bool json = false;
};

/// The prompts of a file, one in each line; `-` is standard input. Empty lines are skipped. Throws `std::runtime_error`
/// for a file that cannot be read, or without a prompt.
inline std::vector<std::string> read_prompts(std::string const& file) {
    std::vector<std::string> prompts;
    std::ifstream opened;
    if (file != "-") {
        opened.open(file);
        if (!opened) throw std::runtime_error("--prompt-file " + file + ": cannot be read");
    }
    std::istream& in = file == "-" ? std::cin : opened;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();  // lines of other systems
        if (line.find_first_not_of(" \t\r") != std::string::npos) prompts.push_back(line);
    }
    if (prompts.empty()) throw std::runtime_error("--prompt-file " + file + ": has no prompt");
    return prompts;
}

/// The first prompt that a model can read; null if all exceed its context.
inline std::vector<token_id> const* first_that_fits(std::span<std::vector<token_id> const> prompts,
                                                    std::int32_t context_limit) {
    for (auto const& prompt : prompts)
        if (prompt.size() <= static_cast<std::size_t>(context_limit)) return &prompt;
    return nullptr;
}

namespace detail {

/// The value that a fraction of the numbers is below; of none it is no number, which JSON prints as null.
inline double quantile(std::vector<double> numbers, double fraction) {
    if (numbers.empty()) return std::numeric_limits<double>::quiet_NaN();
    std::sort(numbers.begin(), numbers.end());
    auto const k = static_cast<std::size_t>(fraction * static_cast<double>(numbers.size() - 1) + 0.5);
    return numbers[k];
}

/// When a request had its first and its last token.
struct request_times {
    double first = 0;
    double last = 0;
    std::int64_t tokens = 0;
};

/// Prints what has ended, in the order of the prompts.
class printer_in_order {
public:
    printer_in_order(many_prompts const& many, std::uint64_t seed) : many_(many), seed_(seed) {}

    /// Prints the end of prompt `k`, or keeps it until all before it have ended.
    void add(std::size_t k, finished_request f, request_times const& times) {
        waiting_.emplace(k, std::pair(std::move(f), times));
        for (auto next = waiting_.find(next_); next != waiting_.end(); next = waiting_.find(++next_)) {
            print(next_, next->second.first, next->second.second);
            waiting_.erase(next);
        }
    }

private:
    void print(std::size_t k, finished_request const& f, request_times const& times) const {
        std::string const more = many_.continuation(f.result.tokens);
        if (!many_.json) {
            std::cout << many_.texts[k] << many_.between << more << '\n' << std::flush;
            if (!f.error.empty()) std::cerr << many_.program << ": prompt " << k + 1 << ": " << f.error << '\n';
            return;
        }
        generation_metrics const& m = f.result.metrics;
        nlohmann::ordered_json one{{"prompt", many_.texts[k]},
                                   {"text", more},
                                   {"token_ids", f.result.tokens},
                                   {"tokens", m.tokens},
                                   {"target_calls", m.target_calls},
                                   {"block_efficiency", rate_of(m, m.block_efficiency())},
                                   {"seconds_to_first_token", times.first},
                                   {"seconds", times.last},
                                   {"seed", seed_},
                                   {"request", k},
                                   {"stopped_by", f.error.empty() ? name_of(f.result.reason) : "error"}};
        if (!f.error.empty()) one["error"] = f.error;
        std::cout << one.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
    }

    many_prompts const& many_;
    std::uint64_t seed_;
    std::map<std::size_t, std::pair<finished_request, request_times>> waiting_;
    std::size_t next_ = 0;
};

}  // namespace detail

/// Continues all prompts by the default method and prints them in their order: texts, or a JSON object each. Counts and
/// times go to standard error, as a last object with `json` to standard output. Prompt k has request number k, so equal
/// seeds give other draws. A prompt that is longer than the target's context ends with that error, and the others go
/// on. Throws `invalid_input` for options out of their range before anything is printed. Returns 1 if a prompt ended
/// with an error, else 0.
template <batched_language_model Target, batched_draft_model Draft, shape_chooser Shapes>
int continue_many(Target& target, Draft& draft, Shapes shapes, generation_options const& options,
                  many_prompts const& many) {
    using best = methods::nested_ranked_block_stratified;
    using clock = std::chrono::steady_clock;
    token_id const any = 0;
    validate(options, std::span(&any, 1), target.vocabulary(), target.context_limit());

    host_threads const threads(1);
    auto loop = make_continuous_batching<best::sampler, best::verifier>(target, draft, threads, std::move(shapes));
    detail::printer_in_order out(many, options.seed);
    std::vector<detail::request_times> times(many.prompts.size());
    std::vector<std::size_t> prompt_of;  // by ticket
    auto const begin = clock::now();
    auto const now = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
    std::int64_t emitted = 0;
    int errors = 0;
    for (std::size_t k = 0; k < many.prompts.size(); ++k) {
        generation_options one = options;
        one.request = static_cast<std::uint32_t>(k);
        try {
            loop.submit(many.prompts[k], std::move(one), [&, k](std::span<token_id const> more) {
                times[k].last = now();
                if (times[k].tokens == 0) times[k].first = times[k].last;
                times[k].tokens += static_cast<std::int64_t>(more.size());
                emitted += static_cast<std::int64_t>(more.size());
                return true;
            });
            prompt_of.push_back(k);
        } catch (invalid_input const& e) {  // of this prompt: the options are valid
            ++errors;
            std::string error = e.argument() == "prompt.size" ? e.value() + " tokens: " + e.reason() : e.what();
            out.add(k, {.ticket = 0, .result = {}, .error = std::move(error)}, times[k]);
        }
    }
    {
        progress_bar bar(std::to_string(many.prompts.size()) + " prompts, " + std::to_string(many.parallel) +
                         " at a time");
        auto const wanted = std::max(1.0, static_cast<double>(many.prompts.size()) * options.max_tokens);
        for (bool more = true; more;) {
            more = loop.step();
            for (finished_request& f : loop.take_finished()) {
                errors += f.error.empty() ? 0 : 1;
                std::size_t const k = prompt_of[static_cast<std::size_t>(f.ticket)];
                out.add(k, std::move(f), times[k]);
                check_output();
            }
            bar.show(static_cast<double>(emitted) / wanted);
        }
    }
    double const whole = now();
    std::vector<double> a_token;
    for (detail::request_times const& t : times)
        if (t.tokens > 1) a_token.push_back((t.last - t.first) / static_cast<double>(t.tokens - 1));
    generation_metrics const& m = loop.metrics();
    double const rate = whole > 0 ? static_cast<double>(emitted) / whole : 0;
    if (many.json) {
        std::cout << nlohmann::ordered_json{{"prompts", many.prompts.size()},
                                            {"parallel", many.parallel},
                                            {"tokens", emitted},
                                            {"seconds", whole},
                                            {"tokens_per_second", rate},
                                            {"seconds_per_token_median", detail::quantile(a_token, 0.5)},
                                            {"seconds_per_token_95", detail::quantile(a_token, 0.95)},
                                            {"steps", m.target_calls},
                                            {"drafted", m.drafted},
                                            {"accepted", m.accepted},
                                            {"seconds_by_stage", seconds_by_stage(m)},
                                            {"errors", errors}}
                         .dump()
                  << '\n';
    } else {
        std::fprintf(stderr, "[%zu prompts, %d at a time: %lld tokens in %lld steps, %.1f tokens/s",
                     many.prompts.size(), many.parallel, static_cast<long long>(emitted),
                     static_cast<long long>(m.target_calls), rate);
        if (!a_token.empty())
            std::fprintf(stderr, ", %.1f ms a token of a text (95%%: %.1f)", 1e3 * detail::quantile(a_token, 0.5),
                         1e3 * detail::quantile(a_token, 0.95));
        std::fprintf(stderr, "]\n");
    }
    return errors > 0 ? 1 : 0;
}

}  // namespace multidraft::examples
