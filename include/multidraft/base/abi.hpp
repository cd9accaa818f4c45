// The namespace of the library, which is named for what changes its code: the version and the instruction set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "multidraft needs C++20: compile with -std=c++20 (CMake: target_compile_features(<target> PRIVATE cxx_std_20))"
#define MULTIDRAFT_NO_SUCH_HEADER "multidraft needs C++20"  // ends the compilation, else thousands of errors follow
#include MULTIDRAFT_NO_SUCH_HEADER
#endif

#include "multidraft/version.hpp"

// Everything is inline, so the linker keeps one copy of each function, from whichever file comes first. If the files of
// a program were compiled with different -march, code meant for any CPU could run a copy that uses AVX-512, and
// `has_fma` would not hold. So the library is in an inline namespace that such files do not share,
// `multidraft::v0_2_0_x86_64_v3` for instance; programs write `multidraft`. A user's function that takes a type of the
// library and is called from a file with other flags fails to link.
//
// The name encodes what the compiler may use: the x86-64 level (x86-64-v2, -v3, -v4 of the psABI), then any further
// extensions. Host and device compilation of one file see the same macros of the host and agree on the name. Extensions
// that compilers use only through intrinsics (AMX, AES) are not part of it. On systems other than x86-64 and AArch64
// only FMA is.
//
// g++ changes the macros after `#pragma GCC target`: a file that uses it must include all headers before it or all
// after.

/// A user may define it (the same identifier in all files, -DMULTIDRAFT_ABI=engine) to replace the name. Files with the
/// same name share functions and types, so they must be compiled for the same instruction set.
#if !defined(MULTIDRAFT_ABI)

// MULTIDRAFT_ABI_WORD(macro, word): `word` where `macro` is 1, nothing where it is not defined.
#define MULTIDRAFT_ABI_IS_1 ~,
#define MULTIDRAFT_ABI_SECOND(first, second, ...) second
#define MULTIDRAFT_ABI_CHOOSE(probe, word) MULTIDRAFT_ABI_SECOND(probe word, , ~)
#define MULTIDRAFT_ABI_PROBE(value, word) MULTIDRAFT_ABI_CHOOSE(MULTIDRAFT_ABI_IS_##value, word)
#define MULTIDRAFT_ABI_WORD(macro, word) MULTIDRAFT_ABI_PROBE(macro, word)

// MULTIDRAFT_ABI_JOIN(a, b, ..): eight words in one, of which any may be nothing.
#define MULTIDRAFT_ABI_PASTE(a, b, c, d, e, f, g, h) a##b##c##d##e##f##g##h
#define MULTIDRAFT_ABI_JOIN(a, b, c, d, e, f, g, h) MULTIDRAFT_ABI_PASTE(a, b, c, d, e, f, g, h)

#if defined(__x86_64__) || defined(_M_X64)

#if defined(__SSE3__) && defined(__SSSE3__) && defined(__SSE4_1__) && defined(__SSE4_2__) && defined(__POPCNT__)
#define MULTIDRAFT_ABI_HAS_V2 1
#else
#define MULTIDRAFT_ABI_HAS_V2 0
#endif
#if MULTIDRAFT_ABI_HAS_V2 && defined(__AVX__) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && \
    defined(__BMI__) && defined(__BMI2__) && defined(__LZCNT__) && defined(__MOVBE__)
#define MULTIDRAFT_ABI_HAS_V3 1
#else
#define MULTIDRAFT_ABI_HAS_V3 0
#endif
#if MULTIDRAFT_ABI_HAS_V3 && defined(__AVX512F__) && defined(__AVX512CD__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#define MULTIDRAFT_ABI_HAS_V4 1
#else
#define MULTIDRAFT_ABI_HAS_V4 0
#endif

#if MULTIDRAFT_ABI_HAS_V4
#define MULTIDRAFT_ABI_LEVEL x86_64_v4
#elif MULTIDRAFT_ABI_HAS_V3
#define MULTIDRAFT_ABI_LEVEL x86_64_v3
#elif MULTIDRAFT_ABI_HAS_V2
#define MULTIDRAFT_ABI_LEVEL x86_64_v2
#else
#define MULTIDRAFT_ABI_LEVEL x86_64
#endif

#if MULTIDRAFT_ABI_HAS_V2
#define MULTIDRAFT_ABI_OF_V2
#else
#define MULTIDRAFT_ABI_OF_V2                                                                                \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__SSE3__, _sse3), MULTIDRAFT_ABI_WORD(__SSSE3__, _ssse3),       \
                        MULTIDRAFT_ABI_WORD(__SSE4_1__, _sse4_1), MULTIDRAFT_ABI_WORD(__SSE4_2__, _sse4_2), \
                        MULTIDRAFT_ABI_WORD(__POPCNT__, _popcnt), , , )
#endif
#if MULTIDRAFT_ABI_HAS_V3
#define MULTIDRAFT_ABI_OF_V3
#else
#define MULTIDRAFT_ABI_OF_V3                                                                      \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__AVX__, _avx), MULTIDRAFT_ABI_WORD(__AVX2__, _avx2), \
                        MULTIDRAFT_ABI_WORD(__FMA__, _fma), MULTIDRAFT_ABI_WORD(__F16C__, _f16c), \
                        MULTIDRAFT_ABI_WORD(__BMI__, _bmi), MULTIDRAFT_ABI_WORD(__BMI2__, _bmi2), \
                        MULTIDRAFT_ABI_WORD(__LZCNT__, _lzcnt), MULTIDRAFT_ABI_WORD(__MOVBE__, _movbe))
