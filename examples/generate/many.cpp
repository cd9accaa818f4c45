#include "generate/many.hpp"

#include <algorithm>

#include "automatic_trees.hpp"
#include "generate/report.hpp"
#include "many_prompts.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "transformer/batched_transformer.hpp"

namespace multidraft::examples {

step_times times_of_many(transformer& target, transformer& draft, method const& how,
                         std::vector<token_id> const& prompt, generation_options const& options,
                         many_options const& many) {
    std::int32_t const rows = std::min(256, many.parallel * (many.budget + 1));
    return measure_times(target, draft, how, prompt, options, rows - 1);
}

int generate_many(std::shared_ptr<transformer_weights const> const& target,
                  std::shared_ptr<transformer_weights const> const& draft, tokenizer const& tokens,
                  std::span<std::string const> texts, std::span<std::vector<token_id> const> prompts,
                  generation_options const& options, many_options const& many) {
    batched_transformer many_targets(target, many.parallel);
    batched_transformer many_drafts(draft, many.parallel);
    many_prompts const all{
        .program = "generate",
        .texts = texts,
        .prompts = prompts,
        .continuation = [&](std::vector<token_id> const& more) { return continuation(tokens, more); },
        .parallel = many.parallel,
        .json = many.json};
    if (!many.times) return continue_many(many_targets, many_drafts, fixed_shapes(many.shape), options, all);
    batch_controller_options choices;
    choices.nodes = many.budget * many.parallel;
    choices.learns_times = true;  // those given are of calls for one text
    return continue_many(many_targets, many_drafts, batch_controller(*many.times, choices), options, all);
}

}  // namespace multidraft::examples
