// Runs the methods of `generate` on the shipped texts: jobs as JSON, one per line, on standard input; results, one per
// line, on standard output. Started by bench/paper_tables.
//
// A job {"method", "tree", "temperature", "kind", "first", "prompts", "words", "tokens", "request", "target", "draft",
// "settings", "timed"} gives {"runs": [..]}, one object per prompt. A text is a function of the prompt's number and of
// "request".
//
// "top_k" and "top_p" truncate both models' rows; "target" and "draft" name the models. Each run has its counts, those
// of whole steps in "whole", its text and what follows the prompt in the shipped one, and whether the first tokens of
// both are the same ("next_right"; "next_known" is 0 where the prompt ends inside a token). With "timed" it also has
// the tokens and seconds of the target alone on the same prompt, just before and after: "plain_tokens",
// "plain_seconds". With "separate_paths" the method is recursive rejection without replacement and the target has no
// tree attention.
//
// A job {"rates": [N, ..], "temperature", "kind", "first", "prompts", "generated", ..} gives {"rates": {N: {name:
// [..]}}}: for N candidates the rates and bounds of one node, all for the same rows, one mean per text. They are exact
// but for ranked and greedy verification, which are measured: the part of 32 trials at each row. With "generated" the
// rows are every sixteenth of that many tokens that the target generates after each prompt, else of the shipped texts.
//
// With "questions" the models are a chat model and its block drafter, "target" and "draft" their paths, and the rows
// those along the target's answers; the draft's are of the first position of its block.
//
// A job {"bernoulli": [draft, ..], "targets": [..]} gives {"rates": {name: [..]}} for two candidates of two tokens.
//
// A job {"steps": R, "methods", "tree", "temperature", "kind", "first", "words", "tokens", "seed", "draft"} gives
// {"accepted": [..]}: for each method, the tokens that a step accepts at each position of a text that the target
// generates from one prompt, summed over R seeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate/methods.hpp"
#include "generate/report.hpp"
#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "paper/chat_pair.hpp"
#include "paper/separate_paths.hpp"
#include "paper/steps.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;
using nlohmann::json;

/// The models that jobs name, each loaded once.
class models {
public:
    transformer& operator[](std::string const& name) {
        auto& model = loaded_[name];
        if (!model) {
            transformer_options options;
            options.threads = 1;
            options.tree_entries = 1024;
            model = std::make_unique<transformer>(std::string(MULTIDRAFT_MODELS_DIR "/") + name, options);
        }
        return *model;
    }

private:
    std::map<std::string, std::unique_ptr<transformer>> loaded_;
};

/// The first `words` words of a text.
std::string beginning(std::string const& text, std::size_t words) {
    std::size_t end = 0;
    for (std::size_t w = 0; w < words && end != std::string::npos; ++w) end = text.find(' ', end + 1);
    return text.substr(0, end);
}

/// Logits after every token of a text.
std::vector<float> score(transformer& model, std::span<token_id const> tokens) {
    std::vector<float> logits(tokens.size() * static_cast<std::size_t>(model.vocabulary()));
    std::vector<std::int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    model.keep(0, {});
    model.forward({tokens, positions, 0, {}}, logits);
    return logits;
}

/// -log p of the last `count` tokens under the model at temperature 1.
double negative_log_likelihood(transformer& model, std::span<token_id const> tokens, std::size_t count) {
    auto const logits = score(model, tokens);
    auto const v = static_cast<std::size_t>(model.vocabulary());
    double sum = 0;
    for (std::size_t i = tokens.size() - count; i < tokens.size(); ++i) {
        std::span<float const> const row(logits.data() + (i - 1) * v, v);
        double const top = *std::ranges::max_element(row);
        double mass = 0;
        for (float const x : row) mass += std::exp(double{x} - top);
        sum += top + std::log(mass) - double{row[static_cast<std::size_t>(tokens[i])]};
    }
    return sum;
}

/// A row of logits as the distribution that methods use.
std::vector<double> processed(std::span<float const> logits, sampling_params const& sampling) {
    host_group const g;
    auto const row =
        process_logits(g, row_view<float>(logits.data(), static_cast<index_t>(logits.size())), sampling).row;
    std::vector<double> result(logits.size());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(row(static_cast<index_t>(i)));
    return result;
}

