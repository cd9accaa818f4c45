// A team of host threads with the interface of a Kokkos team, for Kokkos builds without threads.
#pragma once

#include <Kokkos_Core.hpp>
#include <barrier>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "multidraft/base/abi.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The part of a TeamPolicy member that the groups use.
class emulated_member {
public:
    using execution_space = Kokkos::DefaultHostExecutionSpace;

    struct scratch {
        std::byte* memory;
        [[nodiscard]] void* get_shmem_aligned(std::size_t, std::ptrdiff_t) const { return memory; }
    };

    emulated_member(int rank, int size, std::barrier<>& barrier, std::byte* bytes)
        : barrier_(&barrier), memory_(bytes), rank_(rank), size_(size) {}

    [[nodiscard]] int team_rank() const { return rank_; }
    [[nodiscard]] int team_size() const { return size_; }
    void team_barrier() const { barrier_->arrive_and_wait(); }
    [[nodiscard]] scratch team_scratch(int) const { return {memory_}; }

private:
    std::barrier<>* barrier_;
    std::byte* memory_;
    int rank_;
    int size_;
};

/// Runs `work(member)` on every member of one team.
template <class Work>
void run_team(int size, std::size_t scratch_bytes, Work const& work) {
    std::barrier<> barrier(size);
    auto const scratch = std::make_unique<double[]>(scratch_bytes / sizeof(double) + 1);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back(
            [&, rank] { work(emulated_member(rank, size, barrier, reinterpret_cast<std::byte*>(scratch.get()))); });
    for (std::thread& t : threads) t.join();
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
