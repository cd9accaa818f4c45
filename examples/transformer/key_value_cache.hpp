// The keys and values of a sequence, laid out as `kernels::attend` reads them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transformer/aligned_array.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {

/// One entry per token, in each head of each layer. Pages that were never written take no memory.
class key_value_cache {
public:
    /// `capacity`: entries, a multiple of `kernels::lanes`.
    key_value_cache(std::int32_t layers, std::int32_t heads, std::int32_t head_dim, std::int32_t capacity)
        : layers_(layers),
          heads_(heads),
          dim_(head_dim),
          padded_(size(kernels::round_up(head_dim, kernels::lanes))),
          capacity_(size(capacity)),
          keys_(size(layers) * size(heads) * capacity_ * size(head_dim)),
          values_(size(layers) * size(heads) * capacity_ * padded_) {}

    /// The keys and values of one head of a layer.
    [[nodiscard]] kernels::attention_view view(std::int32_t layer, std::int32_t head) const noexcept {
        return {keys_of(layer, head), values_of(layer, head), dim_, 1.0F / std::sqrt(static_cast<float>(dim_))};
    }

    /// Writes the key and the value of an entry, `head_dim` numbers each.
    void write(std::int32_t layer, std::int32_t head, std::int32_t entry, float const* key,
               float const* value) noexcept {
        float* const to = keys_of(layer, head) + key_entry(entry);
        for (std::int32_t d = 0; d < dim_; ++d) to[d * kernels::lanes] = key[d];
        std::memcpy(values_of(layer, head) + size(entry) * padded_, value, size(dim_) * sizeof(float));
    }

    /// Entry `from` becomes entry `to`, in all heads of all layers.
    void copy(std::int32_t from, std::int32_t to) noexcept {
        for (std::int32_t l = 0; l < layers_; ++l) {
            for (std::int32_t h = 0; h < heads_; ++h) {
                float const* const source = keys_of(l, h) + key_entry(from);
                float* const target = keys_of(l, h) + key_entry(to);
                for (std::int32_t d = 0; d < dim_; ++d) target[d * kernels::lanes] = source[d * kernels::lanes];
                std::memcpy(values_of(l, h) + size(to) * padded_, values_of(l, h) + size(from) * padded_,
                            padded_ * sizeof(float));
            }
        }
    }

private:
    [[nodiscard]] static std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }
    [[nodiscard]] float* keys_of(std::int32_t layer, std::int32_t head) const noexcept {
        return keys_.data() + (size(layer) * size(heads_) + size(head)) * capacity_ * size(dim_);
    }
    [[nodiscard]] float* values_of(std::int32_t layer, std::int32_t head) const noexcept {
        return values_.data() + (size(layer) * size(heads_) + size(head)) * capacity_ * padded_;
    }
    /// Where, inside its head, an entry's key begins; its numbers are `lanes` apart.
    [[nodiscard]] std::size_t key_entry(std::int32_t entry) const noexcept {
        return size(entry / kernels::lanes) * size(dim_) * kernels::lanes + size(entry % kernels::lanes);
    }

    std::int32_t layers_;
    std::int32_t heads_;
    std::int32_t dim_;
    std::size_t padded_;
    std::size_t capacity_;
    aligned_array<float> keys_, values_;
};

}  // namespace multidraft::examples
