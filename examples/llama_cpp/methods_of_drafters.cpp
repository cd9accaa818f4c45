// Methods whose trees have no fixed shape: sequences drawn together, best-first growth, look-up in the text.
#include <algorithm>

#include "llama_cpp/methods.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/decode/stochastic_beam_drafter.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::examples {
namespace {

/// The budget of a shape for a dynamic tree: its nodes, its depth, the width of its widest level.
best_first_options budget_of(topology const& shape) {
    best_first_options options;
    options.nodes = std::max(1, shape.size() - 1);
    options.depth = std::max(1, shape.max_depth());
    options.width = std::max(1, shape.width());
    std::int32_t most = 1;
    for (node_id v = 0; v < shape.size(); ++v) most = std::max(most, shape.child_count(v));
    options.children = 2 * most;
    options.least = 0.1;
    return options;
}

/// As many continuations as the root has children, of the depth of the shape.
lookup_options looking_back(topology const& shape) {
    return {{4, 1}, std::max(1, shape.child_count(0)), std::max(1, shape.max_depth())};
}

template <class Verifier, class Make>
llama_method of_drafter(std::string name, std::string summary, bool needs_draft, Make make) {
    return {std::move(name),
            std::string(Verifier::law::traits.name),
            std::move(summary),
            allowed_trees::any,
            needs_draft,
            true,
            [make](llama_decoder& target, llama_decoder* draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
                return make_speculative<Verifier>(target, make(draft, shape))(prompt, options, on_tokens);
            }};
}

}  // namespace

void add_llama_methods_of_drafters(std::vector<llama_method>& all) {
    using rejection = verify::recursive_rejection<law::sequential>;
    using naive = verify::naive<law::deterministic>;
    all.push_back(
        of_drafter<rejection>("recursive_rejection/best_first",
                              "candidates without replacement, each where it is worth most, in the tree's budget", true,
                              [](llama_decoder* draft, topology const& shape) {
                                  return best_first_drawn_drafter<llama_decoder>(*draft, budget_of(shape));
                              }));
    all.push_back(of_drafter<rejection>(
        "recursive_rejection/stochastic_beam",
        "sequences without replacement, as many a level as the tree has nodes there (RSD-S, Alg. 7-9)", true,
        [](llama_decoder* draft, topology const& shape) {
            return stochastic_beam_drafter<llama_decoder>(*draft, level_widths(shape));
        }));
    all.push_back(of_drafter<naive>("naive/best_first",
                                    "the likeliest nodes of an expanded tree, in the tree's budget (EAGLE-2)", true,
                                    [](llama_decoder* draft, topology const& shape) {
                                        return best_first_top_drafter<llama_decoder>(*draft, budget_of(shape));
                                    }));
    all.push_back(
        of_drafter<naive>("naive/lookup", "what followed the last tokens earlier in the text; no draft model", false,
                          [](llama_decoder*, topology const& shape) { return lookup_drafter(looking_back(shape)); }));
    all.push_back(of_drafter<naive>(
        "naive/deterministic+lookup", "the draft's most likely candidates, and what the text has had as more branches",
        true, [](llama_decoder* draft, topology const& shape) {
            return with_lookup(static_tree_drafter<llama_decoder, draft::top_n>(*draft, shape), looking_back(shape));
        }));
}

}  // namespace multidraft::examples
