// A model that counts what it reads: what a cache keeps is not read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "transformer/transformer.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A model that counts the tokens that it reads.
class counted_model {
public:
    explicit counted_model(examples::transformer& model) : model_(model) {}

    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    [[nodiscard]] std::int32_t length() const { return model_.length(); }
    [[nodiscard]] std::int32_t feature_size() const { return model_.feature_size(); }
    [[nodiscard]] std::span<float const> features() const { return model_.features(); }
    void forward(token_batch const& batch, std::span<float> logits) {
        read += batch.tokens.size();
        model_.forward(batch, logits);
    }
    void keep(std::int32_t context, std::span<std::int32_t const> entries) { model_.keep(context, entries); }

    std::size_t read = 0;

private:
    examples::transformer& model_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
