// Loops over whole rows, one a function with all that it calls, for check.py: compiled, never run.
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/verify/residual.hpp"

using namespace multidraft;

namespace {

template <class T>
using row = softmax_row<row_view<T>>;

template <class P, class Q>
float residual_mass(P const& p, Q const& q, float c) {
    return host_group{}.sum_chunks(p.size(), verify::residual{p, q, c}).total;
}

}  // namespace

extern "C" {

[[gnu::flatten]] float normaliser(float const* x, index_t n, float scale) {
    return host_group{}.softmax(n, row_view<float>(x, n), scale).sums.total;
}
[[gnu::flatten]] float residual_of_logits(row<float> const& p, row<float> const& q, float c) {
    return residual_mass(p, q, c);
}
[[gnu::flatten]] float residual_of_bfloat16(row<bfloat16> const& p, row<bfloat16> const& q, float c) {
    return residual_mass(p, q, c);
}
[[gnu::flatten]] float residual_of_float16(row<float16> const& p, row<float16> const& q, float c) {
    return residual_mass(p, q, c);
}
[[gnu::flatten]] float residual_of_path(row<float> const& p, row<float> const& q, float w) {
    return host_group{}.sum_chunks(p.size(), verify::residual_of_path(p, q, w)).total;
}
[[gnu::flatten]] float residual_of_probabilities(float const* p, float const* q, index_t n, float c) {
    return residual_mass(probabilities<float>(p, n), probabilities<float>(q, n), c);
}
}
