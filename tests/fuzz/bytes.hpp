// Common parts of fuzz targets: numbers read from the fuzzer's bytes, hostile values, and the check of a property.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace multidraft::fuzz {

/// Reads numbers from the input; zeros when it has ended.
class bytes {
public:
    bytes(std::uint8_t const* data, std::size_t size) : data_(data), size_(size) {}

    std::uint8_t byte() {
        if (at_ >= size_) return 0;
        return data_[at_++];
    }
    std::uint32_t word() {
        std::uint32_t value = 0;
        for (int k = 0; k < 4; ++k) value = (value << 8) | byte();
        return value;
    }
    /// In [0, n).
    std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(byte() % static_cast<std::uint32_t>(n)); }

    /// A small number mostly, else one that should be refused.
    std::int32_t index(std::int32_t n) {
        auto const kind = byte();
        if (kind < 250) return kind % n;
        constexpr std::int32_t hostile[] = {
            -1,      -2,     std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(),
            1 << 24, 1 << 30};
        return hostile[kind - 250];
    }

    /// Invalid numbers for rows, and some valid ones.
    float number() {
        using limits = std::numeric_limits<float>;
        constexpr float values[] = {limits::quiet_NaN(),
                                    limits::infinity(),
                                    -limits::infinity(),
                                    limits::denorm_min(),
                                    limits::min(),
                                    limits::max(),
                                    -limits::max(),
                                    -0.0F,
                                    0.0F,
                                    -1.0F,
                                    1.0F,
                                    1e-30F,
                                    88.8F,
                                    -104.0F,
                                    0.5F,
                                    0.25F};
        auto const kind = byte();
        if (kind < 16) return values[kind];
        return static_cast<float>(kind - 128) * 0.0625F;
    }

private:
    std::uint8_t const* data_;
    std::size_t size_;
    std::size_t at_ = 0;
};

/// Ends the program, with a report of the fuzzer, when the property does not hold.
inline void require(bool holds, char const* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

}  // namespace multidraft::fuzz
