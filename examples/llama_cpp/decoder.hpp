// A GGUF model of llama.cpp as a `language_model` for the generation loops.
#pragma once

#include <llama.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llama_cpp/cached_text.hpp"
#include "llama_cpp/gguf_model.hpp"
#include "llama_cpp/shared_context.hpp"
#include "multidraft/decode/language_model.hpp"

namespace multidraft::examples {

/// A `language_model` over one `llama_context`: a tree is one `llama_decode`, by sequences of llama.cpp's
/// (`cached_text`). For one thread at a time.
class llama_decoder {
public:
    /// Makes the context. Throws `std::runtime_error` where llama.cpp has no memory for it, and `invalid_input` for
    /// options out of their range.
    explicit llama_decoder(std::shared_ptr<gguf_model const> model, decoder_options const& options = {});

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return context_->vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return context_->options().context; }
    [[nodiscard]] std::int32_t length() const noexcept { return text_.length(); }

    /// See `language_model`. Throws `invalid_input` before anything is changed for a batch that exceeds llama.cpp's
    /// sequences, cells or outputs, or whose mask is not that of a tree. Throws `std::runtime_error` if `llama_decode`
    /// fails; the cache is then unchanged.
    void forward(token_batch const& batch, std::span<float> logits);

    /// The same, returning the logits of the last `rows` tokens in llama.cpp's memory: valid until the next call.
    [[nodiscard]] std::span<float const> forward_in_place(token_batch const& batch, std::int32_t rows);

    /// See `language_model`; the entries must be one path.
    void keep(std::int32_t context, std::span<std::int32_t const> entries) { text_.keep(context, entries); }

    [[nodiscard]] gguf_model const& model() const noexcept { return context_->model(); }
    [[nodiscard]] llama_context* get() const noexcept { return context_->get(); }

private:
    [[nodiscard]] std::int32_t parent_by_mask(token_batch const& batch, std::int32_t token) const;
    void read_batch(token_batch const& batch);

    std::unique_ptr<shared_context> context_;
    cached_text text_;
    std::vector<std::int8_t> wanted_;  ///< whether a token's logits are requested
};
static_assert(language_model<llama_decoder>);

}  // namespace multidraft::examples
