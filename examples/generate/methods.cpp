#include "generate/methods.hpp"

#include <memory>
#include <stdexcept>

#include "multidraft/decode/autoregressive.hpp"

namespace multidraft::examples {

method_settings& settings() {
    static method_settings one;
    return one;
}

transformer& second_draft(transformer const& draft) {
    static transformer model(settings().second_draft, settings().models);
    if (model.vocabulary() != draft.vocabulary())
        throw std::runtime_error("--second-draft " + settings().second_draft + ": has " +
                                 std::to_string(model.vocabulary()) + " tokens, and the draft has " +
                                 std::to_string(draft.vocabulary()));
    return model;
}

block_drafter_model& block_drafter_of(transformer& target) {
    static block_drafter_model model(
        std::make_shared<block_drafter_weights const>(settings().block_drafter, target.weights(), settings().models));
    target.expose_features(model.weights()->target_layers());
    return model;
}

short_block_drafter& short_block_drafter_of(transformer& target) {
    static short_block_drafter model(block_drafter_of(target), settings().candidates);
    return model;
}

eagle_head_model& eagle_head_of(transformer& target) {
    static eagle_head_model model(
        std::make_shared<eagle_head_weights const>(settings().eagle_head, target.weights(), settings().models));
    target.expose_features(model.weights()->target_layers());
    return model;
}

std::vector<method> const& all_methods() {
    static std::vector<method> const all = [] {
        std::vector<method> list;
        list.push_back({"autoregressive", "none", "one target call a token", "", true, false,
                        [](transformer& target, transformer&, topology const&, std::span<token_id const> prompt,
                           generation_options const& options, token_callback const& on_tokens) {
                            return autoregressive(target, prompt, options, on_tokens);
                        }});
        add_best_method(list);
        add_node_methods(list);
        add_ranked_methods(list);
        add_tree_methods(list);
        add_drafter_methods(list);
        add_early_stop_methods(list);
        add_lossy_methods(list);
        list.front().run_block = list.front().run;
        add_block_runs_by_node(list);
        add_block_runs_by_rank(list);
        add_block_runs_by_tree(list);
        add_block_runs_of_short_rows(list);
        list.front().run_head = list.front().run;
        add_head_runs(list);
        return list;
    }();
    return all;
}

std::vector<method> const& offered_methods() {
    bool const by_block = !settings().block_drafter.empty();
    if (!by_block && settings().eagle_head.empty()) return all_methods();
    static std::vector<method> const of_drafter = [&] {
        std::vector<method> list;
        for (method const& m : all_methods()) {
            auto const& run = by_block ? m.run_block : m.run_head;
            if (!run) continue;
            list.push_back(m);
            list.back().run = run;
            list.back().run_choices = by_block ? nullptr : m.run_head_choices;
            list.back().verifiers = {m.name};
            list.back().trees_from_rows = by_block && m.trees_from_rows;
            if (list.back().trees_from_rows) list.back().tree = "best";
        }
        return list;
    }();
    return of_drafter;
}

method const& find_method(std::string_view name) {
    bool const by_block = !settings().block_drafter.empty();
    bool const independent = !by_block && settings().eagle_head.empty();
    if (name == "auto" && independent) return automatic_method();
    std::string names = independent ? "\n  auto" : "";
    for (method const& m : offered_methods()) {
        if (m.name == name) return m;
        names += "\n  " + m.name;
    }
    std::string const kind = by_block ? "a block drafter" : "a head of EAGLE-3";
    throw std::runtime_error("--method " + std::string(name) +
                             (independent ? ": there is no such method; there are" + names
                                          : ": not with " + kind + ", with which there are" + names));
}

}  // namespace multidraft::examples
