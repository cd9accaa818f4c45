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

    /// The entries that a row attends to: those before the step, its ancestors in the step, its own.
    void attend(step_inputs const& in, std::size_t k) {
        path.clear();
        for (auto row = in.first_row + static_cast<std::int64_t>(k); row != none; row = in.parent_rows[at(row)])
            path.push_back(in.entry_of_row[at(row)]);
        attended.add(0, in.first_entries[at(in.requests[k])]);
        for (std::size_t j = path.size(); j-- > 0;) attended.add(path[j], 1);
        attended.end_row();
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
    if (logits.size() != in.scored.size() * at(vocabulary()))
        refuse("logits.size", logits.size(), "there is a row for each scored input");
    for (std::size_t k = 0; k < in.size(); ++k) {
        std::int32_t const b = in.requests[k];
        if (b < 0 || at(b) >= sequence_of.size())
            refuse("in.requests", static_cast<std::int64_t>(k), b, "no such request");
        std::int32_t const s = sequence_of[at(b)];
        if (s < 0 || s >= sequences()) refuse("sequence_of", b, s, "no such sequence");
        if (in.tokens[k] < 0 || in.tokens[k] >= vocabulary())
            throw failed_request(
                b, "token " + std::to_string(in.tokens[k]) + " is not in [0, " + std::to_string(vocabulary()) + ")");
        if (in.positions[k] < 0 || in.positions[k] >= w.context_limit)
            throw failed_request(b, "position " + std::to_string(in.positions[k]) + " is beyond the context of " +
                                        std::to_string(w.context_limit) + " tokens");
        if (in.entries[k] < 0 || in.entries[k] >= w.capacity)
            throw failed_request(b,
                                 "the tree takes more than the " + std::to_string(w.capacity) + " entries of a cache");
    }
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
            my.attend(in, k);
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
    std::int32_t const capacity = my.layers.w.capacity;
    if (sequence < 0 || sequence >= sequences())
        refuse("sequence", sequence, "there are " + std::to_string(sequences()));
    if (context < 0 || context > capacity)
        refuse("context", context, "a cache has " + std::to_string(capacity) + " entries");
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const number = static_cast<std::int64_t>(k);
        if (entries[k] < 0 || entries[k] >= capacity - context)
            refuse("entries", number, entries[k], "must be in [0, " + std::to_string(capacity - context) + ")");
        if (k > 0 && entries[k] <= entries[k - 1])
            refuse("entries", number, entries[k], "must be larger than the one before");
    }
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const to = context + static_cast<std::int32_t>(k);
        if (context + entries[k] != to) my.caches[at(sequence)].copy(context + entries[k], to);
    }
}

}  // namespace multidraft::examples
