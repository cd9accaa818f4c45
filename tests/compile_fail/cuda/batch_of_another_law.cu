// expect: the trees were drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// Most likely tokens do not go into recursive rejection.
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;
namespace mc = multidraft::cuda;

cudaError_t verify_it(mc::tree_batch const& trees, mc::request_batch const& requests, mc::logits<float> const& rows,
                      mc::verdict_batch const& out) {
    return mc::verify(nullptr, 0, nullptr, md::verify::recursive_rejection<md::law::sequential>{},
                      mc::drawn_by<md::draft::top_n::law>(trees), requests, rows, rows, 300, out);
}
