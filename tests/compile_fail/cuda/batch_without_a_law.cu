// expect: no instance of function template "multidraft::(\w+::)?cuda::verify" matches
// Nor do trees that say nothing of how they were drawn.
#include "multidraft/cuda/verify.cuh"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;
namespace mc = multidraft::cuda;

cudaError_t verify_it(mc::tree_batch const& trees, mc::request_batch const& requests, mc::logits<float> const& rows,
                      mc::verdict_batch const& out) {
    return mc::verify(nullptr, 0, nullptr, md::verify::recursive_rejection<md::law::sequential>{}, trees, requests,
                      rows, rows, 300, out);
}
