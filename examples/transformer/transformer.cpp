#include "transformer/transformer.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "multidraft/base/error.hpp"
#include "transformer/call_checks.hpp"
#include "transformer/device_sequence.hpp"
#include "transformer/host_sequence.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

transformer::transformer(std::shared_ptr<transformer_weights const> weights) {
    if (weights->implementation_->device)
        device_ = std::make_unique<device_sequence>(std::move(weights));
    else
        host_ = std::make_unique<host_sequence>(std::move(weights));
}
transformer::transformer(std::filesystem::path const& directory, transformer_options const& options)
    : transformer(std::make_shared<transformer_weights const>(directory, options)) {}
transformer::~transformer() = default;
transformer::transformer(transformer&&) noexcept = default;
transformer& transformer::operator=(transformer&&) noexcept = default;

std::int32_t transformer::vocabulary() const noexcept { return weights()->implementation_->config.vocabulary; }
std::int32_t transformer::context_limit() const noexcept { return weights()->implementation_->context_limit; }
std::int32_t transformer::length() const noexcept { return device_ ? device_->length : host_->length; }
std::shared_ptr<transformer_weights const> const& transformer::weights() const noexcept {
    return device_ ? device_->shared : host_->layers.shared;
}
std::int32_t transformer::hidden_size() const noexcept { return weights()->config().hidden; }
std::span<float const> transformer::hidden_states() const {
    if (device_) throw std::runtime_error("hidden states are shown by a model on the CPU only");
    return host_->layers.shown;
}

void transformer::expose_features(std::span<std::int32_t const> layers) {
    if (device_) throw std::runtime_error("features are exposed by a model on the CPU only");
    host_->layers.expose(layers);
}
std::int32_t transformer::feature_size() const noexcept { return host_ ? host_->layers.feature_size() : 0; }
std::span<float const> transformer::features() const noexcept {
    return host_ ? std::span<float const>(host_->layers.features) : std::span<float const>();
}

void transformer::forward(token_batch const& batch, std::span<float> logits) {
    weights()->implementation_->check(batch, logits.size(), length());
    if (device_) {
        device_->forward(batch, logits);
        return;
    }
    host_->forward(batch, logits);
}

void transformer::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    std::int32_t& length = device_ ? device_->length : host_->length;
    check_kept(context, entries, length);
    if (device_) {
        device_->on->keep(context, entries);
    } else {
        for (std::size_t k = 0; k < entries.size(); ++k) {
            std::int32_t const to = context + static_cast<std::int32_t>(k);
            if (context + entries[k] != to) host_->cache.copy(context + entries[k], to);
        }
    }
    length = context + static_cast<std::int32_t>(entries.size());
}

}  // namespace multidraft::examples