void set(method_settings& s, json const& values) {
    s.least = values.value("least", s.least);
    s.stop_below = values.value("stop_below", s.stop_below);
    s.stop_by = values.value("stop_by", s.stop_by);
    s.lookup_paths = values.value("lookup_paths", s.lookup_paths);
    s.lookup_longest = values.value("lookup_longest", s.lookup_longest);
    s.fallback = values.value("fallback", s.fallback);
    s.rollback = values.value("rollback", s.rollback);
    s.joint_threshold = values.value("joint_threshold", s.joint_threshold);
    s.beams = values.value("beams", s.beams);
}

/// The settings of a job for both loops.
generation_options options_of(json const& job) {
    generation_options options;
    options.max_tokens = job.value("tokens", 64);
    options.sampling.temperature = job.at("temperature").get<float>();
    options.sampling.top_k = job.value("top_k", index_t{0});
    options.sampling.top_p = job.value("top_p", 1.0F);
    options.draft_sampling = options.sampling;
    options.draft_sampling->temperature =
        job.value("draft_temperature", options.sampling.greedy() ? 0.1F : options.sampling.temperature);
    options.seed = job.value("seed", std::uint64_t{0});
    return options;
}

/// Recursive rejection without replacement, where the target reads each path of the tree as a separate row.
generation run_separately(transformer& target, transformer& draft, topology const& shape,
                          std::span<token_id const> prompt, generation_options const& options) {
    bench::separate_paths model(target);
    return make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(model, draft, shape)(
        prompt, options, {});
}

/// What follows a prompt in its shipped text.
struct shipped_text {
    std::string rest;
    token_id next;  ///< the token after the prompt; none where the prompt ends inside a token
};

json generate(models& loaded, json const& job, std::vector<std::vector<token_id>> const& prompts,
              std::vector<shipped_text> const& shipped, tokenizer const& tokens) {
    transformer& target = loaded[job.value("target", std::string("target"))];
    transformer& draft = loaded[job.value("draft", std::string("draft"))];
    method const& how = find_method(job.at("method").get<std::string>());
    auto const tree = job.value("tree", std::string());
    topology const shape = tree.empty() ? topology() : parse_shape(tree);
    struct restored {
        method_settings before = settings();
        restored() = default;
        restored(restored const&) = delete;
        ~restored() { settings() = before; }
    } const after_the_job;
    set(settings(), job.value("settings", json::object()));
    generation_options options = options_of(job);
    options.seed = job.value("first", std::uint64_t{3});
    options.request = job.value("request", std::uint32_t{0});
    bool const timed = job.value("timed", false);
    json runs = json::array();
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        auto const& prompt = prompts[i];
        // The speed of this machine at this moment: the target alone, before and after.
        generation_metrics plain;
        if (timed) plain += autoregressive(target, prompt, options).metrics;
        generation const g = job.value("separate_paths", false) ? run_separately(target, draft, shape, prompt, options)
                                                                : how.run(target, draft, shape, prompt, options, {});
        if (timed) plain += autoregressive(target, prompt, options).metrics;
        std::vector<token_id> text = prompt;
        text.insert(text.end(), g.tokens.begin(), g.tokens.end());
        generation_metrics const& m = g.metrics;
        shipped_text const& other = shipped[i];
        step_counts const& whole = m.whole_steps;
        runs.push_back(
            {{"tokens", m.tokens},
             {"target_calls", m.target_calls},
             {"whole",
              {{"tokens", whole.tokens},
               {"target_calls", whole.target_calls},
               {"draft_calls", whole.draft_calls},
               {"drafted", whole.drafted},
               {"accepted", whole.accepted}}},
             {"tried_at_depth", m.by_depth.tried},
             {"accepted_at_depth", m.by_depth.accepted},
             {"won_by_start", m.by_start.won},
             {"accepted_by_start", m.by_start.accepted},
             {"accepted_at_rank", m.by_rank.accepted},
             {"text", continuation(tokens, g.tokens)},
             {"reference", other.rest},
             {"next_known", other.next != none ? 1 : 0},
             {"next_right", !g.tokens.empty() && other.next != none && g.tokens.front() == other.next ? 1 : 0},
             {"nll", negative_log_likelihood(target, text, g.tokens.size())}});
        if (timed)
            runs.back().update(json{{"seconds", m.seconds - m.time.prompt},
                                    {"plain_tokens", plain.tokens},
                                    {"plain_seconds", plain.seconds - plain.time.prompt}});
        ++options.seed;
    }
    return {{"runs", runs}, {"lossless", how.lossless}};
}

