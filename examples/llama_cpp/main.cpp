// llama-multidraft: text from two GGUF models by any lossless method of the library, with llama.cpp running the models.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "command_line.hpp"
#include "generate/kept_costs.hpp"
#include "generate/progress.hpp"
#include "llama_cpp/decoder.hpp"
#include "llama_cpp/many.hpp"
#include "llama_cpp/methods.hpp"
#include "llama_cpp/text.hpp"
#include "many_prompts.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "run_report.hpp"
#include "tree_choices.hpp"
#include "tree_option.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// The arguments with llama.cpp's short names of several letters expanded, last first as CLI11 takes them.
std::vector<std::string> written_out(int argc, char** argv) {
    constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"-md", "--model-draft"},   {"-ngl", "--gpu-layers"}, {"-ngld", "--gpu-layers-draft"},
        {"-td", "--threads-draft"}, {"-fa", "--flash-attn"},  {"-sys", "--system-prompt"},
        {"-ctk", "--cache-type"}};
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) {
        std::string argument = argv[i];
        for (auto const& [brief, full] : names)
            if (argument == brief) argument = full;
        arguments.push_back(std::move(argument));
    }
    return arguments;
}

void list_methods(bool json) {
    auto list = nlohmann::ordered_json::array();
    for (llama_method const& m : llama_methods()) {
        list.push_back({{"name", m.name}, {"lossless", true}, {"law", m.law}, {"summary", m.summary}});
        if (!json) std::printf("%-36s %-14s %s\n", m.name.c_str(), m.law.c_str(), m.summary.c_str());
    }
    if (json) std::cout << list.dump(2) << '\n';
}

std::string file_text(std::string const& name) {
    std::ifstream in(name, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) throw std::runtime_error(name + ": cannot be read");
    return text;
}

ggml_type cache_type_of(std::string const& name) {
    for (ggml_type const type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0})
        if (name == ggml_type_name(type)) return type;
    throw std::runtime_error("--cache-type " + name + ": f32, f16, bf16, q8_0 or q4_0");
}

