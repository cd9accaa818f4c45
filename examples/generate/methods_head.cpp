// Some methods of the list over trees of a head of EAGLE-3, which is called level by level.
#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "generate/methods.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/methods/list.hpp"
#include "transformer/eagle_head.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {
namespace {

/// One for each row of README's table of methods that draft with a model.
using of_head =
    method_list<multidraft::methods::nested_ranked_block_stratified, multidraft::methods::naive_deterministic,
                multidraft::methods::speculative_sampling_iid, multidraft::methods::block_iid,
                multidraft::methods::recursive_rejection_sequential, multidraft::methods::traversal_sequential>;

template <class Listed>
generation run_chosen(transformer& target, transformer&, tree_choices& choices, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
    return make_controlled<typename Listed::sampler, typename Listed::verifier>(target, eagle_head_of(target), choices)(
        prompt, options, on_tokens);
}

template <class Listed>
generation run_head(transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                    generation_options const& options, token_callback const& on_tokens) {
    fixed_tree one(shape);
    return run_chosen<Listed>(target, draft, one, prompt, options, on_tokens);
}

}  // namespace

void add_head_runs(std::vector<method>& all) {
    of_head::for_each([&](auto listed) {
        using type = decltype(listed);
        auto const m = std::ranges::find(all, type::name, [](method const& one) { return std::string_view(one.name); });
        m->run_head = run_head<type>;
        m->run_head_choices = run_chosen<type>;
    });
}

}  // namespace multidraft::examples
