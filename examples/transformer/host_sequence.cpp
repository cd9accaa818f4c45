#include "transformer/host_sequence.hpp"

#include <algorithm>
#include <utility>

namespace multidraft::examples {

host_sequence::host_sequence(std::shared_ptr<transformer_weights const> weights)
    : layers(std::move(weights)),
      cache(layers.w.config.layers, layers.w.config.kv_heads, layers.w.config.head_dim, layers.w.capacity,
            layers.w.cache),
      attended_(block_rows) {}

void host_sequence::forward(token_batch const& batch, std::span<float> logits) {
    layers.shown.clear();
    layers.features.clear();
    auto const n = static_cast<std::int32_t>(batch.tokens.size());
    auto const vocabulary = static_cast<std::size_t>(layers.w.config.vocabulary);
    std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / vocabulary);
    float* to = logits.data();
    for (std::int32_t first = 0; first < n; first += block_rows) {
        std::int32_t const rows = std::min(block_rows, n - first);
        rows_.clear();
        wanted_.clear();
        for (std::int32_t r = 0; r < rows; ++r) {
            auto const at = static_cast<std::size_t>(first + r);
            rows_.push_back({batch.tokens[at], batch.positions[at], length++, &cache});
            if (first + r >= unwanted) wanted_.push_back(r);
        }
        attended_.list(batch, first, rows, length);  // the block's own entries are in the cache by then
        layers.forward(rows_, attended_, wanted_, to);
        to += wanted_.size() * vocabulary;
    }
}

}  // namespace multidraft::examples
