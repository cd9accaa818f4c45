// The angles of rotary positions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transformer/config.hpp"

namespace multidraft::examples {

/// Cosines and sines by position, `head_dim / 2` of each, from products of floats as in Hugging Face.
class rotary_angles {
public:
    rotary_angles() = default;
    /// For the positions before `positions`.
    rotary_angles(model_config const& config, std::int32_t positions)
        : half_(static_cast<std::size_t>(config.head_dim / 2)) {
        cosines_.resize(static_cast<std::size_t>(positions) * half_);
        sines_.resize(cosines_.size());
        for (std::size_t i = 0; i < half_; ++i) {
            float const exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
            float const frequency = 1.0F / std::pow(config.rope_theta, exponent);
            for (std::int32_t position = 0; position < positions; ++position) {
                float const angle = static_cast<float>(position) * frequency;
                cosines_[static_cast<std::size_t>(position) * half_ + i] = std::cos(angle);
                sines_[static_cast<std::size_t>(position) * half_ + i] = std::sin(angle);
            }
        }
    }

    [[nodiscard]] float const* cosines(std::int32_t position) const noexcept {
        return cosines_.data() + static_cast<std::size_t>(position) * half_;
    }
    [[nodiscard]] float const* sines(std::int32_t position) const noexcept {
        return sines_.data() + static_cast<std::size_t>(position) * half_;
    }

private:
    std::size_t half_ = 0;
    std::vector<float> cosines_, sines_;
};

}  // namespace multidraft::examples
