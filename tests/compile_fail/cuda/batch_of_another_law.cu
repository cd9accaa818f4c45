// expect: the tree was drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// Most likely tokens do not go into recursive rejection.
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

cudaError_t verify_it(md::tree_batch const& trees, md::request_batch const& requests, md::logit_batch<float> const& p,
                      md::logit_batch<float> const& q, md::verdict_batch const& out) {
    return md::verify_batch(md::cuda::on(nullptr), md::verify::recursive_rejection<md::law::sequential>{},
                            md::drawn_by<md::draft::top_n::law>(trees), md::target_rows(p), md::draft_rows(q), requests,
                            out);
}
