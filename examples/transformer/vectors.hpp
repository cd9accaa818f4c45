// Vectors of 16 floats for packing inputs and weights, in the compiler's own notation.
#pragma once

#include <cstdint>
#include <cstring>

#include "multidraft/base/config.hpp"
#include "transformer/kernels.hpp"

// A build for the baseline instruction set also contains wider versions of these loops and chooses at program start.
// Sanitizers run before that choice can be made.
#if defined(__x86_64__) && defined(__linux__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define MULTIDRAFT_EXAMPLE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MULTIDRAFT_EXAMPLE_CLONES
#endif

// Vectors are passed between inlined functions only, never through an ABI.
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace multidraft::examples::kernels {
namespace {

using floats = float __attribute__((vector_size(lanes * 4)));
using ints = std::int32_t __attribute__((vector_size(lanes * 4)));
using words = std::uint32_t __attribute__((vector_size(lanes * 4)));
using halves = std::uint16_t __attribute__((vector_size(lanes * 2)));

MULTIDRAFT_INLINE floats load(float const* from) {
    floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

MULTIDRAFT_INLINE void store(float* to, floats v) { std::memcpy(to, &v, sizeof v); }

MULTIDRAFT_INLINE halves rounded(floats v) {
    words bits;
    std::memcpy(&bits, &v, sizeof bits);
    return __builtin_convertvector((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16, halves);
}

MULTIDRAFT_INLINE void store(bfloat16* to, floats v) {
    halves const h = rounded(v);
    std::memcpy(to, &h, sizeof h);
}

/// The first `count` lanes; the others are 0.
MULTIDRAFT_INLINE floats load(float const* from, std::int32_t count) {
    if (count >= lanes) return load(from);
    floats v{};
    std::memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(float));
    return v;
}

}  // namespace
}  // namespace multidraft::examples::kernels
