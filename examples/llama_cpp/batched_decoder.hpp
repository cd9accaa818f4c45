// A GGUF model of llama.cpp as a `batched_language_model`: the texts of many requests in one context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "llama_cpp/cached_text.hpp"
#include "llama_cpp/gguf_model.hpp"
#include "llama_cpp/shared_context.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"

namespace multidraft::examples {

/// A `batched_language_model` over one `llama_context`: the rows of all requests are one `llama_decode`, or a few where
/// they are more than `decoder_options::batch`.
///
/// A text has one sequence of llama.cpp's between steps, and in a step one for each leaf of its tree (`cached_text`):
/// the leaves of all trees and the texts without a tree share `decoder_options::sequences`. For one thread at a time.
class batched_llama_decoder {
public:
    /// `texts` caches of `options.context` positions each; `options.tree_nodes` are of all trees of a step together.
    /// Throws as `shared_context`.
    batched_llama_decoder(std::shared_ptr<gguf_model const> model, std::int32_t texts,
                          decoder_options const& options = {});

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return context_->vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return context_->options().context; }
    [[nodiscard]] std::int32_t sequences() const noexcept { return static_cast<std::int32_t>(texts_.size()); }

    /// See `batched_language_model`. Throws `failed_request` for a request with an invalid token, a position beyond the
    /// context, or for whose tree there are no cells or sequences; `invalid_input` for arguments that do not fit
    /// together; `std::runtime_error` if `llama_decode` fails. The entries before the step are then unchanged.
    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits);

    /// See `batched_language_model`; the entries must be one path. Throws `invalid_input`, with the cache as it was.
    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries);

private:
    void check(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::size_t logits);
    void add_inputs(step_inputs const& in, std::int32_t request, cached_text& text);
    void read(step_inputs const& in, std::span<float> logits);

    std::unique_ptr<shared_context> context_;
    std::vector<cached_text> texts_;

    // Of one call.
    std::vector<std::int8_t> called_;   ///< of each text, whether it is in the call
    std::vector<cached_text*> placed_;  ///< the texts of the call, in its order
    std::vector<std::int32_t> counts_;  ///< of each input, its sequences
    std::vector<llama_seq_id*> lists_;  ///< which they are
    std::vector<std::int8_t> wanted_;   ///< whether its logits are requested
};
static_assert(batched_language_model<batched_llama_decoder>);

}  // namespace multidraft::examples
