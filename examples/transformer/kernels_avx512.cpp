// The loops of kernels.hpp by AVX-512.
#include "transformer/kernel_table.hpp"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "transformer/kernel_loops.hpp"

namespace multidraft::examples::kernels {
loops const* const avx512_loops = &compiled_loops;
}  // namespace multidraft::examples::kernels

#else
namespace multidraft::examples::kernels {
loops const* const avx512_loops = nullptr;
}  // namespace multidraft::examples::kernels
#endif
