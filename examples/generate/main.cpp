// generate: text from a target and a draft model by any of the library's methods.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "generate/compare.hpp"
#include "generate/methods.hpp"
#include "generate/report.hpp"
#include "multidraft/tree/shapes.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// The first words of some of the shipped texts, the same number of each kind.
std::vector<std::string> shipped_prompts(std::size_t of_each_kind) {
    std::string const file = MULTIDRAFT_MODELS_DIR "/held_out.json";
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file + ": cannot be read; name a prompt with --prompt");
    auto const texts = nlohmann::json::parse(in);
    constexpr std::size_t first_text = 3;  // earlier ones begin with lists of names
    std::vector<std::string> prompts;
    for (auto const* kind : {"scripture", "definitions", "satire"})
        for (std::size_t i = 0; i < of_each_kind; ++i) {
            auto const text = texts.at(kind).at(first_text + i).get<std::string>();
            std::size_t end = 0;
            for (int words = 0; words < 16 && end != std::string::npos; ++words) end = text.find(' ', end + 1);
            prompts.push_back(text.substr(0, end));
        }
    return prompts;
}

void list_methods(bool json) {
    if (json) {
        auto list = nlohmann::ordered_json::array();
        for (method const& m : methods())
            list.push_back({{"name", m.name}, {"lossless", m.lossless}, {"law", m.law}, {"summary", m.summary}});
        std::cout << list.dump(2) << '\n';
        return;
    }
    for (method const& m : methods())
        std::printf("%-34s %-9s %-14s %s\n", m.name.c_str(), m.lossless ? "lossless" : "lossy", m.law.c_str(),
                    m.summary.c_str());
}

/// The tree of a method: its own, or the one asked for; a chain as deep as that for methods that take only chains.
std::pair<std::string, topology> shape_of(method const& m, std::string const& asked) {
    if (m.tree.empty()) return {"", topology()};
    std::string const text = asked.empty() ? m.tree : asked;
    topology shape = parse_shape(text);
    if (m.chains_only && shape.width() > 1) {
        std::string chain_text = "1";
        for (std::int32_t d = 1; d < shape.max_depth(); ++d) chain_text += "x1";
        return {chain_text, chain(shape.max_depth())};
    }
    return {text, std::move(shape)};
}

