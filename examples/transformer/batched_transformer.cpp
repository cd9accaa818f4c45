#include "transformer/batched_transformer.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "transformer/attended.hpp"
#include "transformer/batched_calls.hpp"
#include "transformer/host_layers.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace

struct batched_transformer::implementation {
    implementation(std::shared_ptr<transformer_weights const> weights, std::int32_t sequences)
        : layers(std::move(weights)), attended(block_rows) {
        auto const& c = layers.w.config;
        for (std::int32_t s = 0; s < sequences; ++s)
            caches.emplace_back(c.layers, c.kv_heads, c.head_dim, layers.w.capacity, layers.w.cache);
    }

    host_layers layers;
    std::deque<key_value_cache> caches;
    attended_entries attended;
    std::vector<layer_row> rows;
    std::vector<std::int32_t> wanted, path;
};

batched_transformer::batched_transformer(std::shared_ptr<transformer_weights const> weights, std::int32_t sequences) {
    if (weights->implementation_->device) throw std::runtime_error("a model on a device has one sequence");
    if (sequences < 1) refuse("sequences", sequences, "there is 1 sequence or more");
    implementation_ = std::make_unique<implementation>(std::move(weights), sequences);
}
batched_transformer::~batched_transformer() = default;
batched_transformer::batched_transformer(batched_transformer&&) noexcept = default;
batched_transformer& batched_transformer::operator=(batched_transformer&&) noexcept = default;

std::int32_t batched_transformer::vocabulary() const noexcept { return implementation_->layers.w.config.vocabulary; }
std::int32_t batched_transformer::context_limit() const noexcept { return implementation_->layers.w.context_limit; }
std::int32_t batched_transformer::sequences() const noexcept {
    return static_cast<std::int32_t>(implementation_->caches.size());
}

void batched_transformer::forward(step_inputs const& in, std::span<std::int32_t const> sequence_of,
                                  std::span<float> logits) {
    auto& my = *implementation_;
    auto const& w = my.layers.w;
    check_step({vocabulary(), w.context_limit, w.capacity}, in, sequence_of, sequences(), logits.size());
    my.layers.shown.clear();
    my.layers.features.clear();
    std::size_t scored = 0;
    float* to = logits.data();
    for (std::size_t first = 0; first < in.size(); first += at(block_rows)) {
        std::size_t const end = std::min(in.size(), first + at(block_rows));
        my.rows.clear();
        my.wanted.clear();
        my.attended.begin();
        for (std::size_t k = first; k < end; ++k) {
            my.rows.push_back(
                {in.tokens[k], in.positions[k], in.entries[k], &my.caches[at(sequence_of[at(in.requests[k])])]});
            add_attended(in, k, my.path, my.attended);
            if (scored < in.scored.size() && at(in.scored[scored]) == k) {
                my.wanted.push_back(static_cast<std::int32_t>(k - first));
                ++scored;
            }
        }
        my.layers.forward(my.rows, my.attended, my.wanted, to);
        to += my.wanted.size() * at(vocabulary());
    }
}

void batched_transformer::expose_features(std::span<std::int32_t const> layers) {
    implementation_->layers.expose(layers);
}
std::int32_t batched_transformer::feature_size() const noexcept { return implementation_->layers.feature_size(); }
std::span<float const> batched_transformer::features() const noexcept { return implementation_->layers.features; }

void batched_transformer::keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
    auto& my = *implementation_;
    check_kept_of(sequence, sequences(), my.layers.w.capacity, context, entries);
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const to = context + static_cast<std::int32_t>(k);
        if (context + entries[k] != to) my.caches[at(sequence)].copy(context + entries[k], to);
    }
}

}  // namespace multidraft::examples