void print_row(llama_method const& how, topology const& shape, generation const& g, double baseline, bool same_text) {
    generation_metrics const& m = g.metrics;
    std::string const tree = how.drafts ? to_string(shape) : "-";
    std::printf("%-36s %-12.12s %10.1f %6.2fx %11.3f %11.3f %7.1f%% %7.1f%% %6s\n", how.name.c_str(), tree.c_str(),
                m.tokens_per_second(), baseline > 0 ? m.tokens_per_second() / baseline : 1.0, m.block_efficiency(),
                m.acceptance_rate(), 100 * share(m, m.time.target), 100 * share(m, m.time.draft),
                same_text ? "yes" : "no");
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    std::string target_file;
    std::string draft_file;
    std::string prompt;
    std::string prompt_file;
    std::string prompts_file;
    std::int32_t parallel = 4;
    std::string system_prompt;
    std::string chat_template;
    std::string method_name = "nested_ranked_block/stratified";
    std::string tree;
    std::string costs;
    std::int32_t budget = 16;
    std::string flash_attention = "auto";
    std::string cache_type = "f16";
    generation_options options;
    float draft_temperature = 0.1F;
    std::int32_t threads = 0;
    std::int32_t draft_threads = 0;
    std::int32_t gpu_layers = 0;
    std::int32_t draft_gpu_layers = 0;
    decoder_options room;
    std::uint64_t repeat = 1;
    bool chat = false;
    bool stream = false;
    bool json = false;
    bool compare = false;
    bool ignore_eos = false;
    bool list = false;

    CLI::App app{
        "Generates text from a target model with the help of a draft model, both GGUF files run by llama.cpp: exactly "
        "the target's distribution, in fewer target calls.\nTemperature comes first, then top-k, top-p and min-p."};
    app.add_option("-m,--model", target_file, "target model, a GGUF file");
    app.add_option("--model-draft", draft_file, "-md: draft model with the same vocabulary");
    auto* const prompt_option =
        app.add_option("-p,--prompt", prompt, "the text to continue; - reads it from standard input");
    auto* const file_option =
        app.add_option("-f,--file", prompt_file, "a file with the text to continue")->excludes(prompt_option);
    auto* const prompts_option =
        app.add_option("--prompt-file", prompts_file,
                       "continue the prompts of this file, one in each line, several at a time; -: standard input")
            ->excludes(prompt_option, file_option);
    app.add_option("--parallel", parallel, "--prompt-file: so many at a time")
        ->check(CLI::Range(1, static_cast<int>(llama_max_parallel_sequences())))
        ->capture_default_str()
        ->needs(prompts_option);
    app.add_flag("--chat", chat, "the prompt is what a user says: put into the model's chat template");
    app.add_option("--system-prompt", system_prompt, "-sys: what the system says before (implies --chat)");
    app.add_option("--chat-template", chat_template,
                   "the name of a template that llama.cpp knows, in place of the model's own (implies --chat)");
    app.add_option("-n,--predict", options.max_tokens, "emit at most so many tokens")->capture_default_str();
    auto* const method_option =
        app.add_option("--method", method_name,
                       "see --list-methods; auto: verifier and tree are chosen at each step, no tree among them")
            ->capture_default_str();
    auto* const tree_option =
        app.add_option("--tree", tree,
                       "children by level, such as 4x2x2x1; fork:3x4, chain:5; auto: chosen at each step by the times "
                       "of the models and what was accepted, no tree among them (default: auto; with --method or "
                       "--compare 1x1)");
    auto* const budget_option = app.add_option("--budget", budget, "--tree auto: drafted nodes at most")
                                    ->check(CLI::Range(1, 64))
                                    ->capture_default_str();
    app.add_option("--costs", costs,
                   "auto: the times of the models, written to this file where there is none, and else read from it, so "
                   "that equal seeds give equal texts wherever it is read (default: a file of this machine in the "
                   "user's cache; without --seed the times are also learnt while it runs)");
    app.add_option("--temp", options.sampling.temperature, "0 is greedy")->capture_default_str();
    auto* const draft_temperature_option = app.add_option(
        "--draft-temp", draft_temperature,
        "of the draft, which never changes the law of the text (default: the target's, or 0.1 where that is 0)");
    app.add_option("--top-k", options.sampling.top_k, "0: off")->capture_default_str();
    app.add_option("--top-p", options.sampling.top_p, "1: off")->capture_default_str();
    app.add_option("--min-p", options.sampling.min_p, "0: off")->capture_default_str();
    auto* const seed_option =
        app.add_option("-s,--seed", options.seed,
                       "equal seeds give equal texts, with trees that are chosen by kept times (--costs), too")
            ->check(CLI::Validator(fault_of_unsigned, "0 .. 2^64 - 1"))
            ->capture_default_str();
    app.add_option("--repeat", repeat, "so many completions, with seeds S, S+1, ..")
        ->check(CLI::Range(std::uint64_t(1), std::uint64_t(1) << 40))
        ->capture_default_str();
    app.add_option("-t,--threads", threads, "threads of the target (0: one a core)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--threads-draft", draft_threads, "-td: of the draft (0: as the target)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--gpu-layers", gpu_layers, "-ngl: layers of the target on a GPU (-1: all)")->capture_default_str();
    app.add_option("--gpu-layers-draft", draft_gpu_layers, "-ngld: of the draft")->capture_default_str();
    app.add_option("-c,--ctx-size", room.context, "positions of prompt and text (0: as the model was trained)")
        ->check(CLI::Range(0, 1 << 28))
        ->capture_default_str();
    app.add_option("-b,--batch-size", room.batch, "tokens of one call; a longer prompt is read in pieces")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    app.add_option("--flash-attn", flash_attention, "-fa: on, off or auto")
        ->check(CLI::IsMember({"on", "off", "auto"}))
        ->capture_default_str();
    app.add_option("--cache-type", cache_type, "-ctk: of the caches' keys and values")->capture_default_str();
    app.add_flag("--ignore-eos", ignore_eos, "go on after a token that ends a text");
    app.add_flag("--stream", stream, "print the text as it grows");
    app.add_flag("--json", json, "print one JSON object a run");
    app.add_flag("--compare", compare, "run every method on the prompt and print a table");
    app.add_flag("--list-methods", list, "print the methods");
    try {
        app.parse(written_out(argc, argv));
    } catch (CLI::ParseError const& e) {
        return app.exit(e);
    }

    if (list) {
        list_methods(json);
        return 0;
    }
    if (repeat - 1 > std::numeric_limits<std::uint64_t>::max() - options.seed)
        throw std::runtime_error("--repeat " + std::to_string(repeat) + ": the last seed would exceed 2^64 - 1");
    llama_method const& how = find_llama_method(method_name);
    if (target_file.empty()) throw std::runtime_error("--model: a target model is needed, a GGUF file");
    if (draft_file.empty() && (how.needs_draft || compare))
        throw std::runtime_error("--model-draft: " + (compare ? std::string("--compare") : how.name) +
                                 " needs a draft model; without one there are naive/lookup and autoregressive");
    bool const many = prompts_option->count() > 0;
    if (prompt_option->count() == 0 && prompt_file.empty() && !many)
        throw std::runtime_error("--prompt or --file: a text to continue is needed, or --prompt-file: several");
    if (many && (compare || stream || repeat > 1 || !costs.empty()))
        throw std::runtime_error("--prompt-file: not with --compare, --stream, --repeat or --costs");
    if (many && how.name != llama_methods()[0].name && how.name != llama_methods()[1].name)
        throw std::runtime_error("--prompt-file: by " + llama_methods()[1].name + ", or without drafts by " +
                                 llama_methods()[0].name + "; not by " + how.name);
    if (!prompt_file.empty()) prompt = file_text(prompt_file);
    // Before a model is opened, whose file descriptor would replace that of a closed input.
    if (prompt_option->count() > 0 && prompt == "-") prompt = read_standard_input();
    std::vector<std::string> texts;
    if (many) texts = read_prompts(prompts_file);
    validate(options.sampling);
    options.draft_sampling = options.sampling;
    if (draft_temperature_option->count() > 0 || options.sampling.greedy())
        options.draft_sampling->temperature = draft_temperature;
    naming_options({{"temperature", "--draft-temp"}}, [&] { validate(*options.draft_sampling); });
    if (compare && (method_option->count() > 0 || stream || repeat > 1))
        throw std::runtime_error("--compare: not with --method, --stream or --repeat");
    if (stream && json) throw std::runtime_error("--stream: not with --json");
    if (how.name == "auto" && tree_option->count() > 0 && tree != "auto")
        throw std::runtime_error("--method auto: its trees are chosen at each step; name no --tree, or a method");
    // As `generate` does: who names a seed expects the same text again, by kept times.
    bool const repeatable = seed_option->count() > 0 || !costs.empty();
    bool const chooses_by_default = tree.empty() && method_option->count() == 0 && !compare;
    bool const may_choose = chooses_by_default || tree == "auto" || how.name == "auto";
    auto const kept_costs = costs.empty() && may_choose && !many  // whose times are measured
                                ? directory_of_kept_costs()
                                : std::filesystem::path();
    if (chooses_by_default && (!repeatable || !costs.empty() || !kept_costs.empty())) tree = "auto";
    if (tree.empty()) tree = how.needs_draft || compare ? "1x1" : "auto";
    bool const choose = how.name == "auto" || (tree == "auto" && how.drafts && how.needs_draft);
    if (tree == "auto" && !choose) tree = "chain:4";  // look-up costs nothing to draft
    if (!costs.empty() && !choose) throw std::runtime_error("--costs: for --tree auto and --method auto");
    if (budget_option->count() > 0 && !choose) throw std::runtime_error("--budget: for --tree auto and --method auto");
    if (choose && compare) throw std::runtime_error("--tree auto: for a text of one method, not for --compare");
    controller_options choices;
    if (choose)
        choices = choices_of(how, how.trees == allowed_trees::forks,
                             how.trees == allowed_trees::chains  ? 1
                             : how.trees == allowed_trees::pairs ? 2
                                                                 : 0,
                             budget);
    topology const shape = choose ? branching({budget}) : tree_of_option(tree);
    if (!choose && !compare && how.drafts && fitted(how, shape) != shape)
        throw std::runtime_error("--tree " + tree + ": " + how.name + " takes " +
                                 (how.trees == allowed_trees::chains  ? "chains only, such as 1x1x1"
                                  : how.trees == allowed_trees::pairs ? "two children a node at most, such as 2x2x1"
                                                                      : "chains that part at the root only, as 3x1x1"));

    auto const cores = static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
    room.threads = threads == 0 ? cores : threads;
    room.cache_type = cache_type_of(cache_type);
    room.flash_attention = flash_attention == "auto" ? -1 : flash_attention == "on" ? 1 : 0;
    // Best-first trees and beams read more nodes than their tree has; a look-up adds some.
    room.tree_nodes = 4 * shape.size() + 64;
    room.sequences = std::min(static_cast<std::int32_t>(llama_max_parallel_sequences()), room.tree_nodes);

    auto const load = [](std::string const& file, std::int32_t layers) {
        progress_bar bar("loading " + file);
        return std::make_shared<gguf_model>(file, gguf_options{layers, [&](double done) { bar.show(done); }});
    };
    auto const target_model = load(target_file, gpu_layers);
    llama_vocab const* const vocabulary = target_model->vocabulary();
    bool const has_system_prompt = app.count("--system-prompt") > 0;
    chat = chat || has_system_prompt || !chat_template.empty();
    auto const refuse_marks = [&](std::string const& text) {
        if (tokenize(vocabulary, text, true) != tokenize(vocabulary, text, false))
            throw std::runtime_error(
                "--chat: the text holds a control token of the model, which would begin or end a turn: " + text);
    };
    auto const tokens_of = [&](std::string const& text) {
        if (!chat) return tokenize(vocabulary, text, false);
        refuse_marks(text);
        refuse_marks(system_prompt);
        std::vector<std::pair<std::string, std::string>> messages;
        if (has_system_prompt) messages.emplace_back("system", system_prompt);
        messages.emplace_back("user", text);
        return tokenize(vocabulary, apply_chat_template(target_model->get(), chat_template, messages), true);
    };
    std::string const between = chat ? "\n\n" : "";  // a prompt and its continuation
    if (!ignore_eos) options.stop_tokens = end_tokens(vocabulary);
    auto const load_draft = [&] {
        auto model = load(draft_file, draft_gpu_layers);
        if (auto const difference = vocabulary_difference(vocabulary, model->vocabulary()))
            throw std::runtime_error(draft_file + ": another vocabulary than the target's: " + *difference);
        return model;
    };
    bool const needs_draft = !draft_file.empty() && (how.needs_draft || compare);
    if (draft_threads == 0) draft_threads = room.threads;

    if (many) {
        std::vector<std::vector<token_id>> prompts;
        for (std::string const& text : texts) prompts.push_back(tokens_of(text));
        std::shared_ptr<gguf_model const> draft_model;
        if (needs_draft) draft_model = load_draft();
        return continue_many(
            target_model, draft_model, how,
            {.program = "llama-multidraft",
             .texts = texts,
             .prompts = prompts,
             .continuation = [&](std::vector<token_id> const& more) { return text_of(vocabulary, more); },
             .between = between,
             .parallel = parallel,
             .json = json},
            options, {room, draft_threads, how.drafts && !choose ? shape : topology(), choose, budget});
    }

    auto const tokens = tokens_of(prompt);
    llama_decoder target(target_model, room);
    // Before anything is printed, and before the draft is loaded.
    validate(options, tokens, target.vocabulary(), target.context_limit());
    std::optional<llama_decoder> draft;
    if (needs_draft) {
        auto const draft_model = load_draft();
        decoder_options of_draft = room;
        if (of_draft.context == 0)
            of_draft.context = std::min(target.context_limit(), llama_model_n_ctx_train(draft_model->get()));
        of_draft.threads = draft_threads;
        draft.emplace(draft_model, of_draft);
    }
    llama_decoder* const drafting = draft ? &*draft : nullptr;

    std::vector<step_times> times;  // one, where trees are chosen
    std::string costs_file = costs;
    if (choose) {
        choices.learns_times = !repeatable;
        auto const measure = [&] { return measure_times(target, *draft, how, tokens, options, budget); };
        auto with = conditions_of(name_of_model(target_file, false), name_of_model(draft_file, false), options);
        auto const both = [](std::int32_t of_target, std::int32_t of_draft) {
            return std::to_string(of_target) + " and " + std::to_string(of_draft);
        };
        with.insert(with.end(), {{"layers_on_a_gpu", both(gpu_layers, draft_gpu_layers)},
                                 {"cache_type", cache_type},
                                 {"flash_attention", flash_attention}});
        if (kept_costs.empty()) {
            times.push_back(times_of(costs, how, with, measure));
        } else {
            auto [known, file] = kept_times(kept_costs,
                                            what_costs_are_of({name_of_model(target_file), name_of_model(draft_file),
                                                               both(room.threads, draft_threads) + " threads", how.name,
                                                               std::to_string(budget) + " nodes"},
                                                              with),
                                            how, with, measure);
            times.push_back(std::move(known));
            costs_file = std::move(file);
        }
    }

    if (compare) {
        std::vector<token_id> reference;
        double baseline = 0;
        if (!json)
            std::printf("%-36s %-12s %10s %7s %11s %11s %8s %8s %6s\n", "method", "tree", "tokens/s", "speed",
                        "tokens/call", "acceptance", "target", "draft", "same");
        for (llama_method const& m : llama_methods()) {
            topology const its = fitted(m, shape);
            generation const g = m.run(target, drafting, its, tokens, options, {});
            if (&m == &llama_methods().front()) {
                reference = g.tokens;
                baseline = g.metrics.tokens_per_second();
            }
            if (json) {
                auto report = run_as_json(m.name, true, g, text_of(vocabulary, g.tokens), options.seed);
                report["tree"] = m.drafts ? to_string(its) : "";
                report["same_text"] = g.tokens == reference;
                std::cout << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n'
                          << std::flush;
            } else {
                print_row(m, its, g, baseline, g.tokens == reference);
            }
            check_output();
        }
        return 0;
    }

    std::optional<automatic_tree> chosen;
    std::uint64_t const first_seed = options.seed;
    for (std::uint64_t r = 0; r < repeat; ++r) {
        options.seed = first_seed + r;
        token_callback print;
        if (!json) std::cout << prompt << between << std::flush;
        if (stream && !json)
            print = [&](std::span<token_id const> emitted) {
                for (token_id const t : emitted) std::cout << piece(vocabulary, t);
                return output_arrives();
            };
        // Rates and times carry over from text to text, except where equal seeds shall give equal texts.
        if (choose && (!chosen || repeatable)) chosen.emplace(times.front(), choices);
        generation const g = chosen ? how.run_choices(target, *draft, *chosen, tokens, options, print)
                                    : how.run(target, drafting, shape, tokens, options, print);
        std::string const text = text_of(vocabulary, g.tokens);
        if (json) {
            auto report = run_as_json(how.name, true, g, text, options.seed);
            report["tree"] = chosen ? "auto" : how.drafts ? to_string(shape) : "";
            if (chosen) report["trees"] = to_json(*chosen, how);
            if (!costs_file.empty()) report["costs"] = costs_file;
            report["accepted_fraction"] =
                rate_of(g.metrics, g.metrics.accepted_fraction(chosen ? chosen->depth() : shape.max_depth()));
            std::cout << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
        } else {
            if (!stream) std::cout << text;
            std::cout << '\n' << std::flush;
            print_summary(how.name, g.metrics);
            if (chosen) print_choices(*chosen, how);
            if (!costs_file.empty() && repeatable) std::fprintf(stderr, "[costs: %s]\n", costs_file.c_str());
        }
        check_output();
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        int const result = naming_sampling_options("--temp", "--predict", [&] { return run(argc, argv); });
        check_output();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "llama-multidraft: " << e.what() << '\n';
        return 1;
    }
}
