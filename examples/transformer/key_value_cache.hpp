// The keys and values of a sequence, laid out as `kernels::attend` reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transformer/aligned_array.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {

/// One entry per token, in each head of each layer, in floats or rounded to halves. Pages that were never written take
/// no memory.
class key_value_cache {
public:
    /// `capacity`: entries, a multiple of `kernels::lanes`.
    key_value_cache(std::int32_t layers, std::int32_t heads, std::int32_t head_dim, std::int32_t capacity,
                    kernels::cache_numbers numbers)
        : numbers_(numbers),
          layers_(layers),
          heads_(heads),
          dim_(head_dim),
          padded_(size(kernels::round_up(head_dim, kernels::lanes))),
          capacity_(size(capacity)),
          keys_(size(layers) * size(heads) * capacity_ * size(head_dim) * number_bytes()),
          values_(size(layers) * size(heads) * capacity_ * padded_ * number_bytes()) {}

    /// The keys and values of one head of a layer.
    [[nodiscard]] kernels::attention_view view(std::int32_t layer, std::int32_t head) const noexcept {
        return {keys_of(layer, head), values_of(layer, head), dim_, 1.0F / std::sqrt(static_cast<float>(dim_)),
                numbers_};
    }

    /// Writes the key and the value of an entry, `head_dim` numbers each.
    void write(std::int32_t layer, std::int32_t head, std::int32_t entry, float const* key, float const* value) {
        void* const keys = keys_of(layer, head);
        std::byte* const to = values_of(layer, head) + size(entry) * padded_ * number_bytes();
        if (numbers_ == kernels::cache_numbers::floats) {
            place(key, dim_, static_cast<float*>(keys) + key_entry(entry));
            std::memcpy(to, value, size(dim_) * sizeof(float));
            return;
        }
        std::array<kernels::half, 64> some;
        for (std::int32_t d = 0; d < dim_;) {
            std::int32_t const count = std::min<std::int32_t>(dim_ - d, some.size());
            kernels::round(key + d, size(count), some.data());
            place(some.data(), count, static_cast<kernels::half*>(keys) + key_entry(entry) + size(d) * kernels::lanes);
            d += count;
        }
        kernels::round(value, size(dim_), static_cast<kernels::half*>(static_cast<void*>(to)));
    }

    /// Entry `from` becomes entry `to`, in all heads of all layers.
    void copy(std::int32_t from, std::int32_t to) noexcept {
        for (std::int32_t l = 0; l < layers_; ++l) {
            for (std::int32_t h = 0; h < heads_; ++h) {
                if (numbers_ == kernels::cache_numbers::floats)
                    copy_key<float>(keys_of(l, h), from, to);
                else
                    copy_key<kernels::half>(keys_of(l, h), from, to);
                std::size_t const bytes = padded_ * number_bytes();
                std::memcpy(values_of(l, h) + size(to) * bytes, values_of(l, h) + size(from) * bytes, bytes);
            }
        }
    }

private:
    [[nodiscard]] static std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }
    [[nodiscard]] std::size_t number_bytes() const noexcept {
        return numbers_ == kernels::cache_numbers::floats ? sizeof(float) : sizeof(kernels::half);
    }
    [[nodiscard]] std::byte* keys_of(std::int32_t layer, std::int32_t head) const noexcept {
        return keys_.data() + (size(layer) * size(heads_) + size(head)) * capacity_ * size(dim_) * number_bytes();
    }
    [[nodiscard]] std::byte* values_of(std::int32_t layer, std::int32_t head) const noexcept {
        return values_.data() + (size(layer) * size(heads_) + size(head)) * capacity_ * padded_ * number_bytes();
    }
    /// Where, inside its head, an entry's key begins; its numbers are `lanes` apart.
    [[nodiscard]] std::size_t key_entry(std::int32_t entry) const noexcept {
        return size(entry / kernels::lanes) * size(dim_) * kernels::lanes + size(entry % kernels::lanes);
    }
    template <class Number>
    static void place(Number const* key, std::int32_t count, Number* to) noexcept {
        for (std::int32_t d = 0; d < count; ++d) to[d * kernels::lanes] = key[d];
    }
    template <class Number>
    void copy_key(void* keys, std::int32_t from, std::int32_t to) noexcept {
        auto const* const source = static_cast<Number*>(keys) + key_entry(from);
        auto* const target = static_cast<Number*>(keys) + key_entry(to);
        for (std::int32_t d = 0; d < dim_; ++d) target[d * kernels::lanes] = source[d * kernels::lanes];
    }

    kernels::cache_numbers numbers_;
    std::int32_t layers_;
    std::int32_t heads_;
    std::int32_t dim_;
    std::size_t padded_;
    std::size_t capacity_;
    aligned_array<std::byte> keys_, values_;
};

}  // namespace multidraft::examples
