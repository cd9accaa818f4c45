// The methods of `llama-multidraft`: the library's lists, and drafters whose trees depend on draws.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llama_cpp/decoder.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/tree/topology.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {

/// One way to generate text.
struct llama_method {
    using function = std::function<generation(llama_decoder& target, llama_decoder* draft, topology const& shape,
                                              std::span<token_id const> prompt, generation_options const& options,
                                              token_callback const& on_tokens)>;
    std::string name;
    std::string law;
    std::string summary;
    allowed_trees trees = allowed_trees::any;
    bool needs_draft = true;  ///< a draft model; look-up drafts without one
    bool drafts = true;       ///< false: one token per call
    function run;
    /// The same over trees that are chosen at each step; empty where they cannot be.
    std::function<generation(llama_decoder& target, llama_decoder& draft, tree_choices& choices,
                             std::span<token_id const> prompt, generation_options const& options,
                             token_callback const& on_tokens)>
        run_choices{};
    std::vector<std::string> verifiers{};  ///< which the choices choose among
};

/// All methods, every one lossless. The first drafts nothing; the second is the default.
std::vector<llama_method> const& llama_methods();

/// The method that chooses its verifier too, of those for stratified trees: `--method auto`, in no list.
llama_method const& automatic_llama_method();

/// The method of that name, `auto` among them. Throws `std::runtime_error` with the names there are.
llama_method const& find_llama_method(std::string_view name);

/// The shape adapted to the method: a chain of its depth for methods that accept chains, and so on.
topology fitted(llama_method const& how, topology const& shape);

/// The parts of the list, one source file each, so that none takes long to compile.
void add_llama_methods_by_node(std::vector<llama_method>& all);
void add_llama_methods_by_rank(std::vector<llama_method>& all);
void add_llama_methods_by_tree(std::vector<llama_method>& all);
void add_llama_methods_of_drafters(std::vector<llama_method>& all);

}  // namespace multidraft::examples
