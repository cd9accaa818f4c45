// The launches compile without warnings in a project that adds include/ by hand, without flags of the library.
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traversal.hpp"

namespace mc = multidraft::cuda;
using multidraft::float16;
namespace law = multidraft::law;
namespace verify = multidraft::verify;

namespace md = multidraft;

struct batch {
    md::workspace scratch;
    cudaStream_t stream;
    md::tree_batch trees;
    md::request_batch requests;
    md::verdict_batch out;
};

template <class Verifier, class Draft>
cudaError_t check(batch const& b, md::logit_batch<float16> const& p, Draft const& q) {
    return md::verify_batch(mc::on(b.stream), Verifier{}, md::drawn_by<typename Verifier::law>(b.trees),
                            md::target_rows(p), md::draft_rows(q), b.requests, b.out, b.scratch);
}

cudaError_t check_all(batch const& b, md::logit_batch<float16> const& p, md::logit_batch<float16> const& q,
                      md::level_batch const& level, md::children_batch const& out, md::validation_report* report) {
    if (cudaError_t const e = md::draft_batch(mc::on(b.stream), md::draft::conditional_poisson{}, level,
                                              md::draft_rows(q), b.requests, out, b.scratch))
        return e;
    if (cudaError_t const e =
            md::validate_batch(mc::on(b.stream), md::tree_rules{}, md::drawn_by<law::conditional_poisson>(b.trees),
                               md::target_rows(p), md::draft_rows(q), b.requests, report))
        return e;
    if (cudaError_t const e = check<verify::recursive_rejection<law::sequential>>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::traversal<law::sequential>>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::multi_path_block>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::shared_randomness>(b, p, verify::no_draft_rows{})) return e;
    if (cudaError_t const e = check<verify::k_seq<law::iid>>(b, p, q)) return e;
    return check<verify::nested_ranked_block<law::stratified>>(b, p, q);
}
