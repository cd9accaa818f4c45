// Runs the methods of `generate` on the shipped texts: jobs as JSON, a line each, on standard input; results, a line
// each, on standard output. What bench/paper_tables starts.
//
// A job {"method", "tree", "temperature", "kind", "first", "prompts", "words", "tokens", "seed", "draft", "settings"}
// gives {"runs": [..]}, one object a prompt.
//
// A job {"bounds": N, "temperature", "kind", "first", "prompts"} gives the mean of the rates and bounds of one node
// over rows of the texts, for 1 to N candidates, and their standard errors.
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
#include <vector>

#include "generate/methods.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/k_seq.hpp"
#include "multidraft/analysis/naive.hpp"
#include "multidraft/analysis/recursive_rejection.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/certain_selection.hpp"
#include "multidraft/tree/shapes.hpp"
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

std::vector<double> softmax(std::span<float const> logits, double temperature) {
    std::vector<double> row(logits.begin(), logits.end());
    double const top = *std::ranges::max_element(row);
    double sum = 0;
    for (double& x : row) sum += x = std::exp((x - top) / temperature);
    for (double& x : row) x /= sum;
    return row;
}

void set(method_settings& s, json const& values) {
    s.least = values.value("least", s.least);
    s.stop_below = values.value("stop_below", s.stop_below);
    s.lookup_paths = values.value("lookup_paths", s.lookup_paths);
    s.lookup_longest = values.value("lookup_longest", s.lookup_longest);
    s.fallback = values.value("fallback", s.fallback);
    s.rollback = values.value("rollback", s.rollback);
    s.joint_threshold = values.value("joint_threshold", s.joint_threshold);
    s.beams = values.value("beams", s.beams);
}

/// What a job says of both loops.
generation_options options_of(json const& job) {
    generation_options options;
    options.max_tokens = job.value("tokens", 64);
    options.sampling.temperature = job.at("temperature").get<float>();
    options.draft_sampling = options.sampling;
    options.draft_sampling->temperature =
        job.value("draft_temperature", options.sampling.greedy() ? 0.1F : options.sampling.temperature);
    options.seed = job.value("seed", std::uint64_t{0});
    return options;
}

json generate(models& loaded, json const& job, std::vector<std::vector<token_id>> const& prompts) {
    transformer& target = loaded["target"];
    transformer& draft = loaded[job.value("draft", std::string("draft"))];
    method const& how = find_method(job.at("method").get<std::string>());
    auto const tree = job.value("tree", std::string());
    topology const shape = tree.empty() ? topology() : parse_shape(tree);
    method_settings const before = settings();
    set(settings(), job.value("settings", json::object()));
    generation_options options = options_of(job);
    json runs = json::array();
    for (auto const& prompt : prompts) {
        generation const g = how.run(target, draft, shape, prompt, options, {});
        std::vector<token_id> text = prompt;
        text.insert(text.end(), g.tokens.begin(), g.tokens.end());
        generation_metrics const& m = g.metrics;
        runs.push_back({{"tokens", m.tokens},
                        {"target_calls", m.target_calls},
                        {"accepted", m.accepted},
                        {"drafted", m.drafted},
                        {"draft_calls", m.draft_calls},
                        {"tried_at_depth", m.tried_at_depth},
                        {"accepted_at_depth", m.accepted_at_depth},
                        {"seconds", m.seconds - m.prompt_seconds},
                        {"nll", negative_log_likelihood(target, text, g.tokens.size())}});
        ++options.seed;
    }
    settings() = before;
    return {{"runs", runs}, {"lossless", how.lossless}};
}

