// expect: no matching function for call to .verify_trees
// Nor do trees that say nothing of how they were drawn.
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
    kokkos::verify_trees<verify::recursive_rejection<law::sequential>>(space(), trees, target, draft, draws, out);
}
