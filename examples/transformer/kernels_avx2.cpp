// The loops of kernels.hpp by AVX2 and FMA.
#include "transformer/kernel_table.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include "transformer/kernel_loops.hpp"

namespace multidraft::examples::kernels {
loops const* const avx2_loops = &compiled_loops;
}  // namespace multidraft::examples::kernels

#else
namespace multidraft::examples::kernels {
loops const* const avx2_loops = nullptr;
}  // namespace multidraft::examples::kernels
#endif