/// Steps on the text that the target generates from a prompt. The text is the same for all methods and trees.
json steps(models& loaded, json const& job, std::vector<token_id> const& prompt) {
    transformer& target = loaded["target"];
    generation_options options = options_of(job);
    options.seed += job.at("first").get<std::uint64_t>();  // prompts have draws of their own
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

/// Mean and standard error by name.
class means {
public:
    void add(std::string const& name, double x) {
        auto& v = values_[name];
        v.push_back(x);
    }
    [[nodiscard]] json to_json() const {
        json out = json::object();
        for (auto const& [name, v] : values_) {
            double const n = static_cast<double>(v.size());
            double const mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
            double squares = 0;
            for (double const x : v) squares += (x - mean) * (x - mean);
            out[name] = {mean, n > 1 ? std::sqrt(squares / (n - 1) / n) : 0.0};
        }
        return out;
    }

private:
    std::map<std::string, std::vector<double>> values_;
};

json bounds(models& loaded, json const& job, std::vector<std::vector<token_id>> const& texts) {
    auto const most = job.at("bounds").get<index_t>();
    double const temperature = job.at("temperature").get<double>();
    auto const v = static_cast<std::size_t>(loaded["target"].vocabulary());
    std::vector<means> by_count(static_cast<std::size_t>(most));
    for (auto const& text : texts) {
        auto const p_logits = score(loaded["target"], text);
        auto const q_logits = score(loaded["draft"], text);
        for (std::size_t i = 8; i < text.size(); i += 8) {
            auto const p = softmax(std::span(p_logits).subspan(i * v, v), temperature);
            auto const q = softmax(std::span(q_logits).subspan(i * v, v), temperature);
            for (index_t n = 1; n <= most; ++n) {
                means& out = by_count[static_cast<std::size_t>(n - 1)];
                out.add("bound/iid", analysis::alpha_star_iid(p, q, n));
                out.add("bound/sequential", analysis::alpha_star_sequential(p, q, n));
                out.add("bound/top_then_one", analysis::alpha_star_stratified(p, q, n, 1));
                out.add("recursive_rejection/iid", analysis::acceptance_recursive_iid(p, q, n));
                out.add("naive/iid", analysis::acceptance_naive_iid(p, q, n));
                out.add("naive/deterministic", analysis::acceptance_naive_deterministic(p, q, n));
                out.add("k_seq/iid", analysis::acceptance_k_seq(p, q, n));
                multidraft::testing::certain_selection const chosen(draft::stratified{}, q, n);
                auto const certain = static_cast<index_t>(chosen.tokens.size());
                out.add("ranked/stratified",
                        analysis::alpha_star_stratified(p, q, certain + chosen.draws, chosen.draws));
            }
        }
    }
    json out = json::array();
    for (means const& m : by_count) out.push_back(m.to_json());
    return {{"bounds", out}};
}

}  // namespace

int main() {
    try {
        auto const texts = json::parse(std::ifstream(MULTIDRAFT_MODELS_DIR "/held_out.json"));
        models loaded;
        tokenizer const tokens(find_tokenizer(MULTIDRAFT_MODELS_DIR "/target"), loaded["target"].vocabulary());
        settings().second_draft = MULTIDRAFT_MODELS_DIR "/draft-tiny";
        settings().early_stop = MULTIDRAFT_MODELS_DIR "/early_stop";
        settings().models.threads = 1;
        std::string line;
        while (std::getline(std::cin, line)) {
            json result;
            try {
                json const job = json::parse(line);
                auto const& of_kind = texts.at(job.at("kind").get<std::string>());
                std::size_t const words = job.value("words", std::size_t{16});
                bool const of_bounds = job.contains("bounds");
                bool const of_steps = job.contains("steps");
                std::vector<std::vector<token_id>> prompts;
                auto const first = job.value("first", std::size_t{3});
                auto const count = of_steps ? std::size_t{1} : job.value("prompts", std::size_t{12});
                for (std::size_t i = first; i < std::min(first + count, of_kind.size()); ++i) {
                    auto const text = of_kind[i].get<std::string>();
                    prompts.push_back(tokens.encode(of_bounds ? text : beginning(text, words)));
                    if (of_bounds && prompts.back().size() > 120) prompts.back().resize(120);
                }
                if (of_steps)
                    result = steps(loaded, job, prompts.at(0));
                else
                    result = of_bounds ? bounds(loaded, job, prompts) : generate(loaded, job, prompts);
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
