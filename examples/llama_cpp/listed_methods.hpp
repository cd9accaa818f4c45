// Entries of the program's list from the library's lists of methods.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "llama_cpp/methods.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {

/// A method of a list: trees drawn from the draft model, of one shape or of shapes that are chosen at each step.
template <class Listed>
llama_method listed_method() {
    llama_method m{std::string(Listed::name),
                   std::string(Listed::law::traits.name),
                   std::string(Listed::summary),
                   Listed::trees,
                   true,
                   true,
                   {}};
    if constexpr (Listed::sampler::law::traits.addressed_by_text) {
        // Its noise is fixed by the position in the text: no choice may depend on it.
        m.run = [](llama_decoder& target, llama_decoder* draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
            return make_speculative<typename Listed::sampler, typename Listed::verifier>(target, *draft, shape)(
                prompt, options, on_tokens);
        };
    } else {
        m.run_choices = [](llama_decoder& target, llama_decoder& draft, tree_choices& choices,
                           std::span<token_id const> prompt, generation_options const& options,
                           token_callback const& on_tokens) {
            return make_controlled<typename Listed::sampler, typename Listed::verifier>(target, draft, choices)(
                prompt, options, on_tokens);
        };
        m.run = [run = m.run_choices](llama_decoder& target, llama_decoder* draft, topology const& shape,
                                      std::span<token_id const> prompt, generation_options const& options,
                                      token_callback const& on_tokens) {
            fixed_tree one(shape);
            return run(target, *draft, one, prompt, options, on_tokens);
        };
        m.verifiers = {m.name};
    }
    return m;
}

/// Appends all methods of a list.
template <class List>
void add_listed(std::vector<llama_method>& all) {
    List::for_each([&](auto listed) { all.push_back(listed_method<decltype(listed)>()); });
}

}  // namespace multidraft::examples
