#include "generate/methods.hpp"

#include <memory>
#include <stdexcept>

#include "multidraft/decode/autoregressive.hpp"

namespace multidraft::examples {

method_settings& settings() {
    static method_settings one;
    return one;
}

transformer& second_draft() {
    static transformer model(settings().second_draft, settings().models);
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
        return list;
    }();
    return all;
}

method const& find_method(std::string_view name) {
    if (name == "auto") return automatic_method();
    std::string names = "\n  auto";
    for (method const& m : all_methods()) {
        if (m.name == name) return m;
        names += "\n  " + m.name;
    }
    throw std::runtime_error("--method " + std::string(name) + ": there is no such method; there are" + names);
}

}  // namespace multidraft::examples
