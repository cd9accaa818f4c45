#include "llama_cpp/many.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "automatic_trees.hpp"
#include "llama_cpp/batched_decoder.hpp"
#include "llama_cpp/decoder.hpp"
#include "multidraft/control/batch_controller.hpp"

namespace multidraft::examples {
namespace {

/// The draft model, or none: then there are no trees, and prompts are not read.
class draft_of_many {
public:
    /// `limit`: the positions where drafts are good; the cache may have more, since prompts are read to their end.
    draft_of_many(batched_llama_decoder* model, batched_llama_decoder const& target, std::int32_t limit)
        : model_(model), vocabulary_(target.vocabulary()), limit_(limit), sequences_(target.sequences()) {}

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return limit_; }
    [[nodiscard]] std::int32_t sequences() const noexcept { return sequences_; }
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits) {
        if (model_ != nullptr) model_->forward(in, sequence_of, logits);
    }
    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
        if (model_ != nullptr) model_->keep(sequence, context, entries);
    }

private:
    batched_llama_decoder* model_;
    std::int32_t vocabulary_;
    std::int32_t limit_;
    std::int32_t sequences_;
};

std::int32_t leaves_of(topology const& shape) {
    std::int32_t leaves = 0;
    for (node_id v = 0; v < shape.size(); ++v) leaves += shape.child_count(v) == 0 ? 1 : 0;
    return leaves;
}

/// The positions that the longest of the texts takes, and no more than `limit`.
std::int32_t positions_of(many_prompts const& many, std::int32_t limit, std::int32_t max_tokens) {
    std::size_t longest = 1;
    for (auto const& prompt : many.prompts)
        if (prompt.size() <= static_cast<std::size_t>(limit)) longest = std::max(longest, prompt.size());
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(limit, static_cast<std::int64_t>(longest) + std::max(max_tokens, 0)));
}

/// The times of calls with the rows of several requests, of both models, and of the library's part of a step.
step_times times_of_many(std::shared_ptr<gguf_model const> const& target,
                         std::shared_ptr<gguf_model const> const& draft, llama_method const& how,
                         std::vector<token_id> const& prompt, generation_options const& options,
                         many_llama_options const& together, std::int32_t rows) {
    decoder_options room = together.room;
    room.tree_nodes = rows;
    room.context = static_cast<std::int32_t>(std::max<std::size_t>(prompt.size(), 64)) + rows;
    llama_decoder one_target(target, room);
    room.threads = together.draft_threads;
    llama_decoder one_draft(draft, room);
    return measure_times(one_target, one_draft, how, prompt, options, rows - 1);
}

}  // namespace

int continue_many(std::shared_ptr<gguf_model const> const& target, std::shared_ptr<gguf_model const> const& draft,
                  llama_method const& how, many_prompts const& many, generation_options const& options,
                  many_llama_options const& together) {
    auto const most = static_cast<std::int32_t>(llama_max_parallel_sequences());
    auto const texts =
        static_cast<std::int32_t>(std::min<std::size_t>(static_cast<std::size_t>(many.parallel), many.prompts.size()));
    if (texts > most)
        throw std::runtime_error("--parallel " + std::to_string(many.parallel) + ": llama.cpp has " +
                                 std::to_string(most) + " sequences, and a request takes one or more");
    if (std::int64_t const leaves = std::int64_t{texts} * leaves_of(together.shape); !together.choose && leaves > most)
        throw std::runtime_error("--parallel " + std::to_string(many.parallel) + ": the trees have " +
                                 std::to_string(leaves) + " leaves together, and llama.cpp has " +
                                 std::to_string(most) + " sequences, one for each leaf; take fewer requests, or trees");
    // A tree of n nodes has n leaves at most, and a request without one has its own sequence.
    std::int32_t const drafted =
        together.choose ? std::min(together.budget * texts, most - texts) : texts * (together.shape.size() - 1);

    decoder_options room = together.room;
    std::int32_t const limit = room.context > 0 ? room.context : llama_model_n_ctx_train(target->get());
    room.context = positions_of(many, limit, options.max_tokens);
    room.tree_nodes = texts + drafted;
    room.sequences = most;
    batched_llama_decoder targets(target, texts, room);
    std::optional<batched_llama_decoder> drafts;
    std::int32_t draft_limit = limit;
    if (draft) {
        if (together.room.context == 0) draft_limit = std::min(limit, llama_model_n_ctx_train(draft->get()));
        room.threads = together.draft_threads;
        drafts.emplace(draft, texts, room);
    }
    draft_of_many drafting(drafts ? &*drafts : nullptr, targets, draft_limit);

    auto const* const prompt = first_that_fits(many.prompts, limit);
    if (!together.choose || prompt == nullptr)
        return continue_many(targets, drafting, fixed_shapes(together.choose ? topology() : together.shape), options,
                             many);
    batch_controller_options choices;
    choices.nodes = drafted;
    choices.learns_times = true;  // those given are of calls for one text
    auto times = times_of_many(target, draft, how, *prompt, options, together, std::min(256, texts + drafted));
    return continue_many(targets, drafting, batch_controller(std::move(times), choices), options, many);
}

}  // namespace multidraft::examples
