// expect: ok
#include "multidraft/draft/top_n.hpp"
#include "multidraft/kokkos/batch.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/verify/naive.hpp"

using namespace multidraft;
using space = Kokkos::DefaultHostExecutionSpace;
using memory = space::memory_space;
using rows = Kokkos::View<float**, Kokkos::LayoutRight, memory>;

void verify_them(kokkos::tree_batch<memory> const& trees, kokkos::logit_batch<rows> const& target,
                 kokkos::draw_batch<memory> const& draws, kokkos::verdict_batch<memory> const& out) {
    kokkos::verify_trees<verify::naive<law::deterministic>>(space(), kokkos::drawn_by<draft::top_n::law>(trees), target,
                                                            kokkos::no_draft_rows{}, draws, out);
}
