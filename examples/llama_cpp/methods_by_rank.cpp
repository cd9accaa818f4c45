#include "llama_cpp/listed_methods.hpp"

namespace multidraft::examples {

llama_method const& automatic_llama_method() {
    static llama_method const one = [] {
        using block = methods::ranked_block_stratified;
        using nested = methods::nested_ranked_block_stratified;
        llama_method m{"auto",
                       std::string(block::law::traits.name),
                       "tree and verifier chosen at each step, no tree among them",
                       allowed_trees::any,
                       true,
                       true,
                       {}};
        m.run_choices = [](llama_decoder& target, llama_decoder& draft, tree_choices& choices,
                           std::span<token_id const> prompt, generation_options const& options,
                           token_callback const& on_tokens) {
            return make_controlled<block::sampler, block::verifier, nested::verifier>(target, draft, choices)(
                prompt, options, on_tokens);
        };
        m.verifiers = {std::string(block::name), std::string(nested::name)};
        return m;
    }();
    return one;
}

void add_llama_methods_by_rank(std::vector<llama_method>& all) {
    add_listed<methods::best>(all);
    add_listed<methods::by_rank>(all);
}

}  // namespace multidraft::examples
