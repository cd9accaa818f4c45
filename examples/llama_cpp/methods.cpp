#include "llama_cpp/methods.hpp"

#include <stdexcept>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {

std::vector<llama_method> const& llama_methods() {
    static std::vector<llama_method> const all = [] {
        std::vector<llama_method> list;
        list.push_back({"autoregressive", "none", "one target call a token", allowed_trees::any, false, false,
                        [](llama_decoder& target, llama_decoder*, topology const&, std::span<token_id const> prompt,
                           generation_options const& options, token_callback const& on_tokens) {
                            return autoregressive(target, prompt, options, on_tokens);
                        }});
        add_llama_methods_by_rank(list);
        add_llama_methods_by_node(list);
        add_llama_methods_by_tree(list);
        add_llama_methods_of_drafters(list);
        return list;
    }();
    return all;
}

llama_method const& find_llama_method(std::string_view name) {
    if (name == "auto") return automatic_llama_method();
    std::string names = "\n  auto";
    for (llama_method const& m : llama_methods()) {
        if (m.name == name) return m;
        names += "\n  " + m.name;
    }
    throw std::runtime_error("--method " + std::string(name) + ": there is no such method; there are" + names);
}

topology fitted(llama_method const& how, topology const& shape) {
    std::int32_t const depth = shape.max_depth();
    if (depth == 0) return shape;
    switch (how.trees) {
        case allowed_trees::any:
            return shape;
        case allowed_trees::chains:
            return chain(depth);
        case allowed_trees::forks:
            return fork((shape.size() - 1) / depth, depth);
        case allowed_trees::pairs:
            break;
    }
    std::vector<node_id> kept{0};  // up to two children of each node
    std::vector<node_id> parents{none};
    for (std::size_t i = 0; i < kept.size(); ++i) {
        node_range const children = shape.children(kept[i]);
        for (index_t k = 0; k < std::min<index_t>(children.count, 2); ++k) {
            kept.push_back(children.first + k);
            parents.push_back(static_cast<node_id>(i));
        }
    }
    return topology::from_parents(parents);
}

}  // namespace multidraft::examples
