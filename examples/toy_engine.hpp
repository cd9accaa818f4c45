// A stand-in for an engine's two models in the examples: rows of logits that depend on the last two tokens of a text.
#pragma once

#include <cstdint>
#include <span>

namespace toy {

inline constexpr int vocabulary = 1000;
/// Engines pad their rows; the library reads them in place.
inline constexpr int row_stride = 1024;

enum class model { target, draft };

/// Writes the logits that follow `text`. The draft is the target plus a little noise.
inline void forward(model which, std::span<std::int32_t const> text, float* row) {
    auto const mix = [](std::uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    };
    std::uint64_t h = 1;
    for (auto const token : text.size() > 2 ? text.last(2) : text) h = mix(h + static_cast<std::uint64_t>(token) + 1);
    for (int i = 0; i < vocabulary; ++i) {
        std::uint64_t const z = mix(h + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(i + 1));
        auto const shared = static_cast<float>(z >> 48) * 0x1p-16F;
        auto const own = static_cast<float>(z & 0xffffU) * 0x1p-16F;
        float const peak = shared > 0.99F ? 600.0F * (shared - 0.99F) : 0.0F;  // about ten tokens stand out
        row[i] = 2.0F * shared + peak + (which == model::draft ? own : 0.0F);
    }
}

}  // namespace toy
