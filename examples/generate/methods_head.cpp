// Some methods of the list over trees of a head of EAGLE-3, which is called level by level.
#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "generate/methods.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/methods/list.hpp"
#include "transformer/eagle_head.hpp"

namespace multidraft::examples {
namespace {

/// One for each row of README's table of methods that draft with a model.
using of_head =
    method_list<multidraft::methods::nested_ranked_block_stratified, multidraft::methods::naive_deterministic,
                multidraft::methods::speculative_sampling_iid, multidraft::methods::block_iid,
                multidraft::methods::recursive_rejection_sequential, multidraft::methods::traversal_sequential>;

template <class Listed>
generation run_head(transformer& target, transformer&, topology const& shape, std::span<token_id const> prompt,
                    generation_options const& options, token_callback const& on_tokens) {
    using drafter = static_tree_drafter<eagle_head_model, typename Listed::sampler>;
    return make_speculative<typename Listed::verifier>(target, drafter(eagle_head_of(target), shape))(prompt, options,
                                                                                                      on_tokens);
}

}  // namespace

void add_head_runs(std::vector<method>& all) {
    of_head::for_each([&](auto listed) {
        using type = decltype(listed);
        auto const m = std::ranges::find(all, type::name, [](method const& one) { return std::string_view(one.name); });
        m->run_head = run_head<type>;
    });
}

}  // namespace multidraft::examples
