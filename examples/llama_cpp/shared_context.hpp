// A context of llama.cpp with one cache for all sequences, which one text or several share.
#pragma once

#include <llama.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llama_cpp/gguf_model.hpp"

namespace multidraft::examples {

/// The capacity of a decoder.
struct decoder_options {
    std::int32_t context = 0;       ///< positions of a text; 0: those that the model was trained with
    std::int32_t tree_nodes = 256;  ///< entries of a step's draft trees, in addition to those of the texts
    std::int32_t sequences = 64;    ///< leaves of a step's trees, at most `llama_max_parallel_sequences()`
    std::int32_t batch = 512;       ///< tokens of one `llama_decode`; longer prompts are read in pieces
    std::int32_t threads = 1;
    ggml_type cache_type = GGML_TYPE_F16;  ///< of keys and values
    /// 1: on, 0: off, -1: as llama.cpp chooses. On a CPU it computes partly in half precision: logits of one token per
    /// call and of a tree then agree to some thousandths only, and to the rounding of floats without it.
    int flash_attention = -1;
};

/// A `llama_context` whose sequences texts take and give back. For one thread at a time.
class shared_context {
public:
    static constexpr std::int32_t free_sequence = -2;

    /// The context of `texts` texts, each of `options.context` positions. Throws `std::runtime_error` where llama.cpp
    /// has no memory for it, and `invalid_input` for options out of their range.
    shared_context(std::shared_ptr<gguf_model const> model, decoder_options const& options, std::int32_t texts);

    [[nodiscard]] gguf_model const& model() const noexcept { return *model_; }
    [[nodiscard]] decoder_options const& options() const noexcept { return options_; }  ///< without zeros for defaults
    [[nodiscard]] std::int32_t texts() const noexcept { return texts_; }
    [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
    /// Entries of all texts and trees.
    [[nodiscard]] std::int64_t cells() const noexcept;
    [[nodiscard]] llama_context* get() const noexcept { return context_.get(); }
    [[nodiscard]] llama_memory_t memory() const noexcept { return llama_get_memory(context_.get()); }

    /// A sequence without entries, or -1 where all are in use.
    [[nodiscard]] llama_seq_id take();
    /// Takes back a sequence, whose entries the caller has removed.
    void give_back(llama_seq_id sequence);
    /// The entry of its text that a sequence ends at; -1 where it is empty, `free_sequence` where nobody has it.
    [[nodiscard]] std::int32_t& tip(llama_seq_id sequence) { return tip_[static_cast<std::size_t>(sequence)]; }

    /// The inputs of a call, as those of `llama_batch`.
    struct inputs {
        std::span<std::int32_t const> tokens, positions;
        std::int32_t* counts;  ///< of each token, its sequences
        llama_seq_id** lists;  ///< which they are
        std::int8_t* wanted;   ///< whether its logits are
    };
    /// One `llama_decode` of the tokens `begin .. end`, at most `options().batch`. Throws `std::runtime_error` if it
    /// fails.
    void decode(inputs const& in, std::int32_t begin, std::int32_t end);

private:
    struct free_context {
        void operator()(llama_context* context) const noexcept { llama_free(context); }
    };
    std::shared_ptr<gguf_model const> model_;
    decoder_options options_;
    std::int32_t texts_;
    std::int32_t vocabulary_;
    std::unique_ptr<llama_context, free_context> context_;
    std::vector<std::int32_t> tip_;  ///< by sequence
    std::vector<llama_seq_id> free_;
};

}  // namespace multidraft::examples
