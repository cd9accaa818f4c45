// Entries of the program's list from the library's lists of methods.
#pragma once

#include <string>
#include <vector>

#include "llama_cpp/methods.hpp"
#include "multidraft/decode/speculative.hpp"

namespace multidraft::examples {

/// Appends all methods of a list: trees of a fixed shape, drawn from the draft model.
template <class List>
void add_listed(std::vector<llama_method>& all) {
    List::for_each([&](auto listed) {
        using method = decltype(listed);
        all.push_back(
            {std::string(method::name), std::string(method::law::name), std::string(method::summary), method::trees,
             true, true,
             [](llama_decoder& target, llama_decoder* draft, topology const& shape, std::span<token_id const> prompt,
                generation_options const& options, token_callback const& on_tokens) {
                 return make_speculative<typename method::sampler, typename method::verifier>(target, *draft, shape)(
                     prompt, options, on_tokens);
             }});
    });
}

}  // namespace multidraft::examples
