// Helpers for the entries of the list of methods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "generate/methods.hpp"
#include "generate/proved_lossless.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/linear.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {

/// Shapes for the kind of CPU that this is.
inline std::string default_tree() { return multiplies_by_tiles() ? "3x1x1x1" : "1x1"; }

/// The shape that a method of the library's lists has here unless told otherwise.
inline std::string default_tree(allowed_trees trees) {
    if (trees == allowed_trees::chains) return multiplies_by_tiles() ? "1x1x1x1" : "1x1";
    if (trees == allowed_trees::forks) return multiplies_by_tiles() ? "fork:3x4" : "1x1";
    return default_tree();
}

/// A method of the library's lists over trees that are chosen at each step.
template <class Listed>
generation run_listed(transformer& target, transformer& draft, tree_choices& choices, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
    return make_controlled<typename Listed::sampler, typename Listed::verifier>(target, draft, choices)(prompt, options,
                                                                                                        on_tokens);
}

/// A method of the library's lists: a tree of a fixed shape, drawn by its sampler from the draft.
template <class Listed>
method tree_method() {
    method m{std::string(Listed::name),
             std::string(Listed::sampler::law::traits.name),
             std::string(Listed::summary),
             default_tree(Listed::trees),
             proved_lossless<typename Listed::verifier>(),
             Listed::trees == allowed_trees::chains,
             {},
             Listed::trees == allowed_trees::forks,
             Listed::trees == allowed_trees::pairs ? 2 : 0};
    if constexpr (Listed::sampler::law::traits.addressed_by_text) {
        // Its noise is fixed by the position in the text: no choice may depend on it.
        m.run = [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
            return make_speculative<typename Listed::sampler, typename Listed::verifier>(target, draft, shape)(
                prompt, options, on_tokens);
        };
    } else {
        m.run = [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
            fixed_tree one(shape);
            return run_listed<Listed>(target, draft, one, prompt, options, on_tokens);
        };
        m.run_choices = run_listed<Listed>;
        m.verifiers = {m.name};
    }
    return m;
}

/// All of one of these lists.
template <class List>
void add_methods_of(std::vector<method>& all) {
    List::for_each([&](auto listed) { all.push_back(tree_method<decltype(listed)>()); });
}

/// The trees of the drafter `make(draft, shape)`.
template <class Verifier, class Make>
method drafter_method(std::string name, std::string summary, std::string tree, Make make, bool chains_only = false) {
    return {std::move(name),
            std::string(Verifier::law::traits.name),
            std::move(summary),
            std::move(tree),
            proved_lossless<Verifier>(),
            chains_only,
            [make](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
                return make_speculative<Verifier>(target, make(draft, shape))(prompt, options, on_tokens);
            }};
}

/// The largest number of children of a node.
inline std::int32_t most_children(topology const& shape) {
    std::int32_t most = 0;
    for (node_id v = 0; v < shape.size(); ++v) most = std::max(most, shape.child_count(v));
    return most;
}

}  // namespace multidraft::examples
