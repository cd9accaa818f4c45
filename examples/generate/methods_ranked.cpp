// Ranked verification: candidates are selected by rank, at a node and along whole paths.
#include "generate/tree_methods.hpp"

namespace multidraft::examples {

void add_best_method(std::vector<method>& all) { add_methods_of<multidraft::methods::best>(all); }

void add_ranked_methods(std::vector<method>& all) { add_methods_of<multidraft::methods::by_rank>(all); }

method const& automatic_method() {
    static method const one = [] {
        using block = multidraft::methods::ranked_block_stratified;
        using nested = multidraft::methods::nested_ranked_block_stratified;
        method m;
        m.name = "auto";
        m.law = block::law::traits.name;
        m.summary = "tree and verifier chosen at each step, no tree among them";
        m.tree = "auto";
        m.lossless = proved_lossless<block::verifier>() && proved_lossless<nested::verifier>();
        m.run_choices = [](transformer& target, transformer& draft, tree_choices& choices,
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

}  // namespace multidraft::examples
