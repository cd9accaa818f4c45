// Deliberate faults: comparing with the host must find each of them in at least one order of lanes.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/on_device.cuh"
#include "launches/runtime/standin.hpp"
#include "multidraft/cuda/device_group.cuh"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_view.hpp"

namespace faults_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::on_device;
using standin::order;

constexpr index_t vocabulary = 9000;
constexpr unsigned most = 4;  // blocks

/// Results of the reductions over a row, as seen by one lane.
template <class G>
void measure(G const& g, row_view<float> const& x, std::uint64_t* out) {
    auto const soft = g.softmax(x.size(), x, 1.0F);
    out[0] = __builtin_bit_cast(std::uint32_t, soft.largest);
    out[1] = __builtin_bit_cast(std::uint32_t, static_cast<float>(soft.sums.total));
    out[2] = static_cast<std::uint64_t>(g.argmax(x.size(), x));
    out[3] = __builtin_bit_cast(std::uint32_t, g.max(x.size(), x));
}

template <class Lanes>
__global__ void measure_kernel(row_view<float> x, std::uint64_t* out) {
    using group_type = mc::simt_group<Lanes, 2>;
    __shared__ typename group_type::storage shared;
    group_type const g({}, shared);
    measure(g, x, out + (blockIdx.x * blockDim.x + threadIdx.x) * 4);
}

using memory_type = mc::grid_memory<mc::detail::wide_storage>;

__global__ void measure_grid_kernel(row_view<float> x, std::uint64_t* out, memory_type memory, int ranks) {
    __shared__ mc::detail::wide_storage shared;
    mc::grid_group<256, mc::detail::short_split> const g({0, static_cast<int>(blockIdx.x), ranks, shared, memory},
                                                         shared);
    measure(g, x, out + (blockIdx.x * blockDim.x + threadIdx.x) * 4);
}

/// Lanes of a block without barriers.
struct hasty_block : mc::block_lanes<256> {
    void sync() const {}
};
/// Blocks of a cluster whose barrier covers their own lanes only.
struct hasty_cluster : mc::cluster_lanes<256> {
    void sync_all() const { sync(); }
};

class faults : public cuda_device {
protected:
    /// Whether, in some order of lanes, results differ from the host's or the launch fails.
    template <class Launch>
    [[nodiscard]] bool is_found(Launch const& launch) {
        auto const row = mt::random_logits<float>(vocabulary, 5);
        std::vector<std::uint64_t> expected(4);
        measure(host_group{}, row_view<float>(row.data(), vocabulary), expected.data());
        on_device<float> const x(row);
        bool found = false;
        for (order const o : {order::first_come, order::last_come, order::warp_by_warp, order::random}) {
            standin::set_order(o, 11);
            on_device<std::uint64_t> const out(std::size_t{most} * 256 * 4);
            mc::detail::shape const s = launch(row_view<float>(x.data(), vocabulary), out.data());
            if (cudaDeviceSynchronize() != cudaSuccess) {
                standin::reset(standin::h200());
                found = true;
                continue;
            }
            auto const got = out.host();
            for (std::size_t k = 0; k < static_cast<std::size_t>(s.ranks) * 256 * 4; ++k)
                found = found || got[k] != expected[k % 4];
        }
        return found;
    }

    template <class Lanes>
    [[nodiscard]] bool is_found_with(int ranks) {
        return is_found([ranks](row_view<float> const& x, std::uint64_t* out) {
            mc::detail::shape const s{ranks, true, false};
            EXPECT_EQ(mc::detail::launch(measure_kernel<Lanes>, 1, s, 256, nullptr, x, out), cudaSuccess);
            return s;
        });
    }

    /// `begins` is the offset of the mirrors from the counters, in bytes.
    [[nodiscard]] bool is_found_on_grid(std::size_t begins, bool cleared) {
        on_device<std::byte> const memory(memory_type::bytes(1));
        // As an earlier launch might leave it.
        EXPECT_EQ(cudaMemset(memory.data(), 0x11, memory.size()), cudaSuccess);
        return is_found([&](row_view<float> const& x, std::uint64_t* out) {
            mc::detail::shape const s{3, true, true};
            memory_type parts = memory_type::at(memory.data(), 1);
            parts.mirrors = parts.cleared + begins;
            EXPECT_EQ(cleared ? parts.clear(1, nullptr) : cudaSuccess, cudaSuccess);
            EXPECT_EQ(mc::detail::launch(measure_grid_kernel, 1, s, 256, nullptr, x, out, parts, 3), cudaSuccess);
            return s;
        });
    }
};

TEST_F(faults, missing_barriers_are_found) {
    EXPECT_FALSE(is_found_with<mc::block_lanes<256>>(1));
    EXPECT_TRUE(is_found_with<hasty_block>(1));
    EXPECT_FALSE(is_found_with<mc::cluster_lanes<256>>(4));
    EXPECT_TRUE(is_found_with<hasty_cluster>(4));
}

TEST_F(faults, a_wrong_slice_of_the_workspace_is_found) {
    EXPECT_FALSE(is_found_on_grid(memory_type::cleared_bytes, true));
    EXPECT_TRUE(is_found_on_grid(0, true)) << "counters and mirrors overlap";
    EXPECT_TRUE(is_found_on_grid(memory_type::cleared_bytes, false)) << "counters of an earlier launch";
}

}  // namespace
}  // namespace faults_test
