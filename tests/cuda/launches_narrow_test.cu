// Launches over bfloat16 and half logits and over probabilities, and verifiers of whole trees with their scratch.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/launches.cuh"
#include "cuda/on_device.cuh"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verifier.hpp"

// nvcc warns of uncalled functions without linkage, such as those that only a concept uses.
namespace cuda_launches_narrow_test {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using multidraft::testing::cuda_device;
using multidraft::testing::how;
using verifier = verify::recursive_rejection<law::sequential>;

TEST_F(cuda_device, bfloat16_steps_are_those_of_the_host) {
    auto const expect = [](index_t vocabulary, sampling_params const& w, mc::launch_options const& options = {}) {
        mt::expect_step<bfloat16, draft::sequential, verifier>(vocabulary, w, true, options, how::at_once);
    };
    for (index_t const n : {4999, 32000, 128256}) expect(n, {});
    expect(32000, {.temperature = 0.7F, .top_p = 0.9F});
    expect(152064, {}, {.max_cluster = 1});
}

// `float16` has the bytes of `__half`: rows of one type are read through pointers to the other.
TEST_F(cuda_device, half_steps_are_those_of_the_host) {
    for (index_t const n : {4999, 32000})
        mt::expect_step<multidraft::float16, draft::sequential, verifier>(n, {}, true, {}, how::at_once);
    mt::expect_step<multidraft::float16, draft::sequential, verifier>(32000, {.temperature = 0.7F, .top_p = 0.9F},
                                                                      false, {}, how::at_once);
}

/// Writes a mark per node to scratch, and descends: a node's mark chooses its child, a mark of 0 ends the path.
struct marking {
    using law = multidraft::law::sequential;
    static constexpr multidraft::verify::verifier_traits traits{.lossless = false, .reads_draft = false};
    MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t) {
        return static_cast<std::size_t>(nodes) * sizeof(std::int32_t);
    }
    template <group G, draft_law Law, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict operator()(G const& g, drafted<Law> const& tree, target_rows<Target> const& rows,
                                     draft_rows<Draft> const&, Source& source, std::int32_t position,
                                     span<node_id> path, span<std::byte> scratch) const {
        auto const& target = rows.rows;
        auto* const marks = reinterpret_cast<std::int32_t*>(scratch.data());
        for (node_id v = 0; v < tree.tree.size(); ++v) {
            auto const p = target(g, v);
            index_t const best = g.argmax(p.size(), weight_of{p});
            if (g.leader()) marks[v] = best % 5;
        }
        g.barrier();
        verdict result;
        node_id node = 0;
        for (auto children = tree.tree.children(0); !children.empty() && marks[node] != 0;
             children = tree.tree.children(node)) {
            node = children.first + marks[node] % children.count;
            if (g.leader()) path[static_cast<std::size_t>(result.accepted)] = node;
            ++result.accepted;
        }
        g.barrier();
        result.next = verify::emit(g, target(g, node), source, draw_site{position, node});
        return result;
    }
};

static_assert(!marking::traits.lossless && !marking::traits.reads_draft && verify::needs_scratch<marking>);

// Rows of probabilities; scratch for each request, and the token `none` if there is too little.
TEST_F(cuda_device, whole_trees_are_verified_in_scratch_from_probabilities) {
    mt::batch<float> host(5001, {});
    for (std::size_t r = 0; r < host.parents.size(); ++r) {
        double sum = 0;
        float* const row = host.target.data() + r * 5001;
        for (std::size_t i = 0; i < 5001; ++i) sum += static_cast<double>(row[i] = fp::exp(row[i]));
        for (std::size_t i = 0; i < 5001; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / sum);
    }
    mt::device_batch<float> const device(host);
    mt::verdicts expected(host.size(), host.path_stride);
    std::vector<std::byte> memory(1024);
    target_rows const rows(probability_batch<float>{host.target.data(), 5001, 5001});
    draft_rows const nothing(verify::no_draft_rows{});
    for (std::int32_t b = 0; b < host.size(); ++b)
        multidraft::detail::verify_request(mt::silent_group{}, marking{}, b, drawn_by<law::sequential>(host.trees()),
                                           rows, nothing, host.requests(), expected.view(), span<std::byte>(memory));
    mt::on_device<node_id> const path(expected.path.size());
    mt::on_device<std::int32_t> const accepted(expected.accepted.size());
    mt::on_device<token_id> const next(expected.next.size());
    auto const size = verify_workspace_size<marking>(mc::on(nullptr), host.size(), 10, 6);
    mt::on_device<std::byte> const lent(size);
    auto const run = [&](tree_batch const& trees, std::size_t bytes) {
        return verify_batch(mc::on(nullptr), marking{}, drawn_by<law::sequential>(trees),
                            target_rows(probability_batch<float>{device.target.data(), 5001, 5001}), nothing,
                            device.requests(), {path.data(), host.path_stride, accepted.data(), next.data()},
                            {lent.data(), bytes});
    };
    EXPECT_EQ(run(device.trees(), 4 * 48 - 1), cudaErrorInvalidValue);
    tree_batch untold = device.trees();
    untold.largest = 0;
    EXPECT_EQ(run(untold, size), cudaErrorInvalidValue);
    EXPECT_CUDA(run(device.trees(), size));
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(accepted.host(), expected.accepted);
    EXPECT_EQ(next.host(), expected.next);
}

}  // namespace cuda_launches_narrow_test
