// A kernel over rows of half in a project that adds include/ by hand, without flags of the library.
#include "multidraft/base/float16.hpp"

__global__ void widen(multidraft::float16 const* x, float* q, int n) {
    int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) q[i] = multidraft::to_real(x[i]);
}
