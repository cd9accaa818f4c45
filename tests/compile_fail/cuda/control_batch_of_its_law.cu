// expect: ok
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"

namespace md = multidraft;
namespace mc = multidraft::cuda;

cudaError_t verify_it(mc::tree_batch const& trees, mc::request_batch const& requests, mc::logits<float> const& rows,
                      mc::verdict_batch const& out) {
    return mc::verify(nullptr, 0, nullptr, md::verify::naive<md::law::deterministic>{},
                      mc::drawn_by<md::draft::top_n::law>(trees), requests, rows, mc::no_draft_rows{}, 300, out);
}
