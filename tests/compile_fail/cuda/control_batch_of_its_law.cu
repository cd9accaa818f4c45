// expect: ok
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"

namespace md = multidraft;

cudaError_t verify_it(md::tree_batch const& trees, md::request_batch const& requests, md::logit_batch<float> const& p,
                      md::logit_batch<float> const& q, md::verdict_batch const& out) {
    if (cudaError_t const e = md::verify_batch(md::cuda::on(nullptr), md::verify::naive<md::law::deterministic>{},
                                               md::drawn_by<md::draft::top_n::law>(trees), md::target_rows(p),
                                               md::draft_rows(q), requests, out))
        return e;
    return md::verify_batch(md::cuda::on(nullptr), md::verify::naive<md::law::deterministic>{},
                            md::drawn_by<md::draft::top_n::law>(trees), md::target_rows(p),
                            md::draft_rows(md::verify::no_draft_rows{}), requests, out);
}
