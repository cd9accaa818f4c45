// Many prompts together in one context of llama.cpp for each model: `--prompt-file`, `--parallel`.
#pragma once

#include <cstdint>
#include <memory>

#include "llama_cpp/gguf_model.hpp"
#include "llama_cpp/methods.hpp"
#include "llama_cpp/shared_context.hpp"
#include "many_prompts.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// How prompts are run together.
struct many_llama_options {
    /// Of either model; `context` is that of a text, as for one request. The rest follows from the trees.
    decoder_options room;
    std::int32_t draft_threads = 1;
    topology shape;            ///< of every tree; the root alone drafts nothing
    bool choose = false;       ///< the trees share a budget instead (`batch_controller`), by measured times
    std::int32_t budget = 16;  ///< of that many nodes a request in flight
};

/// Continues all prompts as `continue_many` says. `draft`: null where nothing is drafted. `how`: its `run_choices` is
/// timed, where trees are chosen. Throws `std::runtime_error` where the trees may have more leaves than llama.cpp has
/// sequences.
int continue_many(std::shared_ptr<gguf_model const> const& target, std::shared_ptr<gguf_model const> const& draft,
                  llama_method const& how, many_prompts const& many, generation_options const& options,
                  many_llama_options const& together);

}  // namespace multidraft::examples
