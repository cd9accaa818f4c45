// All code that depends on the version of llama.cpp's C interface. Needed at least: llama_memory_seq_*, which came in
// June 2025. Each function below uses a newer thing where the headers that are included have it.
#pragma once

#include <llama.h>

namespace multidraft::examples::llama_api {

/// Whether the model's state is other than one entry per token: recurrent and hybrid models.
template <class Model>
[[nodiscard]] bool is_recurrent(Model const* model) {
    if constexpr (requires { llama_model_is_hybrid(model); })
        if (llama_model_is_hybrid(model)) return true;
    return llama_model_is_recurrent(model);
}

/// Whether the model fills in a text as a whole.
template <class Model>
[[nodiscard]] bool is_diffusion([[maybe_unused]] Model const* model) {
    if constexpr (requires { llama_model_is_diffusion(model); }) return llama_model_is_diffusion(model);
    return false;
}

/// One cache that all sequences share: a node in several sequences is stored once, and a batch may mix them.
template <class Params>
void share_cache([[maybe_unused]] Params& params) {
    if constexpr (requires { params.kv_unified; }) params.kv_unified = true;
}

/// Flash attention: 1 on, 0 off, -1 as llama.cpp chooses.
template <class Params>
void set_flash_attention(Params& params, int choice) {
    if constexpr (requires { params.flash_attn_type; })
        params.flash_attn_type = static_cast<decltype(params.flash_attn_type)>(choice);
    else
        params.flash_attn = choice == 1;
}

}  // namespace multidraft::examples::llama_api
