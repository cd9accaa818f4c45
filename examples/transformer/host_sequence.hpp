// A sequence whose layers run on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/attended.hpp"
#include "transformer/host_layers.hpp"
#include "transformer/key_value_cache.hpp"

namespace multidraft::examples {

struct host_sequence {
    explicit host_sequence(std::shared_ptr<transformer_weights const> weights);

    /// Takes a checked batch through the layers.
    void forward(token_batch const& batch, std::span<float> logits);

    host_layers layers;
    std::int32_t length = 0;
    key_value_cache cache;

private:
    attended_entries attended_;
    std::vector<layer_row> rows_;
    std::vector<std::int32_t> wanted_;
};

}  // namespace multidraft::examples
