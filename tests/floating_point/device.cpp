// A rounded product that a sum follows, and a plain one, for clang's device compilers without their headers.
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __forceinline__ inline __attribute__((always_inline))
static __device__ inline float fmaf(float a, float b, float c) noexcept { return __builtin_fmaf(a, b, c); }
static __device__ inline double fma(double a, double b, double c) noexcept { return __builtin_fma(a, b, c); }
static __device__ inline float __fdiv_rn(float a, float b) noexcept { return a / b; }
static __device__ inline double __ddiv_rn(double a, double b) noexcept { return a / b; }
#define _GLIBCXX_CMATH 1  // the host's <cmath> is not for devices

#include "multidraft/base/fma.hpp"

extern "C" __global__ void rounded_float(float const* a, float const* b, float* c) {
    *c += multidraft::fp::mul(*a, *b);
}
extern "C" __global__ void rounded_double(double const* a, double const* b, double* c) {
    *c += multidraft::fp::mul(*a, *b);
}
extern "C" __global__ void plain_float(float const* a, float const* b, float* c) { *c += *a * *b; }
