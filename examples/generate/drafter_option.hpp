// The option --drafter of `generate`: an independent draft model, or a block drafter or a head of EAGLE-3 of the
// target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "generate/methods.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/config.hpp"

namespace multidraft::examples {

/// The directory of the drafter that the option names: "block" and "eagle" are those beside the target. Empty for
/// "independent". Throws `std::runtime_error` for a directory without a model.
inline std::string drafter_of_option(std::string const& option, std::filesystem::path const& target) {
    if (option == "independent") return {};
    std::filesystem::path directory = option;
    if (option == "block" || option == "eagle")
        directory = std::filesystem::absolute(target / ".").lexically_normal().parent_path().parent_path() /
                    (option == "block" ? "block-drafter" : "eagle-head");
    if (!std::filesystem::exists(directory / "config.json"))
        throw std::runtime_error("--drafter " + option + ": " + directory.string() + ": has no config.json");
    return directory.string();
}

/// The drafter of a chat unless told otherwise, as the option names it: for a file of SmolLM2-135M-Instruct, in any
/// type of numbers, the directory `smollm-drafter` of the shipped models, where it is there.
inline std::string default_drafter_of_chat(std::filesystem::path const& target, std::filesystem::path const& models) {
    bool const is_smollm = target.filename().string().starts_with("SmolLM2-135M-Instruct.");
    auto const directory = models / "smollm-drafter";
    return is_smollm && std::filesystem::exists(directory / "config.json") ? directory.string() : "independent";
}

/// Whether a tree is chosen from the rows of a block drafter.
inline bool is_from_rows(std::string const& tree) { return tree == "best" || tree == "reach"; }

/// The tokens of a row of the block drafter that are read, by the number that the option --candidates names, or none:
/// of a drafter that has all tokens of its target 0, all. Throws `std::runtime_error` for more than there are.
inline std::int32_t candidates_of_option(std::optional<std::int32_t> named, method const& how) {
    auto const config = read_block_drafter_config(std::filesystem::path(settings().block_drafter) / "config.json");
    if (!named) {
        bool const fewer = config.draft_vocabulary < config.layers.vocabulary;
        return fewer && how.short_rows ? std::min(default_candidates, config.draft_vocabulary) : 0;
    }
    if (*named > config.draft_vocabulary)
        throw std::runtime_error("--candidates " + std::to_string(*named) + ": the drafter has " +
                                 std::to_string(config.draft_vocabulary) + " tokens");
    if (*named > 0 && !how.short_rows) throw std::runtime_error("--candidates: " + how.name + " reads whole rows");
    return *named;
}

/// The tree of the block drafter unless told otherwise. With a term of the parent the rows below a drawn token are
/// known only when it is drawn, and "reach" goes by them; where all is certain "best" does.
inline std::string default_tree_of_block(sampling_params const& w) {
    auto const config = read_block_drafter_config(std::filesystem::path(settings().block_drafter) / "config.json");
    return config.markov_rank > 0 && !w.greedy() ? "reach" : "best";
}

/// The largest tree of that shape, or from the rows of the block drafter: its nodes with the root. `automatic`: their
/// number is chosen at each step.
inline std::int32_t most_nodes_of_block(topology const& shape, bool automatic) {
    method_settings const& s = settings();
    if (shape.size() > 1) return shape.size();
    if (!s.by_reach) return s.budget + 1;
    auto const levels = read_block_drafter_config(std::filesystem::path(s.block_drafter) / "config.json").block_size();
    // Children cost 1 / budget or more each, and no more than 1 is accepted at a level.
    if (automatic) return levels * s.budget + 1;
    if (s.least < 0.01) throw std::runtime_error("--least: 0.01 or more where trees are by reach; less by --tree best");
    // No level has more than 1 / least nodes with children.
    auto const widest = most_children_from_rows * static_cast<std::int32_t>(1 / s.least);
    return levels * widest + 1;
}

/// Levels of trees of that shape; of trees from rows as many as the block has.
inline std::int32_t levels_of(topology const& shape, transformer& target) {
    if (settings().block_drafter.empty() || shape.size() > 1) return shape.max_depth();
    return block_drafter_of(target).block_size();
}

/// The parameters of what drafts.
inline std::int64_t parameters_of_drafter(transformer& target, transformer const& draft) {
    if (!settings().block_drafter.empty()) return block_drafter_of(target).weights()->parameters();
    if (!settings().eagle_head.empty()) return eagle_head_of(target).weights()->parameters();
    return draft.weights()->parameters();
}

}  // namespace multidraft::examples
