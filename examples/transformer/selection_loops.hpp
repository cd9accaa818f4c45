// The loops that choose the candidates of a row, a sum and those of `largest_entries`: plain ones that the compiler
// turns into the vectors of an instruction set.
//
// As in kernel_loops.hpp, everything here has internal linkage and calls no inline function of the standard library.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace multidraft::examples::kernels {
namespace {

void add_numbers(float const* from, std::size_t n, float* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

bool maxima_of_sets(float const* row, std::size_t n, std::size_t sets, float* maxima) {
    for (std::size_t i = 0; i < sets; ++i) maxima[i] = row[i];
    std::uint32_t faults = 0;
    for (std::size_t first = 0; first < n; first += sets) {
        float const* const from = row + first;
        std::size_t const here = n - first < sets ? n - first : sets;
        for (std::size_t i = 0; i < here; ++i) {
            maxima[i] = from[i] > maxima[i] ? from[i] : maxima[i];
            faults |= from[i] != from[i] ? 1U : 0U;
        }
    }
    return faults == 0;
}

std::size_t count_numbers(float const* row, std::size_t n, float bound) {
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < n; ++i) count += row[i] >= bound ? 1U : 0U;
    return count;
}

/// Writes each entry, and goes on to the next place where it stays: no branch depends on a single entry.
std::size_t collect_some(float const* row, std::size_t first, std::size_t end, float bound, std::size_t found,
                         std::int32_t* places, float* values) {
    for (std::size_t i = first; i < end; ++i) {
        places[found] = static_cast<std::int32_t>(i);
        values[found] = row[i];
        found += row[i] >= bound ? 1 : 0;
    }
    return found;
}

std::size_t collect_entries(float const* row, std::size_t n, float bound, std::int32_t* places, float* values) {
    constexpr std::size_t block = 16;
    std::size_t const whole = n / block * block;
    std::size_t found = 0;
    for (std::size_t first = 0; first < whole; first += block) {
#if defined(__AVX512F__)
        __m512 const here = _mm512_loadu_ps(row + first);
        __mmask16 const kept = _mm512_cmp_ps_mask(here, _mm512_set1_ps(bound), _CMP_GE_OQ);
        if (kept == 0) continue;
        __m512i const lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        __m512i const place = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<std::int32_t>(first)));
        _mm512_storeu_ps(values + found, _mm512_maskz_compress_ps(kept, here));
        _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi32(kept, place));
        found += static_cast<std::size_t>(__builtin_popcount(kept));
#else
        std::uint32_t any = 0;
        for (std::size_t i = first; i < first + block; ++i) any |= row[i] >= bound ? 1U : 0U;
        if (any != 0) found = collect_some(row, first, first + block, bound, found, places, values);
#endif
    }
    return collect_some(row, whole, n, bound, found, places, values);
}

}  // namespace
}  // namespace multidraft::examples::kernels