#endif
#if MULTIDRAFT_ABI_HAS_V4
#define MULTIDRAFT_ABI_OF_V4
#else
#define MULTIDRAFT_ABI_OF_V4                                                                                        \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__AVX512F__, _avx512f), MULTIDRAFT_ABI_WORD(__AVX512CD__, _avx512cd),   \
                        MULTIDRAFT_ABI_WORD(__AVX512BW__, _avx512bw), MULTIDRAFT_ABI_WORD(__AVX512DQ__, _avx512dq), \
                        MULTIDRAFT_ABI_WORD(__AVX512VL__, _avx512vl), , , )
#endif

// The extensions that Ice Lake and Zen 4 have beyond x86-64-v4 share one word.
#if defined(__AVX512IFMA__) && defined(__AVX512VBMI__) && defined(__AVX512VBMI2__) && defined(__AVX512VNNI__) && \
    defined(__AVX512BITALG__) && defined(__AVX512VPOPCNTDQ__) && defined(__GFNI__)
#define MULTIDRAFT_ABI_ICELAKE _icelake
#else
#define MULTIDRAFT_ABI_ICELAKE                                                                                    \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__AVX512IFMA__, _ifma), MULTIDRAFT_ABI_WORD(__AVX512VBMI__, _vbmi),   \
                        MULTIDRAFT_ABI_WORD(__AVX512VBMI2__, _vbmi2), MULTIDRAFT_ABI_WORD(__AVX512VNNI__, _vnni), \
                        MULTIDRAFT_ABI_WORD(__AVX512BITALG__, _bitalg),                                           \
                        MULTIDRAFT_ABI_WORD(__AVX512VPOPCNTDQ__, _vpopcntdq), MULTIDRAFT_ABI_WORD(__GFNI__, _gfni), )
#endif
#define MULTIDRAFT_ABI_LATER                                                                                    \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__AVX512BF16__, _bf16), MULTIDRAFT_ABI_WORD(__AVX512FP16__, _fp16), \
                        MULTIDRAFT_ABI_WORD(__AVXVNNI__, _avxvnni), MULTIDRAFT_ABI_WORD(__AVXIFMA__, _avxifma), \
                        MULTIDRAFT_ABI_WORD(__AVXVNNIINT8__, _vnniint8),                                        \
                        MULTIDRAFT_ABI_WORD(__AVXVNNIINT16__, _vnniint16),                                      \
                        MULTIDRAFT_ABI_WORD(__AVXNECONVERT__, _neconvert), MULTIDRAFT_ABI_WORD(__APX_F__, _apx))
#define MULTIDRAFT_ABI_OTHER                                                                              \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__AVX10_2__, _avx10_2), MULTIDRAFT_ABI_WORD(__FMA4__, _fma4), \
                        MULTIDRAFT_ABI_WORD(__XOP__, _xop), MULTIDRAFT_ABI_WORD(__TBM__, _tbm), , , , )

#define MULTIDRAFT_ABI_INSTRUCTIONS                                                                             \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_LEVEL, MULTIDRAFT_ABI_OF_V2, MULTIDRAFT_ABI_OF_V3, MULTIDRAFT_ABI_OF_V4, \
                        MULTIDRAFT_ABI_ICELAKE, MULTIDRAFT_ABI_LATER, MULTIDRAFT_ABI_OTHER, )

#elif defined(__aarch64__)

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
#define MULTIDRAFT_ABI_SVE_BITS MULTIDRAFT_ABI_JOIN(_bits, __ARM_FEATURE_SVE_BITS, , , , , , )
#else
#define MULTIDRAFT_ABI_SVE_BITS
#endif
#define MULTIDRAFT_ABI_VECTORS                                                                 \
    MULTIDRAFT_ABI_JOIN(MULTIDRAFT_ABI_WORD(__ARM_FEATURE_SVE, _sve), MULTIDRAFT_ABI_SVE_BITS, \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_SVE2, _sve2),                        \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_DOTPROD, _dotprod),                  \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_MATMUL_INT8, _i8mm),                 \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, _fp16),      \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, _bf16),      \
                        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_COMPLEX, _fcma))
#define MULTIDRAFT_ABI_SCALARS                                                                            \
    MULTIDRAFT_ABI_JOIN(                                                                                  \
        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_ATOMICS, _lse), MULTIDRAFT_ABI_WORD(__ARM_FEATURE_RCPC, _rcpc), \
        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_QRDMX, _rdm), MULTIDRAFT_ABI_WORD(__ARM_FEATURE_FRINT, _frint), \
        MULTIDRAFT_ABI_WORD(__ARM_FEATURE_MOPS, _mops), MULTIDRAFT_ABI_WORD(__ARM_FEATURE_CSSC, _cssc), , )
#define MULTIDRAFT_ABI_INSTRUCTIONS \
    MULTIDRAFT_ABI_JOIN(aarch64, MULTIDRAFT_ABI_VECTORS, MULTIDRAFT_ABI_SCALARS, , , , , )

#elif defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define MULTIDRAFT_ABI_INSTRUCTIONS fma
#else
#define MULTIDRAFT_ABI_INSTRUCTIONS plain
#endif

#define MULTIDRAFT_ABI                                                                                            \
    MULTIDRAFT_ABI_JOIN(v, MULTIDRAFT_VERSION_MAJOR, _, MULTIDRAFT_VERSION_MINOR, _, MULTIDRAFT_VERSION_PATCH, _, \
                        MULTIDRAFT_ABI_INSTRUCTIONS)

#endif

/// The namespace that headers of the library open: `namespace MULTIDRAFT_NAMESPACE::verify {`.
#define MULTIDRAFT_NAMESPACE multidraft::inline MULTIDRAFT_ABI