int run(int argc, char** argv) {
    std::string const models = MULTIDRAFT_MODELS_DIR;
    std::string target_dir = models + "/target";
    std::string draft_dir = models + "/draft";
    std::string tokenizer_file;
    std::string prompt;
    std::string method_name = methods()[1].name;
    std::string tree;
    generation_options options;
    float draft_temperature = 0.1F;
    std::uint64_t repeat = 1;
    bool stream = false;
    bool json = false;
    bool compare_all = false;
    bool list = false;
    bool ignore_eos = false;
    std::size_t prompts_of_each_kind = 2;
    transformer_options model_options;
    std::string numbers = "auto";
    std::string device = "cpu";

    CLI::App app{
        "Generates text from a target model with the help of a draft model: exactly the target's distribution, in "
        "fewer "
        "target calls.\nWith no arguments: the best method on the shipped models and a shipped prompt."};
    app.add_option("--target", target_dir, "target model: a directory in the Hugging Face Llama layout")
        ->capture_default_str();
    app.add_option("--draft", draft_dir, "draft model, with the same tokenizer")->capture_default_str();
    app.add_option("--tokenizer", tokenizer_file, "tokenizer.model (default: in the target's directory or beside it)");
    auto* const prompt_option =
        app.add_option("--prompt", prompt, "the text to continue; - reads it from standard input");
    app.add_option("--method", method_name, "see --list-methods")->capture_default_str();
    app.add_option("--tree", tree,
                   "children by level, such as 4x2x2x1 (default: the method's own, chosen for the kind of CPU)");
    app.add_option("--temperature", options.warp.temperature, "0 is greedy")->capture_default_str();
    auto* const draft_temperature_option = app.add_option(
        "--draft-temperature", draft_temperature,
        "of the draft, which never changes the law of the text (default: the target's, or 0.1 where that is 0)");
    app.add_option("--top-k", options.warp.top_k, "0: off")->capture_default_str();
    app.add_option("--top-p", options.warp.top_p, "1: off")->capture_default_str();
    app.add_option("--min-p", options.warp.min_p, "0: off")->capture_default_str();
    app.add_option("--tokens", options.max_tokens, "emit at most so many tokens")->capture_default_str();
    app.add_option("--seed", options.seed, "equal seeds give equal texts")->capture_default_str();
    app.add_option("--repeat", repeat, "so many completions, with seeds S, S+1, ..")
        ->check(CLI::Range(std::uint64_t(1), std::uint64_t(1) << 40))
        ->capture_default_str();
    app.add_flag("--stream", stream, "print the text as it grows");
    app.add_flag("--ignore-eos", ignore_eos, "go on after the token that ends a text");
    app.add_flag("--json", json, "print one JSON object a run");
    app.add_flag("--compare", compare_all, "run every method on the same prompts and print a table");
    app.add_option("--prompts", prompts_of_each_kind,
                   "--compare without --prompt: so many shipped prompts of each kind")
        ->check(CLI::Range(1, 40))
        ->capture_default_str();
    app.add_flag("--list-methods", list, "print the methods");
    app.add_option("--threads", model_options.threads, "threads of a model (0: chosen by its size)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--device", device, "where the models run; the draws and decisions are the same")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--precision", numbers, "of the matrix products")
        ->check(CLI::IsMember({"auto", "bf16", "f32"}))
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    if (list) {
        list_methods(json);
        return 0;
    }
    validate(options.warp);
    options.draft_warp = options.warp;
    if (draft_temperature_option->count() > 0 || options.warp.greedy())
        options.draft_warp->temperature = draft_temperature;
    validate(*options.draft_warp);
    method const& how = find_method(method_name);
    auto const [tree_text, shape] = shape_of(how, tree);
    if (how.chains_only && !tree.empty() && tree_text != tree && !compare_all)
        throw std::runtime_error("--tree " + tree + ": " + how.name + " takes chains only, such as 1x1x1");

    model_options.numbers = numbers == "bf16"  ? precision::bf16
                            : numbers == "f32" ? precision::f32
                                               : precision::automatic;
    if (device == "cuda") {
#ifdef MULTIDRAFT_EXAMPLES_CUDA
        model_options.accelerator = on_cuda();
#else
        throw std::runtime_error("--device cuda: this build has no CUDA (nvcc and cuBLASLt were not found)");
#endif
    }
    model_options.tree_entries = std::max(model_options.tree_entries, shape.size() + 1);
    transformer target(target_dir, model_options);
    transformer draft(draft_dir, model_options);
    tokenizer const tokens(tokenizer_file.empty() ? find_tokenizer(target_dir) : std::filesystem::path(tokenizer_file),
                           target.vocabulary());
    if (!ignore_eos) {
        auto const& eos = target.weights()->config().eos_tokens;
        options.stop_tokens.assign(eos.begin(), eos.end());
    }

    std::vector<std::string> texts;
    if (prompt_option->count() == 0) {
        texts = shipped_prompts(compare_all ? prompts_of_each_kind : 1);
        if (!compare_all) texts.resize(1);
    } else if (prompt == "-") {
        texts.emplace_back(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    } else {
        texts.push_back(prompt);
    }
    std::vector<prompt_tokens> prompts;
    for (std::string const& text : texts) prompts.push_back(tokens.encode(text));

    if (compare_all) {
        auto const rows =
            compare(target, draft, prompts, options, repeat, [&](method const& m) { return shape_of(m, tree); });
        if (json) {
            for (comparison const& row : rows) std::cout << to_json(row).dump() << '\n';
        } else {
            print_table(rows, options.warp.greedy());
        }
        return 0;
    }

    validate(options, prompts.front(), target.vocabulary(), target.context_limit());  // before anything is printed
    std::uint64_t const first_seed = options.seed;
    for (std::uint64_t r = 0; r < repeat; ++r) {
        options.seed = first_seed + r;
        stream_decoder decoder(tokens, false);
        token_callback print;
        if (!json) std::cout << texts.front() << std::flush;
        if (stream && !json)
            print = [&](std::span<token_id const> emitted) {
                for (token_id const t : emitted) std::cout << decoder.push(t);
                std::cout << std::flush;
                return true;
            };
        generation const g = how.run(target, draft, shape, prompts.front(), options, print);
        if (json) {
            std::cout << to_json(how, g, continuation(tokens, g.tokens), options.seed)
                             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                      << '\n'
                      << std::flush;
        } else {
            std::cout << (stream ? decoder.finish() : continuation(tokens, g.tokens)) << '\n' << std::flush;
            print_summary(how, g.metrics);
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (std::exception const& e) {
        std::cerr << "generate: " << e.what() << '\n';
        return 1;
    }
}
