// Options of `generate` that a run would not read: they are refused, since who gives one expects something of it.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "generate/chat.hpp"
#include "generate/methods.hpp"

namespace multidraft::examples {

/// What decides which options are read.
struct kind_of_run {
    std::string mode;                 ///< the option that names it: "--compare", ..; empty: one text
    std::span<method const> methods;  ///< that run; none where no method is asked
    std::string tree;                 ///< "auto", "best", "reach", a shape, or empty: the methods' own
    bool automatic = false;           ///< trees are chosen at each step
    bool by_block = false;            ///< by a block drafter
};

/// Whether the option is given, with another value than its default.
inline bool is_given(CLI::App const& app, std::string const& option) {
    CLI::Option const& one = *app.get_option(option);
    if (one.count() == 0) return false;
    return one.results().size() != 1 || one.get_default_str().empty() || one.results().front() != one.get_default_str();
}

/// The option that names a mode, of those that exclude each other; empty: one text. Throws `std::runtime_error` for
/// two.
inline std::string mode_of(CLI::App const& app) {
    std::string mode;
    for (std::string const option : {"--chat", "--prompt-file", "--compare", "--search", "--dump-decisions"}) {
        if (app.count(option) == 0) continue;
        if (!mode.empty()) throw std::runtime_error(option + ": not with " + mode);
        mode = option;
    }
    return mode;
}

/// Throws `std::runtime_error` that names an option which the run would not read, and what it is not read with.
inline void refuse_unread_options(CLI::App const& app, kind_of_run const& run) {
    auto const given = [&](std::string const& option) { return is_given(app, option); };
    auto const refuse_with = [&](std::string const& option, std::string const& other) {
        if (given(option)) throw std::runtime_error(option + ": not with " + other);
    };
    // By the mode alone.
    struct pair_of_mode {
        std::string_view mode;
        std::vector<std::string> unread;
    };
    for (auto const& [mode, unread] : std::initializer_list<pair_of_mode>{
             {"--chat", {"--stream", "--ignore-eos"}},
             {"--compare", {"--method", "--stream", "--show-tree", "--show-tree-svg", "--show-tree-dot"}},
             {"--search",
              {"--tree", "--repeat", "--stream", "--perplexity", "--show-tree", "--show-tree-svg", "--show-tree-dot"}},
             {"--dump-decisions",
              {"--method", "--tree", "--prompts", "--stream", "--perplexity", "--show-tree", "--show-tree-svg",
               "--show-tree-dot"}}})
        if (run.mode == mode)
            for (std::string const& option : unread) refuse_with(option, run.mode);
    // By what else is given.
    bool const many_prompts = run.mode == "--compare" || run.mode == "--search";
    if (given("--prompts") && !many_prompts) throw std::runtime_error("--prompts: for --compare and --search");
    if (app.count("--prompt") > 0) refuse_with("--prompts", "--prompt");
    if (app.count("--json") > 0) refuse_with("--stream", "--json");
    if (given("--perplexity") && run.mode.empty() && app.count("--json") == 0)
        throw std::runtime_error("--perplexity: needs --json or --compare");
    if (given("--show-tree-step") && app.count("--show-tree-svg") + app.count("--show-tree-dot") == 0)
        throw std::runtime_error("--show-tree-step: needs --show-tree-svg or --show-tree-dot");
    // By the methods and their trees.
    auto const some = [&](auto const& reads) { return std::ranges::any_of(run.methods, reads); };
    auto const named = [&](std::initializer_list<std::string_view> names) {
        return some([&](method const& m) { return std::ranges::find(names, m.name) != names.end(); });
    };
    bool const from_rows = run.by_block && some([](method const& m) { return m.trees_from_rows; });
    bool const best = from_rows && !run.automatic && (run.tree.empty() || run.tree == "best");
    bool const reach = from_rows && !run.automatic && run.tree == "reach";
    bool const stops = named({"recursive_rejection/early_stop", "recursive_rejection/early_stop_hidden"}) ||
                       (named({"lossy/target_initialised"}) && given("--stop-by"));
    bool const looks = named({"naive/lookup", "naive/deterministic+lookup"}) ||
                       (run.by_block && run.automatic && some([](method const& m) { return m.law == "stratified"; }));
    struct option_of_methods {
        char const* name;
        bool is_read;
        bool of_trees = false;
    };
    for (auto const& [option, is_read, of_trees] : std::initializer_list<option_of_methods>{
             {"--budget", run.mode == "--search" || run.automatic || best, true},
             {"--least", named({"recursive_rejection/best_first", "naive/best_first"}) || best || reach, run.by_block},
             {"--draft-temperature", run.methods.empty() || some([](method const& m) {
                                         return !drafts_without_model(m.name) && m.name != "lossy/joint_decoding";
                                     })},
             {"--second-draft", named({"naive/independent", "multi_round/independent"})},
             {"--stop-by", named({"lossy/target_initialised"})},
             {"--stop-below", stops},
             {"--decision-models", stops},
             {"--lookup-paths", looks},
             {"--lookup-longest", looks},
             {"--fallback", named({"lossy/bild"})},
             {"--rollback", named({"lossy/bild"})},
             {"--joint-threshold", named({"lossy/joint_likelihood"})},
             {"--beams", named({"lossy/joint_likelihood", "lossy/joint_decoding"})},
             {"--typical-epsilon", named({"lossy/typical_acceptance"})},
             {"--typical-delta", named({"lossy/typical_acceptance"})},
         }) {
        if (is_read || !given(option)) continue;
        std::string const hint =
            std::string_view(option) == "--budget" ? "; for --search, --tree auto, --tree best" : "";
        if (of_trees && app.count("--tree") > 0) refuse_with(option, "--tree " + run.tree + hint);
        if (run.methods.size() != 1)
            refuse_with(option, run.mode + (app.count("--drafter") > 0 ? " and --drafter" : "") + hint);
        throw std::runtime_error(std::string(option) + ": not read by " + run.methods.front().name + " (--method)" +
                                 hint);
    }
}

}  // namespace multidraft::examples
