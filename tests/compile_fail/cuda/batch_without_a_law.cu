// expect: no instance of (overloaded )?function( template)? "multidraft::.*verify_batch" matches
// Nor do trees without a law.
#include "multidraft/cuda/verify.cuh"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

cudaError_t verify_it(md::tree_batch const& trees, md::request_batch const& requests, md::logit_batch<float> const& p,
                      md::logit_batch<float> const& q, md::verdict_batch const& out) {
    return md::verify_batch(md::cuda::on(nullptr), md::verify::recursive_rejection<md::law::sequential>{}, trees,
                            md::target_rows(p), md::draft_rows(q), requests, out);
}
