// expect: the trees were drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// What a device's threads do with one request, on the host: most likely tokens do not go into recursive rejection.
#include "multidraft/core/host_group.hpp"
#include "multidraft/cuda/verify_tree.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;

void verify_it(cuda::tree_batch const& trees, cuda::request_batch const& requests, cuda::logits<float> const& rows,
               cuda::verdict_batch const& out) {
    cuda::verify_request<contiguous>(host_group{}, verify::recursive_rejection<law::sequential>{}, 0,
                                     cuda::drawn_by<draft::top_n::law>(trees), requests, rows, rows, 300, out);
}