/// Steps on the text that the target generates from a prompt. The text is the same for all methods and trees.
json steps(models& loaded, json const& job, std::vector<token_id> const& prompt) {
    transformer& target = loaded["target"];
    generation_options options = options_of(job);
    options.seed += job.at("first").get<std::uint64_t>();  // prompts have independent draws
    static std::map<json, std::vector<token_id>> texts;
    std::vector<token_id>& text = texts[{prompt, options.sampling.temperature, options.max_tokens, options.seed}];
    if (text.empty()) {
        auto const more = autoregressive(target, prompt, options).tokens;
        text = prompt;
        text.insert(text.end(), more.begin(), more.end());
    }
    auto const methods = job.at("methods").get<std::vector<std::string>>();
    topology const shape = parse_shape(job.at("tree").get<std::string>());
    auto const seeds = job.at("steps").get<std::uint32_t>();
    return {{"accepted", bench::accepted_by_position(methods, target, loaded[job.value("draft", std::string("draft"))],
                                                     shape, text, prompt.size(), seeds, options)}};
}

/// The part of 32 trials that accept one of n candidates.
template <class Sampler, class Verifier>
double measured(std::vector<double> const& p, std::vector<double> const& q, index_t n, std::uint64_t seed) {
    testing::node_trial trial(Sampler{}, Verifier{}, p, q, n, seed);
    return analysis::estimate_acceptance(trial, 32).rate;
}

/// Rates and bounds of n candidates at one node, by name, for one pair of rows.
std::map<std::string, double> rates_at(std::vector<double> const& p, std::vector<double> const& q, index_t n,
                                       std::uint64_t seed) {
    std::map<std::string, double> found;
    analysis::ratio_rows const rows(p, q);
    found["bound/iid"] = analysis::alpha_star_iid(rows, n);
    found["bound/sequential"] = analysis::alpha_star_sequential(rows, n);
    if (n <= rows.support())
        found["bound/conditional_poisson"] = analysis::alpha_star_conditional_poisson(rows, n);
    else
        found["bound/conditional_poisson"] = analysis::alpha_star_conditional_poisson(rows, rows.support());
    found["bound/top_then_one"] = analysis::alpha_star_stratified(rows, n, 1);
    found["greedy_optimal/top_then_one"] =
        measured<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>(p, q, n, seed);
    found["recursive_rejection/iid"] = analysis::acceptance_recursive_iid(p, q, n);
    found["recursive_rejection/sequential"] = analysis::can_walk_prefixes(rows.support(), n) && n <= 2
                                                  ? analysis::acceptance_by_rejected_prefixes(rows, n)
                                                  : analysis::estimate_recursive_sequential(rows, n, 1024).mean;
    found["naive/iid"] = analysis::acceptance_naive_iid(p, q, n);
    found["naive/sequential"] = analysis::acceptance_naive_sequential(p, q, n);
    found["naive/deterministic"] = analysis::acceptance_naive_deterministic(p, q, n);
    found["k_seq/iid"] = analysis::acceptance_k_seq(p, q, n);
    found["ranked/iid"] = measured<draft::iid, verify::ranked<law::iid>>(p, q, n, seed);
    multidraft::draft::certain_selection const chosen(draft::stratified{}, q, n);
    auto const certain = static_cast<index_t>(chosen.tokens.size());
    // A draft that is nearly certain of its tokens may leave none to be drawn.
    double of_certain = 0;
    for (token_id const x : chosen.tokens) of_certain += p[static_cast<std::size_t>(x)];
    found["bound/stratified"] =
        chosen.draws == 0 ? of_certain : analysis::alpha_star_stratified(rows, certain + chosen.draws, chosen.draws);
    found["ranked/stratified"] = measured<draft::stratified, verify::ranked<law::stratified>>(p, q, n, seed);
    return found;
}

