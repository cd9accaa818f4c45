// Batches of no requests: success, without a launch and so without a device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/cuda/build_trees.cuh"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"

// nvcc warns of uncalled functions without linkage, such as those that only a concept uses.
namespace cuda_empty_test {

using namespace multidraft;
namespace mc = multidraft::cuda;

/// A minimal verifier of whole trees, quick to compile.
struct silent_verifier {
    using law = multidraft::law::iid;
    static constexpr verify::verifier_traits traits{};
    MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t) {
        return static_cast<std::size_t>(nodes);
    }
    template <class G, class Tree, class Target, class Draft, class Source>
    MULTIDRAFT_HD verdict operator()(G const&, Tree const&, target_rows<Target> const&, draft_rows<Draft> const&,
                                     Source&, std::int32_t, span<node_id>, span<std::byte>) const {
        return {};
    }
};

/// A minimal sampler.
struct silent_sampler {
    using law = multidraft::law::iid;
    template <class G, class Q, class Sums, class Source>
    MULTIDRAFT_HD drawn_children operator()(G const&, Q const&, Sums const&, Source&, draw_site, span<token_id>) const {
        return {};
    }
};

TEST(cuda_empty, batches_succeed_without_a_device) {
    tree_batch const trees;
    request_batch const requests;
    logit_batch<float> const rows;
    EXPECT_EQ(verify_batch(mc::on(nullptr), silent_verifier{}, drawn_by<law::iid>(trees), target_rows(rows),
                           draft_rows(rows), requests, {}),
              cudaSuccess);
    EXPECT_EQ(draft_batch(mc::on(nullptr), silent_sampler{}, {}, draft_rows(rows), requests, {}), cudaSuccess);
    EXPECT_EQ(write_masks(mc::on(nullptr), trees, static_cast<std::uint64_t*>(nullptr), 1), cudaSuccess);
    EXPECT_EQ(write_positions(mc::on(nullptr), trees, nullptr, static_cast<std::int32_t*>(nullptr)), cudaSuccess);
    EXPECT_EQ(write_bytes(mc::on(nullptr), trees, nullptr, 1, dense_masks<std::uint8_t>{}), cudaSuccess);
    EXPECT_EQ(compact_caches(mc::on(nullptr), contiguous_cache{}, kept_batch{}), cudaSuccess);
    EXPECT_EQ(mc::build_trees(nullptr, 0, nullptr, trees, {}), cudaSuccess);
    EXPECT_EQ(mc::write_best(nullptr, 0, nullptr, trees, nullptr, 4, nullptr), cudaSuccess);
}

}  // namespace cuda_empty_test
