// A program on every thread of an emulated cluster of `cuda::simt_group`.
#pragma once

#include <cstddef>
#include <vector>

#include "multidraft/cuda/simt_group.hpp"
#include "support/emulated_lanes.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Calls `body(group)` in every thread of an emulated cluster.
template <int Threads, int Split, class Body>
void on_group(int ranks, Body const& body) {
    using lanes = emulated_lanes<Threads>;
    using group_type = cuda::simt_group<lanes, Split>;
    using storage = typename group_type::storage;
    std::vector<storage> shared(static_cast<std::size_t>(ranks));
    simt_emulator emulator(ranks, Threads);
    emulator.run([&](int rank, int thread) {
        group_type const g(lanes(emulator, rank, thread, sizeof(storage)), shared[static_cast<std::size_t>(rank)]);
        body(g);
    });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
