// Programs of `group_programs.hpp` run by a group on the device, every thread against the host group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/on_device.cuh"
#include "multidraft/cuda/device_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/group/host_group.hpp"
#include "support/group_programs.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

template <class Group>
inline constexpr bool is_grid = Group::lanes_type::exchange != cuda::rank_exchange::shared_memory;

/// Every thread of a group records its results; thread k of all ranks writes at `out + k * capacity`.
template <class Program, class Group, class T, class Layout>
__global__ void __launch_bounds__(256, 1)
    program_kernel(program_input<T, Layout> in, std::uint64_t* out, int* counts, std::byte* memory, int ranks) {
    __shared__ typename Group::storage shared;
    auto const k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    recorder record(out + std::int64_t{k} * recorder::capacity);
    if constexpr (is_grid<Group>) {
        using memory_type = cuda::grid_memory<typename Group::storage>;
        memory_type const place{memory, memory + memory_type::cleared_bytes};
        Group const g({0, static_cast<int>(blockIdx.x), ranks, shared, place}, shared);
        Program{}(g, in, record);
    } else {
        Group const g({}, shared);
        Program{}(g, in, record);
    }
    counts[k] = record.size();
}

template <class Program, class Group, class T, class Layout>
void expect_parity(index_t n, int ranks, sampling_params const& w = {}) {
    auto const p = random_logits<T>(n, static_cast<std::uint64_t>(n));
    auto q = p;  // models that agree on two thirds
    auto const other = random_logits<T>(n, static_cast<std::uint64_t>(n) + 1);
    for (std::size_t i = 0; i < q.size(); i += 3) q[i] = other[i];
    q[static_cast<std::size_t>(n) / 2] = T(0.5F);
    token_id tokens[64] = {};
    node_id path[16] = {};
    alignas(16) std::byte scratch[tree_program_scratch] = {};
    std::vector<std::uint64_t> expected(recorder::capacity);
    recorder record(expected.data());
    Program{}(host_group{},
              program_input<T, Layout>{row_view<T, Layout>(p.data(), n), row_view<T, Layout>(q.data(), n), w, 1, tokens,
                                       path, scratch},
              record);
    expected.resize(static_cast<std::size_t>(record.size()));
    ASSERT_LE(record.size(), recorder::capacity);

    on_device<T> const dp(p), dq(q);
    on_device<token_id> const dtokens(64);
    on_device<node_id> const dpath(16);
    on_device<std::byte> const dscratch(tree_program_scratch);
    auto const all = static_cast<std::size_t>(ranks * Group::threads);
    on_device<std::uint64_t> const out(all * recorder::capacity);
    on_device<int> const counts(all);
    on_device<std::byte> const memory(cuda::grid_memory<typename Group::storage>::bytes(1));
    program_input<T, Layout> const in{row_view<T, Layout>(dp.data(), n),
                                      row_view<T, Layout>(dq.data(), n),
                                      w,
                                      1,
                                      dtokens.data(),
                                      dpath.data(),
                                      dscratch.data()};
    cuda::detail::shape const of_launch{ranks, true, is_grid<Group>};
    EXPECT_CUDA(cuda::detail::launch(program_kernel<Program, Group, T, Layout>, 1, of_launch, Group::threads, nullptr,
                                     in, out.data(), counts.data(), memory.data(), ranks));
    EXPECT_CUDA(cudaDeviceSynchronize());
    auto const got = out.host();
    auto const sizes = counts.host();
    for (std::size_t k = 0; k < all; ++k) {
        ASSERT_EQ(static_cast<std::size_t>(sizes[k]), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(got[k * recorder::capacity + i], expected[i])
                << "V " << n << " ranks " << ranks << " thread " << k << " result " << i;
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
