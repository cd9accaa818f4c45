// A GGUF model of llama.cpp as a `language_model` for the generation loops.
#pragma once

#include <llama.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "multidraft/decode/language_model.hpp"

namespace multidraft::examples {

/// How a model file is loaded.
struct gguf_options {
    std::int32_t gpu_layers = 0;                ///< layers on a GPU, where llama.cpp was built for one; -1: all
    std::function<void(double)> progress = {};  ///< called with the loaded fraction, in [0, 1]
};

/// The weights and the vocabulary of a GGUF file, shared by the decoders that read them.
class gguf_model {
public:
    /// Loads a file. Throws `std::runtime_error` with llama.cpp's message on failure, and for models without a cache of
    /// one entry per token: recurrent and hybrid ones, sliding windows, encoders, diffusion.
    explicit gguf_model(std::string const& file, gguf_options const& options = {});

    [[nodiscard]] ::llama_model* get() const noexcept { return model_.get(); }
    [[nodiscard]] llama_vocab const* vocabulary() const noexcept { return llama_model_get_vocab(model_.get()); }
    [[nodiscard]] std::string const& file() const noexcept { return file_; }

private:
    struct free_model {
        void operator()(::llama_model* model) const noexcept { llama_model_free(model); }
    };
    std::string file_;
    std::unique_ptr<::llama_model, free_model> model_;
};

/// The capacity of a decoder.
struct decoder_options {
    std::int32_t context = 0;       ///< positions of a text; 0: those that the model was trained with
    std::int32_t tree_nodes = 256;  ///< entries of a draft tree, in addition to the text's
    std::int32_t sequences = 64;    ///< leaves of a tree, at most `llama_max_parallel_sequences()`
    std::int32_t batch = 512;       ///< tokens of one `llama_decode`; longer prompts are read in pieces
    std::int32_t threads = 1;
    ggml_type cache_type = GGML_TYPE_F16;  ///< of keys and values
    /// 1: on, 0: off, -1: as llama.cpp chooses. On a CPU it computes partly in half precision: logits of one token per
    /// call and of a tree then agree to some thousandths only, and to the rounding of floats without it.
    int flash_attention = -1;
};

/// A `language_model` over one `llama_context`.
///
/// A tree is one `llama_decode`: each leaf has a sequence of llama.cpp's, a node is in those of all leaves below it, so
/// that what a node attends to is its path. The cache keeps the accepted path by dropping all other sequences and the
/// end of its own: no key or value is moved, and free cells are reused. For one thread at a time.
class llama_decoder {
public:
    /// Makes the context. Throws `std::runtime_error` where llama.cpp has no memory for it, and `invalid_input` for
    /// options out of their range.
    explicit llama_decoder(std::shared_ptr<gguf_model const> model, decoder_options const& options = {});

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return options_.context; }
    [[nodiscard]] std::int32_t length() const noexcept { return trunk_ + static_cast<std::int32_t>(nodes_.size()); }

    /// See `language_model`. Throws `invalid_input` before anything is changed for a batch that exceeds llama.cpp's
    /// sequences, cells or outputs, or whose mask is not that of a tree. Throws `std::runtime_error` if `llama_decode`
    /// fails; the cache is then unchanged.
    void forward(token_batch const& batch, std::span<float> logits);

    /// The same, returning the logits of the last `rows` tokens in llama.cpp's memory: valid until the next call.
    [[nodiscard]] std::span<float const> forward_in_place(token_batch const& batch, std::int32_t rows);

    /// See `language_model`; the entries must be one path.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);

    [[nodiscard]] gguf_model const& model() const noexcept { return *model_; }
    [[nodiscard]] llama_context* get() const noexcept { return context_.get(); }

private:
    struct free_context {
        void operator()(llama_context* context) const noexcept { llama_free(context); }
    };
    /// An entry of the cache after the trunk, or a token of a batch.
    struct node {
        std::int32_t parent;  ///< the entry before it on its path; -1: none
        std::int32_t position;
        llama_seq_id sequence;  ///< one that goes through it
    };

    /// A leaf of a batch.
    struct leaf {
        std::size_t token;
        std::int32_t attached;  ///< the entry of the cache that its path continues; -1: none
        llama_seq_id sequence;
        bool fresh;  ///< whether the sequence was free before
    };

    [[nodiscard]] std::int32_t position_of(std::int32_t entry) const;
    [[nodiscard]] llama_seq_id sequence_of(std::int32_t entry) const;
    [[nodiscard]] std::int32_t parent_of(std::int32_t entry) const;
    [[nodiscard]] std::int32_t parent_by_mask(token_batch const& batch, std::int32_t token) const;
    void read_batch(token_batch const& batch);
    [[nodiscard]] bool is_chain() const;
    void find_sequences();
    void undo() noexcept;

    std::shared_ptr<gguf_model const> model_;
    decoder_options options_;
    std::unique_ptr<llama_context, free_context> context_;
    llama_memory_t memory_ = nullptr;
    std::int32_t vocabulary_ = 0;

    // The cache: `trunk_` entries that are one path, all of sequence `main_`, then nodes in the order of reading.
    std::int32_t trunk_ = 0;
    llama_seq_id main_ = 0;
    std::vector<node> nodes_;
    std::vector<std::int32_t> tip_;  ///< by sequence: the entry that it ends at; -1 where it is empty, -2 where free

    // Of one call.
    std::vector<node> batch_;
    std::vector<leaf> leaves_;
    std::vector<std::int32_t> children_, attached_, new_tip_;
    std::vector<std::int32_t> counts_;  ///< of each token, its sequences: `lists_`, which point into `ids_`
    std::vector<llama_seq_id> ids_;
    std::vector<llama_seq_id*> lists_;
    std::vector<std::int8_t> wanted_;  ///< whether a token's logits are requested
};
static_assert(language_model<llama_decoder>);

}  // namespace multidraft::examples