/// The same at temperature 0. Laws that may repeat a token have only the draft's likeliest, the others its n likeliest.
std::map<std::string, double> rates_of_greedy(std::span<float const> p, std::span<float const> q, index_t n) {
    host_group const g;
    auto const size = static_cast<index_t>(q.size());
    token_id const target = g.argmax(size, [&](index_t i) { return p[static_cast<std::size_t>(i)]; });
    std::vector<token_id> top(static_cast<std::size_t>(std::min(n, size)), none);
    g.top_k(
        size, [&](index_t i) { return q[static_cast<std::size_t>(i)]; }, span<token_id>(top));
    std::map<std::string, double> found;
    for (auto const* name : {"bound/iid", "recursive_rejection/iid", "naive/iid", "k_seq/iid", "ranked/iid"})
        found[name] = top.front() == target ? 1.0 : 0.0;
    double const among = std::ranges::find(top, target) != top.end() ? 1.0 : 0.0;
    for (auto const* name : {"bound/sequential", "bound/conditional_poisson", "bound/top_then_one",
                             "greedy_optimal/top_then_one", "recursive_rejection/sequential", "naive/sequential",
                             "naive/deterministic", "bound/stratified", "ranked/stratified"})
        found[name] = among;
    return found;
}

/// The rows of both models after every `every`-th token of a text that begins with `text`; `generated` of its tokens
/// are the target's.
void read_rows(models& loaded, json const& job, std::vector<token_id> text, generation_options options,
               std::size_t every, bench::row_pairs& out) {
    transformer& target = loaded[job.value("target", std::string("target"))];
    transformer& draft = loaded[job.value("draft", std::string("draft"))];
    auto const v = static_cast<std::size_t>(target.vocabulary());
    std::size_t begin = 8;
    if (options.max_tokens > 0) {
        begin = text.size() - 1;
        auto const more = autoregressive(target, text, options).tokens;
        text.insert(text.end(), more.begin(), more.end());
    }
    auto const p = score(target, text);
    auto const q = score(draft, text);
    out.clear();
    for (std::size_t i = begin; i + 1 < text.size(); i += every) {
        out.target.insert(out.target.end(), p.data() + i * v, p.data() + (i + 1) * v);
        out.draft.insert(out.draft.end(), q.data() + i * v, q.data() + (i + 1) * v);
    }
}

/// Means over the rows of each text, which `read` gives by its number: laws, verifiers and bounds at the same rows.
template <class Read>
json rates(json const& job, std::size_t texts, std::size_t v, Read&& read) {
    generation_options options = options_of(job);
    options.max_tokens = job.value("generated", 0);
    options.seed = job.value("first", std::uint64_t{3});
    auto const counts = job.at("rates").get<std::vector<index_t>>();
    auto const every = job.value("every", std::size_t{16});
    std::map<std::string, std::map<std::string, std::vector<double>>> by_count;
    std::uint64_t row = 0;  // of all texts: the seed of its trials
    bench::row_pairs pairs;
    for (std::size_t k = 0; k < texts; ++k, ++options.seed) {
        read(k, options, every, pairs);
        std::size_t const rows = pairs.target.size() / v;
        if (rows == 0) continue;
        std::map<index_t, std::map<std::string, double>> sums;
        for (std::size_t i = 0; i < rows; ++i, ++row) {
            auto const p_row = std::span<float const>(pairs.target).subspan(i * v, v);
            auto const q_row = std::span<float const>(pairs.draft).subspan(i * v, v);
            auto const greedy = options.sampling.greedy();
            auto const p = greedy ? std::vector<double>() : processed(p_row, options.sampling);
            auto const q = greedy ? std::vector<double>() : processed(q_row, options.sampling);
            for (index_t const n : counts)
                for (auto const& [name, rate] : greedy ? rates_of_greedy(p_row, q_row, n) : rates_at(p, q, n, row))
                    sums[n][name] += rate;
        }
        for (auto const& [n, names] : sums)
            for (auto const& [name, sum] : names)
                by_count[std::to_string(n)][name].push_back(sum / static_cast<double>(rows));
    }
    return {{"rates", by_count}};
}

