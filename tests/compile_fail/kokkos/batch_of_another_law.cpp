// expect: the trees were drawn by another law than this verifier is for.*drawn_by<Sampler::law>
// Most likely tokens do not go into recursive rejection.
#include "multidraft/draft/top_n.hpp"
#include "multidraft/kokkos/batch.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

using namespace multidraft;
using space = Kokkos::DefaultHostExecutionSpace;
using memory = space::memory_space;
using rows = Kokkos::View<float**, Kokkos::LayoutRight, memory>;

void verify_them(kokkos::tree_batch<memory> const& trees, kokkos::logit_batch<rows> const& target,
                 kokkos::logit_batch<rows> const& draft, kokkos::draw_batch<memory> const& draws,
                 kokkos::verdict_batch<memory> const& out) {
    kokkos::verify_trees<verify::recursive_rejection<law::sequential>>(
        space(), kokkos::drawn_by<draft::top_n::law>(trees), target, draft, draws, out);
}
