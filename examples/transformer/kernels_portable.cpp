// The loops of kernels.hpp by vectors of four numbers, for CPUs without the instructions of the other files.
#include "transformer/kernel_loops.hpp"
#include "transformer/kernel_table.hpp"

namespace multidraft::examples::kernels {
loops const* const portable_loops = &compiled_loops;
}  // namespace multidraft::examples::kernels
