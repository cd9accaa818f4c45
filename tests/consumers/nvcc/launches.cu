// The launches, as somebody compiles them who adds include/ by hand and no flag of ours: without a warning.
#include "multidraft/cuda/draft.cuh"
#include "multidraft/cuda/validate.cuh"
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
using multidraft::half;
namespace law = multidraft::law;
namespace verify = multidraft::verify;

struct batch {
    void* workspace;
    std::size_t bytes;
    cudaStream_t stream;
    mc::tree_batch trees;
    mc::request_batch requests;
    multidraft::index_t vocabulary;
    mc::verdict_batch out;
};

template <class Verifier, class Draft>
cudaError_t check(batch const& b, mc::logits<half> const& p, Draft const& q) {
    return mc::verify(b.workspace, b.bytes, b.stream, Verifier{}, mc::drawn_by<typename Verifier::law>(b.trees),
                      b.requests, p, q, b.vocabulary, b.out);
}

cudaError_t check_all(batch const& b, mc::logits<half> const& p, mc::logits<half> const& q,
                      mc::draft_batch const& level, mc::validation_report* report) {
    if (cudaError_t const e = mc::draft(b.workspace, b.bytes, b.stream, multidraft::draft::conditional_poisson{}, level,
                                        b.requests, q, b.vocabulary))
        return e;
    if (cudaError_t const e =
            mc::validate(b.workspace, b.bytes, b.stream, mc::drawn_by<law::conditional_poisson>(b.trees), 1, b.requests,
                         p, q, b.vocabulary, report))
        return e;
    if (cudaError_t const e = check<verify::recursive_rejection<law::sequential>>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::traversal<law::sequential>>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::multi_path_block>(b, p, q)) return e;
    if (cudaError_t const e = check<verify::shared_randomness>(b, p, mc::no_draft_rows{})) return e;
    if (cudaError_t const e = check<verify::k_seq<law::iid>>(b, p, q)) return e;
    return check<verify::nested_ranked_block<law::stratified>>(b, p, q);
}
