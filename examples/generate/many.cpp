#include "generate/many.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "automatic_trees.hpp"
#include "command_line.hpp"
#include "generate/progress.hpp"
#include "generate/report.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/methods/list.hpp"
#include "transformer/batched_transformer.hpp"

namespace multidraft::examples {
namespace {

using best = methods::nested_ranked_block_stratified;
using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

/// The value that a fraction of the numbers is below.
double quantile(std::vector<double> numbers, double fraction) {
    if (numbers.empty()) return 0;
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

class printer {
public:
    printer(tokenizer const& tokens, std::span<std::string const> texts, std::uint64_t seed, bool json)
        : tokens_(tokens), texts_(texts), seed_(seed), json_(json) {}

    /// Prints what has ended, as far as all before it have.
    void add(finished_request f, request_times const& times) {
        waiting_.emplace(f.ticket, std::pair(std::move(f), times));
        for (auto next = waiting_.find(next_); next != waiting_.end(); next = waiting_.find(++next_)) {
            print(next->second.first, next->second.second);
            waiting_.erase(next);
        }
    }

private:
    void print(finished_request const& f, request_times const& times) const {
        auto const k = static_cast<std::size_t>(f.ticket);
        std::string const more = continuation(tokens_, f.result.tokens);
        if (!json_) {
            std::cout << texts_[k] << more << '\n';
            if (!f.error.empty()) std::cerr << "generate: prompt " << k + 1 << ": " << f.error << '\n';
            std::cout << std::flush;
            return;
        }
        generation_metrics const& m = f.result.metrics;
        nlohmann::ordered_json one{{"prompt", texts_[k]},
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

    tokenizer const& tokens_;
    std::span<std::string const> texts_;
    std::uint64_t seed_;
    bool json_;
    std::map<std::int64_t, std::pair<finished_request, request_times>> waiting_;
    std::int64_t next_ = 0;
};

template <class Shapes>
int run(batched_transformer& target, batched_transformer& draft, Shapes shapes, printer& out,
        std::span<std::vector<token_id> const> prompts, generation_options const& options, many_options const& many) {
    host_threads const threads(1);
    auto loop = make_continuous_batching<best::sampler, best::verifier>(target, draft, threads, std::move(shapes));
    std::vector<request_times> times(prompts.size());
    auto const begin = clock::now();
    std::int64_t emitted = 0;
    for (std::size_t k = 0; k < prompts.size(); ++k) {
        generation_options one = options;
        one.request = static_cast<std::uint32_t>(k);
        loop.submit(prompts[k], std::move(one), [&, k](std::span<token_id const> more) {
            times[k].last = seconds_since(begin);
            if (times[k].tokens == 0) times[k].first = times[k].last;
            times[k].tokens += static_cast<std::int64_t>(more.size());
            emitted += static_cast<std::int64_t>(more.size());
            return true;
        });
    }
    int errors = 0;
    {
        progress_bar bar(std::to_string(prompts.size()) + " prompts, " + std::to_string(many.parallel) + " at a time");
        auto const wanted = static_cast<double>(prompts.size()) * options.max_tokens;
        for (bool more = true; more;) {
            more = loop.step();
            for (finished_request& f : loop.take_finished()) {
                errors += f.error.empty() ? 0 : 1;
                auto const k = static_cast<std::size_t>(f.ticket);
                out.add(std::move(f), times[k]);
                check_output();
            }
            bar.show(static_cast<double>(emitted) / wanted);
        }
    }
    double const whole = seconds_since(begin);
    std::vector<double> a_token;
    for (request_times const& t : times)
        if (t.tokens > 1) a_token.push_back((t.last - t.first) / static_cast<double>(t.tokens - 1));
    generation_metrics const& m = loop.metrics();
    double const rate = whole > 0 ? static_cast<double>(emitted) / whole : 0;
    if (many.json) {
        std::cout << nlohmann::ordered_json{{"prompts", prompts.size()},
                                            {"parallel", many.parallel},
                                            {"tokens", emitted},
                                            {"seconds", whole},
                                            {"tokens_per_second", rate},
                                            {"seconds_per_token_median", quantile(a_token, 0.5)},
                                            {"seconds_per_token_95", quantile(a_token, 0.95)},
                                            {"steps", m.target_calls},
                                            {"drafted", m.drafted},
                                            {"accepted", m.accepted},
                                            {"errors", errors}}
                         .dump()
                  << '\n';
    } else {
        std::fprintf(stderr,
                     "[%zu prompts, %d at a time: %lld tokens in %lld steps, %.1f tokens/s, %.1f ms a token of a text "
                     "(95%%: %.1f)]\n",
                     prompts.size(), many.parallel, static_cast<long long>(emitted),
                     static_cast<long long>(m.target_calls), rate, 1e3 * quantile(a_token, 0.5),
                     1e3 * quantile(a_token, 0.95));
    }
    return errors > 0 ? 1 : 0;
}

}  // namespace

std::vector<std::string> read_prompts(std::string const& file) {
    std::vector<std::string> prompts;
    std::ifstream opened;
    if (file != "-") {
        opened.open(file);
        if (!opened) throw std::runtime_error("--prompt-file " + file + ": cannot be read");
    }
    std::istream& in = file == "-" ? std::cin : opened;
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) prompts.push_back(line);
    if (prompts.empty()) throw std::runtime_error("--prompt-file " + file + ": has no prompt");
    return prompts;
}

step_times times_of_many(transformer& target, transformer& draft, method const& how,
                         std::vector<token_id> const& prompt, generation_options const& options,
                         many_options const& many) {
    std::int32_t const rows = std::min(256, many.parallel * (many.budget + 1));
    return measure_times(target, draft, how, prompt, options, rows - 1);
}

int generate_many(std::shared_ptr<transformer_weights const> const& target,
                  std::shared_ptr<transformer_weights const> const& draft, tokenizer const& tokens,
                  std::span<std::string const> texts, std::span<std::vector<token_id> const> prompts,
                  generation_options const& options, many_options const& many) {
    batched_transformer many_targets(target, many.parallel);
    batched_transformer many_drafts(draft, many.parallel);
    printer out(tokens, texts, options.seed, many.json);
    if (!many.times) return run(many_targets, many_drafts, fixed_shapes(many.shape), out, prompts, options, many);
    batch_controller_options choices;
    choices.nodes = many.budget * many.parallel;
    return run(many_targets, many_drafts, batch_controller(*many.times, choices), out, prompts, options, many);
}

}  // namespace multidraft::examples