/// The rates of a chat model and its block drafter along answers to questions.
json rates_of_chat(json const& job) {
    static std::map<std::pair<std::string, std::string>, bench::chat_pair> loaded;
    auto const target = job.at("target").get<std::string>();
    auto const drafter = job.at("draft").get<std::string>();
    auto& pair = loaded.try_emplace({target, drafter}, target, drafter).first->second;
    auto const questions = job.at("questions").get<std::vector<std::string>>();
    return rates(job, questions.size(), pair.vocabulary(),
                 [&](std::size_t k, generation_options const& options, std::size_t every, bench::row_pairs& out) {
                     pair.rows_of_answer(questions[k], options, every, out);
                 });
}

/// Two candidates of two tokens, as in Figure 1 of the RSD paper: `bernoulli` are the draft's probabilities of the
/// first token, `targets` the target's.
json bernoulli(json const& job) {
    std::map<std::string, std::vector<double>> found;
    for (double const target : job.at("targets").get<std::vector<double>>())
        for (double const draft : job.at("bernoulli").get<std::vector<double>>()) {
            std::vector<double> const p{target, 1 - target};
            std::vector<double> const q{draft, 1 - draft};
            found["multi_round"].push_back(analysis::acceptance_recursive_iid(p, q, 2));
            found["k_seq"].push_back(analysis::acceptance_k_seq(p, q, 2));
            found["otm"].push_back(analysis::alpha_star_iid(p, q, 2));
            found["recursive_rejection"].push_back(analysis::acceptance_recursive_sequential(p, q, 2));
        }
    return {{"rates", found}};
}

}  // namespace

int main() {
    try {
        auto const texts = json::parse(std::ifstream(MULTIDRAFT_MODELS_DIR "/held_out.json"));
        models loaded;
        tokenizer const tokens(find_tokenizer(MULTIDRAFT_MODELS_DIR "/target"), loaded["target"].vocabulary());
        settings().second_draft = MULTIDRAFT_MODELS_DIR "/draft-tiny";
        settings().early_stop = MULTIDRAFT_MODELS_DIR "/draft/early_stop";
        settings().models.threads = 1;
        std::string line;
        while (std::getline(std::cin, line)) {
            json result;
            try {
                json const job = json::parse(line);
                if (job.contains("bernoulli") || job.contains("questions")) {
                    result = job.contains("questions") ? rates_of_chat(job) : bernoulli(job);
                    std::cout << result.dump() << '\n' << std::flush;
                    continue;
                }
                auto const& of_kind = texts.at(job.at("kind").get<std::string>());
                std::size_t const words = job.value("words", std::size_t{16});
                bool const of_steps = job.contains("steps");
                bool const whole = job.contains("rates") && job.value("generated", 0) == 0;
                std::vector<std::vector<token_id>> prompts;
                std::vector<shipped_text> shipped;
                auto const first = job.value("first", std::size_t{3});
                auto const count = of_steps ? std::size_t{1} : job.value("prompts", std::size_t{12});
                for (std::size_t i = first; i < std::min(first + count, of_kind.size()); ++i) {
                    auto const text = of_kind[i].get<std::string>();
                    auto all = tokens.encode(text);
                    std::string const begin = beginning(text, words);
                    prompts.push_back(whole ? all : tokens.encode(begin));
                    auto const& prompt = prompts.back();
                    bool const begins =
                        prompt.size() < all.size() && std::ranges::equal(prompt, std::span(all).first(prompt.size()));
                    shipped.push_back({text.substr(begin.size()), begins ? all[prompt.size()] : none});
                    if (whole && prompts.back().size() > 120) prompts.back().resize(120);
                }
                if (of_steps)
                    result = steps(loaded, job, prompts.at(0));
                else if (job.contains("rates"))
                    result =
                        rates(job, prompts.size(), static_cast<std::size_t>(loaded["target"].vocabulary()),
                              [&](std::size_t k, generation_options const& options, std::size_t every,
                                  bench::row_pairs& out) { read_rows(loaded, job, prompts[k], options, every, out); });
                else
                    result = generate(loaded, job, prompts, shipped, tokens);
            } catch (std::exception const& e) {
                result = {{"error", e.what()}};
            }
            std::cout << result.dump(-1, ' ', false, json::error_handler_t::replace) << '\n' << std::flush;
        }
    } catch (std::exception const& e) {
        std::cerr << "paper runs: " << e.what() << '\n';
        return 1;
    }
    return 0;
}
