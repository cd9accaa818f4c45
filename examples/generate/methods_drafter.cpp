// Methods whose trees are not a fixed shape of one sampler: look-up, sequences, beams, best-first, several models.
#include <algorithm>

#include "generate/lookup_text.hpp"
#include "generate/tree_methods.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/independent_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/sequence_drafter.hpp"
#include "multidraft/decode/stochastic_beam_drafter.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::examples {
namespace {

/// The budget of a shape for a dynamic tree: its nodes, its depth, the width of its widest level.
best_first_options budget_of(topology const& shape) {
    best_first_options options;
    options.nodes = std::max(1, shape.size() - 1);
    options.depth = std::max(1, shape.max_depth());
    options.width = std::max(1, shape.width());
    options.children = std::max(1, 2 * most_children(shape));
    options.least = settings().least;
    return options;
}

/// As many sequences as fit the number of nodes at the tree's depth.
sequence_drafter<transformer> sequences_of(transformer& draft, topology const& shape) {
    std::int32_t const depth = shape.max_depth();
    return {draft, depth == 0 ? 1 : std::max(1, (shape.size() - 1) / depth), depth};
}

}  // namespace

void add_drafter_methods(std::vector<method>& all) {
    using rejection = verify::recursive_rejection<law::sequential>;
    std::string const tree = default_tree();
    all.push_back(drafter_method<rejection>(
        "recursive_rejection/stochastic_beam",
        "sequences without replacement, as many a level as the tree has nodes there (RSD-S, Alg. 7-9)", tree,
        [](transformer& draft, topology const& shape) {
            return stochastic_beam_drafter<transformer>(draft, level_widths(shape));
        }));
    all.push_back(
        drafter_method<rejection>("recursive_rejection/best_first",
                                  "candidates without replacement, each where it is worth most, in the tree's budget",
                                  tree, [](transformer& draft, topology const& shape) {
                                      return best_first_drawn_drafter<transformer>(draft, budget_of(shape));
                                  }));
    all.push_back(drafter_method<verify::recursive_rejection<law::iid>>(
        "recursive_rejection/sequences",
        "independent sequences that share nodes while they agree, in the tree's budget and depth (SpecTr)", tree,
        [](transformer& draft, topology const& shape) { return sequences_of(draft, shape); }));
    all.push_back(drafter_method<verify::merged<verify::k_seq<law::iid>>>(
        "k_seq/sequences", "the same sequences, each accepted with p/(rho q) (SpecTr)", tree,
        [](transformer& draft, topology const& shape) { return sequences_of(draft, shape); }));
    all.push_back(drafter_method<verify::naive<law::deterministic>>(
        "naive/best_first", "the likeliest nodes of an expanded tree, in the tree's budget (EAGLE-2)", tree,
        [](transformer& draft, topology const& shape) {
            return best_first_top_drafter<transformer>(draft, budget_of(shape));
        }));
    method& lookup = all.emplace_back(drafter_method<verify::naive<law::deterministic>>(
        "naive/lookup", "what followed the last tokens earlier in the text; no draft model", "1x1x1x1",
        [](transformer&, topology const& shape) { return lookup_drafter(looking_back(shape.max_depth())); }));
    lookup.run = [](transformer& target, transformer&, topology const& shape, std::span<token_id const> prompt,
                    generation_options const& options,
                    token_callback const& on_tokens) { return run_lookup(target, shape, prompt, options, on_tokens); };
    lookup.verifiers = {lookup.name};
    all.push_back(drafter_method<verify::naive<law::deterministic>>(
        "naive/deterministic+lookup", "the draft's most likely candidates, and what the text has had as more branches",
        tree, [](transformer& draft, topology const& shape) {
            return with_lookup(static_tree_drafter<transformer, draft::top_n>(draft, shape),
                               looking_back(shape.max_depth()));
        }));
    all.push_back(drafter_method<verify::naive<law::independent>>(
        "naive/independent", "candidates of two draft models, accepted if the target draws one of them", tree,
        [](transformer& draft, topology const& shape) {
            return independent_drafter<transformer>({&draft, &second_draft(draft)}, shape);
        }));
    all.push_back(drafter_method<verify::multi_round<law::independent>>(
        "multi_round/independent", "candidates of two draft models, tried one by one (SpecInfer)", tree,
        [](transformer& draft, topology const& shape) {
            return independent_drafter<transformer>({&draft, &second_draft(draft)}, shape);
        }));
}

}  // namespace multidraft::examples
