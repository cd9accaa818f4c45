// generate: text from a target and a draft model by any of the library's methods.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "command_line.hpp"
#include "generate/block_costs.hpp"
#include "generate/chat.hpp"
#include "generate/compare.hpp"
#include "generate/decisions.hpp"
#include "generate/drafter_option.hpp"
#include "generate/draw_tree.hpp"
#include "generate/energy.hpp"
#include "generate/head_costs.hpp"
#include "generate/kept_costs.hpp"
#include "generate/many.hpp"
#include "generate/methods.hpp"
#include "generate/perplexity.hpp"
#include "generate/progress.hpp"
#include "generate/report.hpp"
#include "generate/search.hpp"
#include "generate/tree_methods.hpp"
#include "generate/unread_options.hpp"
#include "many_prompts.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "transformer/gguf.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "tree_choices.hpp"
#include "tree_option.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// The first words of some of the shipped texts, the same number of each kind.
std::vector<std::string> shipped_prompts(std::size_t of_each_kind, std::size_t skip = 0) {
    std::string const file = MULTIDRAFT_MODELS_DIR "/held_out.json";
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file + ": cannot be read; name a prompt with --prompt");
    auto const texts = nlohmann::json::parse(in);
    constexpr std::size_t first_text = 3;  // earlier ones begin with lists of names
    std::vector<std::string> prompts;
    for (auto const* kind : {"scripture", "definitions", "satire"})
        for (std::size_t i = 0; i < of_each_kind; ++i) {
            if (first_text + skip + i >= texts.at(kind).size()) break;
            auto const text = texts.at(kind).at(first_text + skip + i).get<std::string>();
            std::size_t end = 0;
            for (int words = 0; words < 16 && end != std::string::npos; ++words) end = text.find(' ', end + 1);
            prompts.push_back(text.substr(0, end));
        }
    return prompts;
}

void list_methods(bool json) {
    if (json) {
        auto list = nlohmann::ordered_json::array();
        for (method const& m : offered_methods())
            list.push_back({{"name", m.name}, {"lossless", m.lossless}, {"law", m.law}, {"summary", m.summary}});
        std::cout << list.dump(2) << '\n';
        return;
    }
    for (method const& m : offered_methods())
        std::printf("%-36s %-9s %-14s %s\n", m.name.c_str(), m.lossless ? "lossless" : "lossy", m.law.c_str(),
                    m.summary.c_str());
}

/// A shape without the children of any node beyond the first `most`.
topology narrowed(topology const& shape, std::int32_t most) {
    std::vector<node_id> kept{0};
    std::vector<node_id> parents{none};
    for (std::size_t i = 0; i < kept.size(); ++i) {
        node_range const children = shape.children(kept[i]);
        for (node_id v = children.first; v < std::min(children.end(), children.first + most); ++v) {
            kept.push_back(v);
            parents.push_back(static_cast<node_id>(i));
        }
    }
    return topology::from_parents(parents);
}

/// The tree of a method: its own, or the requested one. Methods that accept only chains get a chain of the same depth;
/// those that accept only forks get a fork of the same depth with no more nodes.
std::pair<std::string, topology> shape_of(method const& m, std::string const& asked) {
    if (m.tree.empty()) return {"", topology()};
    std::string const text = asked.empty() ? m.tree : asked;
    if (text == "auto") return {text, topology()};
    if (is_from_rows(text)) return m.trees_from_rows ? std::pair(text, topology()) : shape_of(m, "");
    topology shape = tree_of_option(text);
    if (shape.size() == 1 && !settings().block_drafter.empty())
        throw std::runtime_error("--tree " + text + ": drafts nothing: with a block drafter --method autoregressive");
    if (m.chains_only && shape.width() > 1) {
        topology one = chain(shape.max_depth());
        return {to_string(one), std::move(one)};
    }
    if (m.most_children > 0) {
        topology narrow = narrowed(shape, m.most_children);
        if (narrow != shape) return {to_string(narrow), std::move(narrow)};
    }
    if (m.forks_only && shape.max_depth() > 0) {
        std::int32_t const depth = shape.max_depth();
        topology forked = fork((shape.size() - 1) / depth, depth);
        if (forked != shape) return {to_string(forked), std::move(forked)};
    }
    return {text, std::move(shape)};
}

/// Nodes of the beams of the settings along a chain of that depth, which the caches have space for. Throws
/// `std::runtime_error` for too many.
std::int32_t nodes_of_beams(topology const& shape) {
    constexpr std::int32_t most = 1 << 14;
    std::int32_t const levels = std::max(1, shape.max_depth());
    if (settings().beams > most / levels)
        throw std::runtime_error("--beams " + std::to_string(settings().beams) + ": at most " +
                                 std::to_string(most / levels) + " with a tree of " + std::to_string(levels) +
                                 " levels");
    return settings().beams * levels;
}

