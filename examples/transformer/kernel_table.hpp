// The functions of kernels.hpp as they are compiled for one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transformer/kernels.hpp"

namespace multidraft::examples::kernels {

/// See kernels.hpp; the tokens of `attend` are an array and its length.
struct loops {
    void (*round)(float const* from, std::size_t n, bfloat16* to);
    void (*halve)(float const* from, std::size_t n, half* to);  ///< the `round` to halves
    void (*norm)(float* x, float const* add, float const* weight, std::int32_t n, float eps, float* out);
    void (*gated)(float const* gate_up, std::int32_t n, float* out);
    void (*rotate)(float* head, float const* cosines, float const* sines, std::int32_t half);
    void (*attend)(attention_view const& cache, token_attention const* tokens, std::int32_t count, std::int32_t heads,
                   float* scratch);
    void (*add)(float const* from, std::size_t n, float* to);
    bool (*maxima)(float const* row, std::size_t n, std::size_t sets, float* maxima);
    std::size_t (*count)(float const* row, std::size_t n, float bound);
    std::size_t (*collect)(float const* row, std::size_t n, float bound, std::int32_t* places, float* values);
};

// By the instructions that they need: null where the compiler has not got them.
extern loops const* const avx512_loops;
extern loops const* const avx2_loops;
extern loops const* const portable_loops;

}  // namespace multidraft::examples::kernels
