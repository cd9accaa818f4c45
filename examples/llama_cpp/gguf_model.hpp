// A model file of llama.cpp: weights and vocabulary.
#pragma once

#include <llama.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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

/// The first error that llama.cpp has reported since `clear_llama_errors`, without the line's end.
[[nodiscard]] std::string first_llama_error();
void clear_llama_errors();

}  // namespace multidraft::examples
