// The decision models of early stopping: their weights, and the data that they are trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>

#include "multidraft/decode/options.hpp"
#include "multidraft/research/early_stop.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// The sizes that `train_early_stop.py` trains: inputs of T2, and the widths of the layers between.
inline constexpr std::int32_t t2_inputs = 11;  // the ten largest probabilities and the entropy
inline constexpr std::int32_t t2_width = 32;
inline constexpr std::int32_t t1_width = 64;
inline constexpr std::int32_t t1_second_width = 32;

/// Decision model T2, from `model.safetensors` of a directory. Throws `std::runtime_error` that names the file and the
/// tensor for weights that are missing or have another shape.
probability_stop load_probability_stop(std::filesystem::path const& directory, double threshold);

/// Decision model T1 for a draft with hidden states of that size. Throws as the other does.
hidden_state_stop load_hidden_state_stop(std::filesystem::path const& directory, std::int32_t hidden_size,
                                         double threshold);

/// Writes the training data of the decision models: the target continues the prompt, and at each emitted token the
/// draft draws one. One line of JSON per token: the draft's ten largest probabilities and entropy ("top", "entropy"),
/// its hidden state ("hidden"), min(1, p/q) of the token drawn ("ratio") and whether it would have been accepted
/// ("accepted").
void write_decisions(transformer& target, transformer& draft, std::span<token_id const> prompt,
                     generation_options const& options, std::ostream& out);

}  // namespace multidraft::examples