int run(int argc, char** argv) {
    std::string const models = MULTIDRAFT_MODELS_DIR;
    std::string target_dir = models + "/target";
    std::string draft_dir = models + "/draft-distilled";
    std::string tokenizer_file;
    std::string prompt;
    std::string method_name = all_methods()[1].name;
    std::string tree;
    generation_options options;
    float draft_temperature = 0.1F;
    std::uint64_t repeat = 1;
    bool stream = false;
    bool json = false;
    bool compare_all = false;
    bool list = false;
    bool dump_decisions = false;
    bool ignore_eos = false;
    std::size_t prompts_of_each_kind = 2;
    transformer_options model_options;
    std::string numbers = "auto";
    std::string cache = "auto";
    std::string device = "cpu";

    CLI::App app{
        "Generates text from a target model with the help of a draft model: exactly the target's distribution, in "
        "fewer "
        "target calls.\nWith no arguments: the best method on the shipped models and a shipped prompt."};
    app.add_option("--target", target_dir,
                   "target model: a directory in the Hugging Face Llama layout, or a GGUF file of this layout")
        ->capture_default_str();
    auto* const draft_option =
        app.add_option("--draft", draft_dir,
                       "draft model, with the same tokenizer; lookup: none, drafts are what followed earlier in the "
                       "text (the default for a GGUF file)")
            ->capture_default_str();
    std::string drafter = "independent";
    auto* const drafter_option =
        app.add_option(
               "--drafter", drafter,
               "independent: the model of --draft; block: the target's block drafter, in the directory "
               "block-drafter beside it; eagle: its head of EAGLE-3, in the directory eagle-head; or the directory "
               "of one of "
               "them. Both read the target's hidden states; a block drafter drafts all levels in one call. Not "
               "with --draft, --search, --dump-decisions, --method auto or --device cuda (default of --chat with "
               "SmolLM2: the shipped block drafter of that)")
            ->capture_default_str();
    std::int32_t candidates = 0;
    auto* const candidates_option =
        app.add_option("--candidates", candidates,
                       "block drafter: only so many of the likeliest tokens of its rows; 0: all (default: 256 with a "
                       "drafter that has fewer tokens than the target, else 0; nested_ranked_block/stratified only)")
            ->check(CLI::Range(0, 1 << 30));
    app.add_option("--tokenizer", tokenizer_file,
                   "tokenizer.model (default: in the target's directory or beside it, or in the GGUF file)");
    auto* const prompt_option =
        app.add_option("--prompt", prompt, "the text to continue; - reads it from standard input");
    std::string prompt_file;
    many_options many;
    auto* const file_option =
        app.add_option("--prompt-file", prompt_file,
                       "continue the prompts of this file, one in each line, several at a time; -: standard input");
    app.add_option("--parallel", many.parallel, "--prompt-file: so many at a time")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str()
        ->needs(file_option);
    file_option->excludes(prompt_option);
    chat_options talk;
    std::string system_message;
    auto* const chat_option =
        app.add_option("--chat", talk.question,
                       "answer this question by the chat template of the target, a GGUF file; without one, those that "
                       "standard input has, a line each, with the conversation before them")
            ->expected(0, 1)
            ->excludes(prompt_option, file_option);
    auto* const system_option =
        app.add_option("--system", system_message, "--chat: the system message (default: the template's)")
            ->needs(chat_option);
    auto* const method_option =
        app.add_option("--method", method_name,
                       "see --list-methods; auto: verifier and tree are chosen at each step, no tree among them")
            ->capture_default_str();
    auto* const tree_option = app.add_option(
        "--tree", tree,
        "children by level, such as 4x2x2x1; fork:3x4, chain:5, or choices as Medusa and EAGLE publish them, "
        "[[0], [1], [0, 0]]; auto: chosen at each step by the times of the models and what was accepted, no tree among "
        "them (default: auto; with --method or --show-tree the method's own, chosen for the kind of CPU).\n"
        "With a block drafter: best: of --budget nodes, the tree of the most expected tokens by the rows of the step, "
        "none "
        "worth less than --least; reach: level by level, as many children as are worth --least where the node is "
        "reached "
        "(with --method or --show-tree the default is reach above temperature 0 where rows have a term of the parent's "
        "token, without --budget; else best)");
    std::string costs;
    app.add_option("--costs", costs,
                   "auto: the times of the models, written to this file where there is none, and else read from it, so "
                   "that equal seeds give equal texts wherever it is read (default: a file of this machine in the "
                   "user's cache; without --seed the times are also learnt while it runs)");
    method_settings& single = settings();
    single.second_draft = models + "/draft-tiny";
    app.add_option("--second-draft", single.second_draft, "the second model of methods with two drafts")
        ->capture_default_str();
    app.add_option("--least", single.least,
                   "recursive_rejection/best_first, --tree best, --tree reach: no draw that is worth less")
        ->check(CLI::Validator(number_in(0, 1), "0 .. 1"))
        ->capture_default_str();
    app.add_option("--stop-below", single.stop_below,
                   "early_stop: ends the tree when every path's chance is below this")
        ->check(CLI::Validator(number_in(0, 1), "0 .. 1"))
        ->capture_default_str();
    app.add_option("--stop-by", single.stop_by,
                   "lossy/target_initialised: the decision model that ends its tree, as --stop-below says")
        ->check(CLI::IsMember({"none", "probabilities", "hidden"}))
        ->capture_default_str();
    app.add_option("--lookup-paths", single.lookup_paths,
                   "lookup: continuations at most; 0: none beside the trees of a block drafter")
        ->check(CLI::Range(0, 4096))
        ->capture_default_str();
    app.add_option("--lookup-longest", single.lookup_longest, "lookup: tokens of the longest match")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    app.add_option("--fallback", single.fallback, "lossy/bild: the draft goes on while it is as sure as this")
        ->check(CLI::Validator(number_in(0, 1), "0 .. 1"))
        ->capture_default_str();
    app.add_option("--rollback", single.rollback, "lossy/bild: the largest -log p of a token that is kept")
        ->check(CLI::Validator(number_in(0, std::numeric_limits<double>::infinity()), "0 .."))
        ->capture_default_str();
    app.add_option("--joint-threshold", single.joint_threshold, "lossy/joint_likelihood: the least p/q of a prefix")
        ->check(CLI::Validator(number_in(0, 1), "0 .. 1"))
        ->capture_default_str();
    app.add_option("--beams", single.beams, "lossy/joint_*: sequences of a beam")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    app.add_option("--typical-epsilon", single.typical_epsilon,
                   "lossy/typical_acceptance: a candidate passes above min(epsilon, delta exp(-entropy))")
        ->check(CLI::Validator(number_in(0, 1, true), "above 0 .. 1"))
        ->capture_default_str();
    app.add_option("--typical-delta", single.typical_delta, "lossy/typical_acceptance: the factor of that")
        ->check(CLI::Validator(number_in(0, 1, true), "above 0 .. 1"))
        ->capture_default_str();
    auto* const temperature_option =
        app.add_option("--temperature", options.sampling.temperature, "0 is greedy; with --chat 0.7 unless given")
            ->capture_default_str();
    auto* const draft_temperature_option = app.add_option(
        "--draft-temperature", draft_temperature,
        "of the draft, which never changes the law of the text (default: the target's, or 0.1 where that is 0)");
    app.add_option("--top-k", options.sampling.top_k, "0: off")->capture_default_str();
    app.add_option("--top-p", options.sampling.top_p, "1: off")->capture_default_str();
    app.add_option("--min-p", options.sampling.min_p, "0: off")->capture_default_str();
    auto* const tokens_option =
        app.add_option("--tokens", options.max_tokens, "emit at most so many tokens; with --chat 512 unless given")
            ->capture_default_str();
    auto* const seed_option =
        app.add_option("--seed", options.seed,
                       "equal seeds give equal texts, with trees that are chosen by kept times (--costs), too")
            ->check(CLI::Validator(fault_of_unsigned, "0 .. 2^64 - 1"))
            ->capture_default_str();
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
    bool perplexity = false;
    bool search_trees = false;
    std::int32_t budget = 32;
    bool show_tree = false;
    std::string tree_svg;
    std::string tree_dot;
    std::int32_t tree_step = 1;
    app.add_flag("--perplexity", perplexity,
                 "--compare, --json: also the perplexity of the text under the target, by one more call of it");
    app.add_flag("--search", search_trees,
                 "measure the method's acceptance by depth and rank and the models' costs, print the best tree of "
                 "every budget, and "
                 "run the best three; where such rates do not carry over from tree to tree, run some trees instead");
    auto* const budget_option =
        app.add_option("--budget", budget,
                       "--search: drafted nodes at most; --tree auto, best: the same, 16 unless given")
            ->check(CLI::Range(1, 256))
            ->capture_default_str();
    app.add_flag("--show-tree", show_tree, "draw the tree of each step on standard error");
    app.add_option("--show-tree-svg", tree_svg, "write the tree of one step to this file");
    app.add_option("--show-tree-dot", tree_dot, "write it to this file for Graphviz");
    app.add_option("--show-tree-step", tree_step, "which step the files show (the last, when there are fewer)")
        ->check(CLI::Range(1, 1 << 30))
        ->capture_default_str();
    app.add_flag("--dump-decisions", dump_decisions,
                 "write what the decision models of early stopping are trained on, from the shipped prompts that no "
                 "other option uses");
    app.add_option("--decision-models", single.early_stop,
                   "early_stop: directory of the decision models' weights (default: early_stop in that of --draft)");
    app.add_flag("--list-methods", list, "print the methods");
    app.add_option(
           "--threads", model_options.threads,
           "threads of a model (0: one for a small one, else at each call as many as have been fastest lately, so "
           "that a core in other use does no harm; the text does not depend on it, unless --tree auto finds other "
           "trees "
           "worth their time)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--device", device, "where the models run; the draws and decisions are the same")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option(
           "--precision", numbers,
           "of the matrix products. bf16: weights and inputs are rounded to it; f32: weights as in the file, inputs "
           "in float; stored: the same bits, but weights in the blocks of a GGUF file stay so, in a fraction of the "
           "bytes; stored8: these blocks with inputs rounded to 8 bits, as llama.cpp multiplies them; q8_0: the same, "
           "and other weights are rounded to blocks of 8 bits, which halves what a step reads of bf16 and is another "
           "model, of slightly other probabilities; int8: weights of 8 bits with a scale a row, inputs rounded to "
           "bf16; auto: stored8 for a GGUF file in blocks, or stored where the CPU has no vectors of bytes, else bf16 "
           "where the CPU has instructions for it, else f32; a drafter that reads hidden states is q8_0 beside "
           "stored8")
        ->check(CLI::IsMember({"auto", "bf16", "f32", "stored", "stored8", "q8_0", "int8"}))
        ->capture_default_str();
    app.add_option("--kv-cache", cache,
                   "how keys and values are kept: f32, or f16, rounded to 16 bits, which halves what a step reads of a "
                   "long text and is another model, of slightly other probabilities; auto: f16 with --precision "
                   "stored8 and q8_0, else f32")
        ->check(CLI::IsMember({"auto", "f32", "f16"}))
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (tree_option->count() > 0 && tree.empty())
        throw std::runtime_error("--tree '': a shape is wanted, such as 3x1x1, or auto");
    // An empty argument is no missing one: a script may have meant a question.
    for (int k = 1; k < argc; ++k)
        if (std::string_view const one = argv[k];
            one == "--chat=" || (one == "--chat" && k + 1 < argc && *argv[k + 1] == '\0'))
            throw std::runtime_error("--chat '': an empty question; --chat alone answers those of standard input");

    std::string const mode = mode_of(app);
    bool const talks = chat_option->count() > 0;
    bool const names_drafts = draft_option->count() > 0 || drafter_option->count() > 0 ||
                              (method_option->count() > 0 && drafts_without_model(method_name));
    if (talks && !names_drafts && device == "cpu") drafter = default_drafter_of_chat(target_dir, models);
    std::string const drafter_dir = drafter_of_option(drafter, target_dir);
    bool const by_states = !drafter_dir.empty();  // of the target
    bool const by_head = by_states && is_eagle_head_config(std::filesystem::path(drafter_dir) / "config.json");
    bool const by_block = by_states && !by_head;
    if (by_block) single.block_drafter = drafter_dir;
    if (by_head) single.eagle_head = drafter_dir;
    if (list) {
        list_methods(json);
        return 0;
    }
    if (repeat - 1 > std::numeric_limits<std::uint64_t>::max() - options.seed)
        throw std::runtime_error("--repeat " + std::to_string(repeat) + ": the last seed would exceed 2^64 - 1");
    // Before a model is opened, whose file descriptor would replace that of a closed input.
    if (prompt_option->count() > 0 && prompt == "-") prompt = read_standard_input();
    if (talks && temperature_option->count() == 0) options.sampling.temperature = 0.7F;
    if (talks && tokens_option->count() == 0) options.max_tokens = 512;
    if (system_option->count() > 0) talk.system = system_message;
    talk.json = json;
    validate(options.sampling);
    options.draft_sampling = options.sampling;
    if (draft_temperature_option->count() > 0 || options.sampling.greedy())
        options.draft_sampling->temperature = draft_temperature;
    naming_options({{"temperature", "--draft-temperature"}}, [&] { validate(*options.draft_sampling); });
    if (single.early_stop.empty()) single.early_stop = draft_dir + "/early_stop";
    bool const shows_trees = show_tree || !tree_svg.empty() || !tree_dot.empty();
    bool const one_text = !compare_all && !search_trees && !dump_decisions;
    bool const many_texts = file_option->count() > 0;
    bool const many_without_drafts = many_texts && method_name == all_methods()[0].name;
    bool const by_lookup =
        draft_dir == "lookup" ||
        (!by_states && !many_without_drafts && draft_option->count() == 0 &&
         (gguf_file::is_one(target_dir) || (method_name == "naive/lookup" && one_text && !many_texts)));
    if (by_lookup && method_option->count() == 0) method_name = "naive/lookup";
    method const& how = find_method(method_name);
    if (by_lookup && !drafts_without_model(how.name))
        throw std::runtime_error("--method " + method_name +
                                 ": needs a draft model, named by --draft, or a drafter, by --drafter; without either "
                                 "there are naive/lookup and autoregressive");
    if (by_states && (draft_option->count() > 0 || search_trees || dump_decisions || device != "cpu"))
        throw std::runtime_error("--drafter " + drafter +
                                 ": not with --draft, --search, --dump-decisions or --device cuda");
    if ((!tree_svg.empty() || !tree_dot.empty()) && one_text && how.name == all_methods()[0].name)
        throw std::runtime_error("--show-tree: " + how.name + " shows no trees");
    if (candidates_option->count() > 0 && !by_block)
        throw std::runtime_error("--candidates: of the rows of a block drafter; name one with --drafter");
    if (many_texts && is_from_rows(tree))
        throw std::runtime_error("--tree " + tree + ": for one text, not with --prompt-file");
    if (by_block)
        single.candidates =
            candidates_of_option(candidates_option->count() > 0 ? std::optional(candidates) : std::nullopt, how);
    if (single.lookup_paths == 0 && !by_block)
        throw std::runtime_error("--lookup-paths 0: only beside a block drafter, named by --drafter");
    if (!by_block && is_from_rows(tree))
        throw std::runtime_error("--tree " + tree + ": chosen from the rows of a block drafter" +
                                 (by_head ? ", not of a head of EAGLE-3" : "; name one with --drafter"));
    if (by_lookup && (!one_text || many_texts))
        throw std::runtime_error(mode + ": needs a draft model, named by --draft" +
                                 (draft_option->count() > 0 ? ", not --draft lookup" : "") +
                                 (many_texts ? ", or a drafter, by --drafter; or --method autoregressive" : ""));
    if (talks && (shows_trees || perplexity || repeat > 1 || method_name == "auto"))
        throw std::runtime_error("--chat: not with --show-tree, --perplexity, --repeat or --method auto");
    if (talks && tree == "auto" && !by_block && !by_lookup)
        throw std::runtime_error(
            "--chat: not with --tree auto, unless a block drafter drafts, named by --drafter, or "
            "the text itself");
    if (many_texts && (shows_trees || stream || perplexity || repeat > 1 || device != "cpu" || !costs.empty()))
        throw std::runtime_error(
            "--prompt-file: not with --show-tree, --stream, --perplexity, --repeat, --costs or --device");
    if (many_texts && method_name != all_methods()[0].name && method_name != all_methods()[1].name)
        throw std::runtime_error("--prompt-file: by " + all_methods()[1].name + ", or without drafts by " +
                                 all_methods()[0].name + "; not by " + method_name);
    // Who names a seed expects the same text again: trees are then chosen by kept times and not by a clock.
    bool const repeatable = seed_option->count() > 0 || !costs.empty();
    bool const chooses_by_default =
        tree.empty() && one_text && !shows_trees && (!talks || by_block || by_lookup) && method_option->count() == 0;
    // By the nodes of each step's tree, not among shapes that are given before.
    bool const chooses_nodes = by_block || by_lookup;
    bool const may_choose = chooses_by_default || tree == "auto" || method_name == "auto";
    auto const kept_costs = costs.empty() && may_choose && !many_texts  // whose times are measured
                                ? directory_of_kept_costs()
                                : std::filesystem::path();
    if (chooses_by_default && (!repeatable || !costs.empty() || !kept_costs.empty())) tree = "auto";
    if (by_block && !many_texts && tree.empty() && budget_option->count() == 0 && (compare_all || how.trees_from_rows))
        tree = default_tree_of_block(options.sampling);
    // The trees of many texts are shapes, not chosen from rows.
    if (by_block && many_texts && tree.empty() && how.trees_from_rows) tree = default_tree();
    single.by_reach = tree == "reach";
    auto const [tree_text, shape] = shape_of(how, tree);
    bool const automatic = tree_text == "auto";
    if (how.name == "auto" && !automatic)
        throw std::runtime_error("--method auto: its trees are chosen at each step; name no --tree, or a method");
    if (!costs.empty() && !automatic) throw std::runtime_error("--costs: for --tree auto and --method auto");
    if (automatic && (compare_all || search_trees))
        throw std::runtime_error((tree == "auto" ? "--tree" : "--method") +
                                 std::string(" auto: for a text of one method, not for --compare or --search"));
    std::int32_t const most_nodes = budget_option->count() > 0 ? budget : 16;
    single.budget = most_nodes;
    controller_options choices;
    // Where a draft is nearly certain, trees are those of its likeliest tokens, which are known before they are drawn.
    if (automatic && by_block)
        single.by_reach = options.draft_sampling->temperature >= nearly_greedy_temperature &&
                          default_tree_of_block(options.sampling) == "reach";
    if (automatic && by_block && !how.trees_from_rows)
        throw std::runtime_error("--tree auto: " + how.name + " takes shapes only, such as fork:3x1");
    if (automatic && !chooses_nodes)
        choices = choices_of(how, how.forks_only, how.chains_only ? 1 : how.most_children, most_nodes);
    auto const methods = compare_all                    ? std::span(offered_methods())
                         : dump_decisions || many_texts ? std::span<method const>()
                                                        : std::span(&how, 1);
    refuse_unread_options(app, {.mode = mode,
                                .methods = methods,
                                .tree = tree.empty() && !compare_all ? tree_text : tree,
                                .automatic = automatic,
                                .by_block = by_block});
    if (!tree.empty() && !how.tree.empty() && tree_text != tree && !compare_all)
        throw std::runtime_error("--tree " + tree + ": " + how.name +
                                 (is_from_rows(tree)      ? " takes shapes only, such as fork:3x1"
                                  : how.chains_only       ? " takes chains only, such as 1x1x1"
                                  : how.most_children > 0 ? " takes two children a node at most, such as 2x2x1"
                                                          : " takes chains that part at the root only, such as 3x1x1"));
    model_options.numbers = numbers == "bf16"      ? precision::bf16
                            : numbers == "f32"     ? precision::f32
                            : numbers == "stored"  ? precision::stored
                            : numbers == "stored8" ? precision::stored8
                            : numbers == "q8_0"    ? precision::q8_0
                            : numbers == "int8"    ? precision::int8
                                                   : precision::automatic;
    model_options.cache = cache == "f32"   ? cache_precision::f32
                          : cache == "f16" ? cache_precision::f16
                                           : cache_precision::automatic;
    if (device == "cuda") {
        if (cache == "f16") throw std::runtime_error("--kv-cache f16: not with --device cuda, which keeps its own");
#ifdef MULTIDRAFT_EXAMPLES_CUDA
        model_options.accelerator = on_cuda();
#else
        throw std::runtime_error("--device cuda: this build has no CUDA (nvcc and cuBLASLt were not found)");
#endif
    }
    // Best-first trees and beams read more nodes than their tree has; a look-up adds some.
    std::int32_t nodes = automatic ? std::max(shape.size(), most_nodes + 1) : shape.size();
    if (search_trees) nodes = std::max(nodes, most_nodes_of_search(budget));
    if (by_block) nodes = std::max(nodes, most_nodes_of_block(shape, automatic));
    for (method const& m : methods) {
        if (m.name.starts_with("lossy/joint_")) nodes = std::max(nodes, nodes_of_beams(shape_of(m, tree).second));
        if (m.name == "naive/lookup" || m.name == "naive/deterministic+lookup")
            nodes = std::max(nodes, single.lookup_paths * shape_of(m, tree).second.max_depth() + 1);
    }
    model_options.tree_entries = std::max(model_options.tree_entries, 4 * nodes + 64);
    single.models = model_options;
    auto const load = [&](std::string const& directory) {
        progress_bar bar("loading " + directory);
        transformer_options shown = model_options;
        shown.progress = [&](double done) { bar.show(done); };
        return transformer(directory, shown);
    };
    transformer target = load(target_dir);
    std::optional<transformer> draft_model;
    if (by_states) {
        draft_model.emplace(target.weights());  // the methods of such a drafter call no draft model
        // Its files are read before anything is printed.
        if (by_block) static_cast<void>(block_drafter_of(target));
        if (by_head) static_cast<void>(eagle_head_of(target));
    } else if (!by_lookup && !many_without_drafts) {
        draft_model.emplace(load(draft_dir));
        if (draft_model->vocabulary() != target.vocabulary())
            throw std::runtime_error("--draft " + draft_dir + ": has " + std::to_string(draft_model->vocabulary()) +
                                     " tokens, and the target has " + std::to_string(target.vocabulary()));
    }
    transformer& draft = draft_model ? *draft_model : target;  // which is not called then
    tokenizer const tokens(tokenizer_file.empty() ? find_tokenizer(target_dir) : std::filesystem::path(tokenizer_file),
                           target.vocabulary());
    if (!ignore_eos) {
        auto const& eos = target.weights()->config().eos_tokens;
        options.stop_tokens.assign(eos.begin(), eos.end());
    }

    // The times by which trees are chosen, and the file that keeps them.
    choices.learns_times = !repeatable;
    std::string costs_file = costs;
    auto const find_times = [&](std::span<token_id const> text) {
        auto const measure = [&] {
            if (by_block)
                return measure_block_times(target, how, text, options, most_nodes,
                                           block_drafter_of(target).block_size());
            if (by_lookup) return measure_times_of_target(target, most_nodes);
            if (by_head) return measure_head_times(target, how, text, options, most_nodes);
            return measure_times(target, draft, how, text, options, most_nodes);
        };
        auto const of_draft = [&](bool with_folder) {
            return by_lookup ? "none" : name_of_model(by_states ? drafter_dir : draft_dir, with_folder);
        };
        auto with = conditions_of(name_of_model(target_dir, false), of_draft(false), options);
        with.insert(with.end(), {{"device", device},
                                 {"precision", numbers},
                                 {"kv_cache", cache},
                                 {"threads", std::to_string(model_options.threads)},
                                 {"candidates", std::to_string(single.candidates)}});
        if (costs.empty() && kept_costs.empty() && repeatable)
            std::fprintf(stderr,
                         "generate: --seed: no times can be kept in the user's cache, so that equal seeds may "
                         "give other texts; --costs FILE keeps them\n");
        if (!costs.empty() || kept_costs.empty()) return times_of(costs, how, with, measure);
        auto const what = what_costs_are_of(
            {name_of_model(target_dir), of_draft(true), how.name, std::to_string(most_nodes) + " nodes"}, with);
        auto [known, file] = kept_times(kept_costs, what, how, with, [&] {
            if (talks) std::fprintf(stderr, "generate: measuring how long calls take, once on this machine\n");
            return measure();
        });
        costs_file = std::move(file);
        return std::move(known);
    };
    std::optional<budget_controller> chosen_nodes;
    auto const choose_nodes = [&](step_times const& by) {
        chosen_nodes.emplace(by, budget_options{.nodes = most_nodes, .learns_times = choices.learns_times});
        single.choices = &*chosen_nodes;
        single.lookup_rates = match_rates();
    };

    if (talks) {
        if (automatic)
            talk.choose = [&](std::span<token_id const> conversation) {
                choose_nodes(find_times(conversation));
                return costs_file;
            };
        return chat(target_dir, target, draft, tokens, how, shape, options, talk);
    }

    std::vector<std::string> texts;
    if (many_texts) {
        texts = read_prompts(prompt_file);
    } else if (prompt_option->count() == 0) {
        texts = shipped_prompts(compare_all ? prompts_of_each_kind : 1);
        if (!compare_all) texts.resize(1);
    } else {
        texts.push_back(prompt);
        // A text that is much too long is refused before it is tokenised.
        if (tokens.is_longer_than(prompt, target.context_limit()))
            throw std::runtime_error("--prompt: its " + std::to_string(prompt.size()) +
                                     " bytes are more tokens than the model's context has, " +
                                     std::to_string(target.context_limit()));
    }
    std::vector<prompt_tokens> prompts;
    for (std::string const& text : texts) prompts.push_back(tokens.encode(text));
    if (!many_texts)  // before anything is printed
        naming_options({{"prompt.size", prompt_option->count() > 0 ? "--prompt" : "the prompt"}}, [&] {
            for (prompt_tokens const& one : prompts)
                validate(options, one, target.vocabulary(), target.context_limit());
        });

    if (many_texts) {
        many.parallel = std::min(many.parallel, static_cast<std::int32_t>(std::max<std::size_t>(texts.size(), 1)));
        if (automatic && seed_option->count() > 0)
            std::fprintf(stderr,
                         "generate: --seed: by measured times, with --tree auto, equal seeds may give other texts of "
                         "many prompts; a --tree that is named keeps them\n");
        many.json = json;
        many.shape = shape;
        if (budget_option->count() > 0) many.budget = budget;
        if (by_block) many.drafter = block_drafter_of(target).weights();
        if (by_head) many.head = eagle_head_of(target).weights();
        many.candidates = single.candidates;
        if (draft_model && !by_states) many.draft = draft.weights();
        if (auto const* const one = first_that_fits(prompts, target.context_limit()); automatic && one != nullptr)
            many.times = times_of_many(target, draft, how, *one, options, many);
        return generate_many(target.weights(), tokens, texts, prompts, options, many);
    }
    if (dump_decisions) {
        // The prompts of --compare stay unseen.
        if (prompt_option->count() == 0) {
            prompts.clear();
            for (std::string const& text : shipped_prompts(1000, 40)) prompts.push_back(tokens.encode(text));
        }
        for (std::uint64_t r = 0; r < repeat; ++r, ++options.seed)
            for (prompt_tokens const& one : prompts) write_decisions(target, draft, one, options, std::cout);
        return 0;
    }
    if (compare_all) {
        auto const rows = compare(
            target, draft, prompts, options, repeat, [&](method const& m) { return shape_of(m, tree); }, perplexity,
            device == "cuda");
        if (json) {
            for (comparison const& row : rows) std::cout << to_json(row).dump() << '\n';
        } else {
            print_table(rows, options.sampling.greedy());
        }
        return 0;
    }

    if (search_trees) {
        if (how.tree.empty() || how.name == "lossy/joint_decoding")
            throw std::runtime_error("--search: " + how.name + " drafts nothing");
        if (prompt_option->count() == 0) {
            prompts.clear();
            for (std::string const& text : shipped_prompts(prompts_of_each_kind))
                prompts.push_back(tokens.encode(text));
        }
        std::cerr << "generate: measuring rates and times, then running trees of at most " << budget
                  << " nodes; with many nodes it takes minutes\n";
        auto const found = search(target, draft, how, prompts, options, budget);
        if (json)
            std::cout << to_json(found, how).dump() << '\n';
        else
            print_search(found, how);
        return 0;
    }

    token_text const name_of_token = [&](token_id t) {
        stream_decoder one(tokens, false);
        std::string const text = one.push(t);
        std::string const whole = text + one.finish();
        return whole.empty() ? '#' + std::to_string(t) : whole;
    };
    drawn_tree kept;
    std::int32_t steps = 0;
    if (shows_trees)
        options.observer = [&](step_view const& step) {
            ++steps;
            if (show_tree) std::cerr << tree_as_text(drawn_tree(step), name_of_token) << '\n';
            if (steps <= tree_step) kept = drawn_tree(step);
        };
    auto const write_trees = [&] {
        auto const write = [&](std::string const& file, std::string const& picture) {
            std::ofstream out(file);
            out << picture;
            if (!out.flush()) throw std::runtime_error(file + ": cannot be written");
        };
        if ((!tree_svg.empty() || !tree_dot.empty()) && kept.size() == 0)
            throw std::runtime_error("--show-tree: " + how.name + " shows no trees");
        if (!tree_svg.empty()) write(tree_svg, tree_as_svg(kept, name_of_token));
        if (!tree_dot.empty()) write(tree_dot, tree_as_dot(kept, name_of_token));
    };

    energy_meter energy(device == "cuda");
    std::vector<step_times> times;  // one, where trees are chosen
    if (automatic) times.push_back(find_times(prompts.front()));
    std::unique_ptr<automatic_tree> chosen;
    std::uint64_t const first_seed = options.seed;
    for (std::uint64_t r = 0; r < repeat; ++r) {
        options.seed = first_seed + r;
        stream_decoder decoder(tokens, false);
        token_callback print;
        std::optional<text_progress> progress;
        if (stream && !json) {
            std::cout << texts.front() << std::flush;
            print = [&](std::span<token_id const> emitted) {
                for (token_id const t : emitted) std::cout << decoder.push(t);
                return output_arrives();
            };
        } else {
            progress.emplace(options.max_tokens, shape.size());
            print = [&](std::span<token_id const> emitted) {
                progress->add(emitted.size());
                return true;
            };
        }
        energy.start();
        // Rates and times carry over from text to text, except where equal seeds shall give equal texts.
        if (automatic && !chooses_nodes && (!chosen || repeatable))
            chosen = std::make_unique<automatic_tree>(times.front(), choices);
        if (automatic && chooses_nodes && (!chosen_nodes || repeatable)) choose_nodes(times.front());
        generation const g = chosen ? how.run_choices(target, draft, *chosen, prompts.front(), options, print)
                                    : how.run(target, draft, shape, prompts.front(), options, print);
        auto const joules = energy.joules();
        progress.reset();
        if (r == 0) write_trees();
        if (json) {
            auto report = to_json(how, g, continuation(tokens, g.tokens), options.seed);
            // Trees that are chosen node by node have no depth that a fraction could be of.
            if (automatic && chooses_nodes)
                report["accepted_fraction"] = nullptr;
            else
                report["accepted_fraction"] = rate_of(
                    g.metrics, g.metrics.accepted_fraction(chosen ? chosen->depth() : levels_of(shape, target)));
            if (by_states) report["drafter"] = drafter_dir;
            if (chosen) report["trees"] = to_json(*chosen, how);
            if (!costs_file.empty()) report["costs"] = costs_file;
            if (perplexity) {
                double const nll = negative_log_likelihood(target, prompts.front(), g.tokens);
                auto const count = static_cast<double>(g.tokens.size());
                report["perplexity"] = count > 0 ? std::exp(nll / count) : 1.0;
            }
            report["energy"] = energy.source();
            if (joules && !g.tokens.empty())
                report["joules_per_token"] = *joules / static_cast<double>(g.tokens.size());
            std::cout << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
        } else {
            std::cout << (stream ? decoder.finish() : texts.front() + continuation(tokens, g.tokens)) << '\n'
                      << std::flush;
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
        int const result = naming_sampling_options("--temperature", "--tokens", [&] { return run(argc, argv); });
        check_output();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "generate: " << e.what() << '\n';
        return 1;
    }
}
