#include "llama_cpp/shared_context.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "llama_cpp/api.hpp"
#include "multidraft/base/error.hpp"

namespace multidraft::examples {

shared_context::shared_context(std::shared_ptr<gguf_model const> model, decoder_options const& options,
                               std::int32_t texts)
    : model_(std::move(model)),
      options_(options),
      texts_(texts),
      vocabulary_(llama_vocab_n_tokens(model_->vocabulary())) {
    auto const most = static_cast<std::int64_t>(llama_max_parallel_sequences());
    if (options_.context == 0) options_.context = llama_model_n_ctx_train(model_->get());
    if (options_.context < 1) refuse("context", options_.context, "a text has one position or more");
    if (options_.tree_nodes < 1) refuse("tree_nodes", options_.tree_nodes, "a tree has its root");
    if (options_.sequences < 1 || options_.sequences > most)
        refuse("sequences", options_.sequences, "llama.cpp has 1 to " + std::to_string(most));
    if (texts_ < 1 || texts_ > options_.sequences)
        refuse("texts", texts_,
               "each has a sequence at least, and there are " + std::to_string(options_.sequences) + " sequences");
    if (options_.batch < 1) refuse("batch", options_.batch, "a batch has one token or more");
    if (options_.threads < 1) refuse("threads", options_.threads, "one thread or more");
    // Texts without a tree have one sequence each; llama.cpp needs room in a batch for every sequence.
    options_.sequences = std::min(options_.sequences, options_.tree_nodes + texts_ - 1);
    options_.batch = std::max({options_.batch, options_.tree_nodes, options_.sequences});
    if (cells() > std::int64_t{1} << 30)
        refuse("context", options_.context, "with the trees these are " + std::to_string(cells()) + " cells");

    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(cells());
    params.n_batch = static_cast<std::uint32_t>(options_.batch);
    params.n_ubatch = std::min(params.n_batch, std::max<std::uint32_t>(params.n_ubatch, 512));
    params.n_seq_max = static_cast<std::uint32_t>(options_.sequences);
    params.n_threads = options_.threads;
    params.n_threads_batch = options_.threads;
    params.type_k = options_.cache_type;
    params.type_v = options_.cache_type;
    params.no_perf = true;
    llama_api::share_cache(params);
    llama_api::set_flash_attention(params, options_.flash_attention);
    clear_llama_errors();
    context_.reset(llama_init_from_model(model_->get(), params));
    if (!context_)
        throw std::runtime_error(model_->file() + ": llama.cpp cannot make a context of " +
                                 std::to_string(params.n_ctx) + " cells: " + first_llama_error());
    tip_.assign(static_cast<std::size_t>(options_.sequences), free_sequence);
    for (llama_seq_id s = options_.sequences - 1; s >= 0; --s) free_.push_back(s);
}

std::int64_t shared_context::cells() const noexcept {
    return std::int64_t{texts_} * options_.context + options_.tree_nodes;
}

llama_seq_id shared_context::take() {
    if (free_.empty()) return -1;
    llama_seq_id const sequence = free_.back();
    free_.pop_back();
    tip(sequence) = -1;
    return sequence;
}

void shared_context::give_back(llama_seq_id sequence) {
    tip(sequence) = free_sequence;
    free_.push_back(sequence);
}

void shared_context::decode(inputs const& in, std::int32_t begin, std::int32_t end) {
    llama_batch one{};
    one.n_tokens = end - begin;
    one.token = const_cast<std::int32_t*>(in.tokens.data()) + begin;  // llama.cpp reads it only
    one.pos = const_cast<std::int32_t*>(in.positions.data()) + begin;
    one.n_seq_id = in.counts + begin;
    one.seq_id = in.lists + begin;
    one.logits = in.wanted + begin;
    clear_llama_errors();
    if (int const code = llama_decode(context_.get(), one); code != 0)
        throw std::runtime_error(model_->file() + ": llama_decode returned " + std::to_string(code) + ": " +
                                 first_llama_error());
}

}  // namespace multidraft::examples
