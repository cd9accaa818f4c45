// CUDA groups and launches on a device, bit for bit against the host. Skipped where there is no device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/cluster_group.cuh"
#include "multidraft/cuda/compact.cuh"
#include "multidraft/cuda/draft.cuh"
#include "multidraft/cuda/mask.cuh"
#include "multidraft/cuda/validate.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/batches.hpp"
#include "support/group_programs.hpp"
#include "support/test_numbers.hpp"

namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;

#define EXPECT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

/// An array on the device with the contents of one on the host.
template <class T>
class on_device {
public:
    explicit on_device(std::vector<T> const& host) : size_(host.size()) {
        if (cudaMalloc(&data_, (size_ + 1) * sizeof(T)) != cudaSuccess) data_ = nullptr;
        EXPECT_NE(data_, nullptr);
        EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    }
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() { static_cast<void>(cudaFree(data_)); }

    [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
    [[nodiscard]] std::vector<T> host() const {
        std::vector<T> result(size_);
        EXPECT_EQ(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
        return result;
    }

private:
    void* data_ = nullptr;
    std::size_t size_;
};

class cuda_device : public ::testing::Test {
protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
        if (!has_fma) GTEST_SKIP() << "without FMA on the host there is no parity";
    }
};

// --- Groups ------------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> random_logits(index_t n, std::uint64_t seed) {
    mt::test_numbers numbers(seed);
    std::vector<T> row;
    for (index_t i = 0; i < n; ++i) {
        double const u = numbers();
        double const v = u < 0.1 ? -std::numeric_limits<double>::infinity() : u > 0.9 ? 1.25 : 4 * numbers.normal();
        row.push_back(T(static_cast<float>(v)));
    }
    row[static_cast<std::size_t>(n) / 2] = T(0.5F);
    return row;
}

/// Every thread of a group records what it gets; thread k of all ranks at `out + k * capacity`.
template <class Group, class Layout>
__global__ void __launch_bounds__(256, 1)
    operations_kernel(mt::program_input<float, Layout> in, std::uint64_t* out, int* counts) {
    __shared__ typename Group::storage shared;
    Group const g({}, shared);
    auto const k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    mt::recorder record(out + std::int64_t{k} * mt::recorder::capacity);
    mt::run_operations(g, in, record);
    counts[k] = record.size();
}

template <class Group, class Layout>
void expect_operations(index_t n, int ranks) {
    auto const p = random_logits<float>(n, static_cast<std::uint64_t>(n));
    auto const q = random_logits<float>(n, static_cast<std::uint64_t>(n) + 1);
    token_id tokens[64] = {};
    node_id path[16] = {};
    std::vector<std::uint64_t> expected(mt::recorder::capacity);
    mt::recorder record(expected.data());
    mt::run_operations(host_group{},
                       mt::program_input<float, Layout>{row_view<float, Layout>(p.data(), n),
                                                        row_view<float, Layout>(q.data(), n), warp{}, 1, tokens, path},
                       record);
    expected.resize(static_cast<std::size_t>(record.size()));

    on_device<float> const dp(p), dq(q);
    on_device<token_id> const dtokens(std::vector<token_id>(64));
    on_device<node_id> const dpath(std::vector<node_id>(16));
    auto const all = static_cast<std::size_t>(ranks * Group::threads);
    on_device<std::uint64_t> const out(std::vector<std::uint64_t>(all * mt::recorder::capacity));
    on_device<int> const counts(std::vector<int>(all, 0));
    mt::program_input<float, Layout> const in{row_view<float, Layout>(dp.data(), n),
                                              row_view<float, Layout>(dq.data(), n),
                                              warp{},
                                              1,
                                              dtokens.data(),
                                              dpath.data()};
    EXPECT_CUDA(mc::detail::launch(operations_kernel<Group, Layout>, 1, ranks, Group::threads, nullptr, in, out.data(),
                                   counts.data()));
    EXPECT_CUDA(cudaDeviceSynchronize());
    auto const got = out.host();
    auto const sizes = counts.host();
    for (std::size_t k = 0; k < all; ++k) {
        ASSERT_EQ(static_cast<std::size_t>(sizes[k]), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(got[k * mt::recorder::capacity + i], expected[i])
                << "V " << n << " thread " << k << " result " << i;
    }
}

TEST_F(cuda_device, operations_of_a_block_have_the_bits_of_the_host_group) {
    for (index_t const n : {1, 31, 255, 257, 4095, 4097, 32000, 128256})
        expect_operations<mc::block_group<256, 1>, contiguous>(n, 1);
}

TEST_F(cuda_device, operations_of_a_cluster_have_the_bits_of_the_host_group) {
    int has_clusters = 0;
    EXPECT_CUDA(cudaDeviceGetAttribute(&has_clusters, cudaDevAttrClusterLaunch, 0));
    for (index_t const n : {1, 4097, 32000, 128256})
        for (int const ranks : {1, 2, 8}) {
            if (ranks > 1 && has_clusters == 0) continue;
            expect_operations<mc::cluster_group<256, 4>, aligned<16>>(n, ranks);
        }
}

// --- Launches ----------------------------------------------------------------------------------------------------

/// A batch on the device.
template <class T>
struct device_batch {
    explicit device_batch(mt::batch<T> const& b)
        : offsets(b.offsets),
          parents(b.parents),
          tokens(b.tokens),
          states(b.states),
          target(b.target),
          draft(b.draft),
          seeds(b.seeds),
          ids(b.ids),
          positions(b.positions),
          size(b.size()),
          vocabulary(b.vocabulary),
          w(b.w) {}

    [[nodiscard]] mc::tree_batch trees() const { return {size, offsets.data(), parents.data(), tokens.data()}; }
    [[nodiscard]] mc::request_batch requests() const {
        return {seeds.data(), ids.data(), positions.data(), nullptr, w};
    }

    on_device<std::int64_t> offsets;
    on_device<node_id> parents;
    on_device<token_id> tokens;
    on_device<mc::row_state> states;
    on_device<T> target, draft;
    on_device<std::uint64_t> seeds;
    on_device<std::uint32_t> ids;
    on_device<std::int32_t> positions;
    std::int32_t size;
    index_t vocabulary;
    warp w;
};

using verifier = verify::recursive_rejection<law::sequential>;

template <class T>
void draft_and_verify(index_t vocabulary, warp w, bool captured) {
    mt::batch<T> host(vocabulary, w);
    device_batch<T> const device(host);
    auto const blank = host;
    host.draft_on_host(draft::sequential{});
    auto const expected = host.verify_on_host(verifier{});

    // The draft's rows of a level, gathered as an engine's batch has them.
    struct level {
        on_device<std::int32_t> request, wanted;
        on_device<node_id> nodes;
        on_device<std::int64_t> first, row;
        on_device<T> logits;
        std::int32_t entries;
    };
    std::vector<std::unique_ptr<level>> levels;
    for (std::int32_t depth = 0; depth < blank.levels().deepest; ++depth) {
        auto const l = blank.level_arrays(depth);
        std::vector<T> rows;
        for (std::int64_t const r : l.row)
            rows.insert(rows.end(), blank.draft.begin() + r * vocabulary, blank.draft.begin() + (r + 1) * vocabulary);
        levels.push_back(std::unique_ptr<level>(
            new level{on_device<std::int32_t>(l.request), on_device<std::int32_t>(l.wanted),
                      on_device<node_id>(l.nodes), on_device<std::int64_t>(l.first), on_device<std::int64_t>(l.row),
                      on_device<T>(rows), static_cast<std::int32_t>(l.request.size())}));
    }
    mt::verdicts got(host.size(), host.path_stride);
    on_device<node_id> const path(got.path);
    on_device<std::int32_t> const accepted(got.accepted);
    on_device<token_id> const next(got.next);

    cudaStream_t stream = nullptr;
    EXPECT_CUDA(cudaStreamCreate(&stream));
    if (captured) EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (auto const& l : levels) {
        mc::draft_batch const batch{l->entries,      l->request.data(),    l->nodes.data(),
                                    l->first.data(), l->wanted.data(),     device.tokens.data(),
                                    nullptr,         device.states.data(), l->row.data()};
        EXPECT_CUDA(mc::draft(nullptr, 0, stream, draft::sequential{}, batch, device.requests(),
                              mc::logits<T>{l->logits.data(), vocabulary}, vocabulary));
    }
    EXPECT_CUDA(mc::verify(nullptr, 0, stream, verifier{}, device.trees(), device.requests(),
                           mc::logits<T>{device.target.data(), vocabulary},
                           mc::prepared<T>{device.draft.data(), vocabulary, device.states.data()}, vocabulary,
                           mc::verdict_batch{path.data(), host.path_stride, accepted.data(), next.data()}));
    if (captured) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
        EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
        EXPECT_CUDA(cudaGraphLaunch(executable, stream));
        EXPECT_CUDA(cudaGraphLaunch(executable, stream));  // the same again
        EXPECT_CUDA(cudaStreamSynchronize(stream));
        EXPECT_CUDA(cudaGraphExecDestroy(executable));
        EXPECT_CUDA(cudaGraphDestroy(graph));
    }
    EXPECT_CUDA(cudaStreamSynchronize(stream));
    EXPECT_CUDA(cudaStreamDestroy(stream));

    EXPECT_EQ(device.tokens.host(), host.tokens);
    EXPECT_EQ(accepted.host(), expected.accepted);
    EXPECT_EQ(next.host(), expected.next);
    got.path = path.host();
    for (std::int32_t b = 0; b < host.size(); ++b)
        for (std::int32_t k = 0; k < expected.accepted[static_cast<std::size_t>(b)]; ++k)
            EXPECT_EQ(got.node(b, k), expected.node(b, k));
}

TEST_F(cuda_device, drafts_and_verifies_as_the_host_does) {
    for (index_t const n : {301, 5000, 32000, 128256}) draft_and_verify<float>(n, {}, false);
    draft_and_verify<float>(32000, {.temperature = 0.7F, .top_k = 40, .top_p = 0.9F}, false);
    draft_and_verify<float>(5000, {.temperature = 0.0F}, false);
    draft_and_verify<bfloat16>(32000, {.min_p = 0.02F}, false);
    draft_and_verify<bfloat16>(4999, {}, false);
}

TEST_F(cuda_device, launches_are_captured_in_a_graph) { draft_and_verify<float>(32000, {}, true); }

TEST_F(cuda_device, a_validating_launch_names_the_first_fault) {
    mt::batch<float> bad(5000, {});
    bad.target[11 * 5000 + 4321] = std::numeric_limits<float>::quiet_NaN();
    bad.tokens[16] = 5000;
    device_batch<float> const device(bad);
    on_device<std::uint64_t> const workspace(std::vector<std::uint64_t>(1));
    on_device<mc::validation_report> const report(std::vector<mc::validation_report>(1));
    mc::logits<float> const target{device.target.data(), 5000};
    EXPECT_CUDA(mc::validate(workspace.data(), mc::validate_workspace_size(), nullptr, device.trees(),
                             static_cast<std::int64_t>(bad.parents.size()), device.requests(), target, mc::no_rows{},
                             5000, report.data()));
    EXPECT_CUDA(cudaDeviceSynchronize());
    mc::validation_report const r = report.host()[0];
    EXPECT_EQ(r.what, mc::checked::target);
    EXPECT_EQ(r.request, 1);
    EXPECT_EQ(r.index, 1);
    EXPECT_EQ(r.token, 4321);
    EXPECT_NE(r.value, r.value);
}

TEST_F(cuda_device, masks_are_those_of_the_host) {
    auto const trees = mt::random_trees({1, 64, 65, 300}, 3);
    auto const nodes = trees.offsets.back();
    on_device<std::int64_t> const offsets(trees.offsets);
    on_device<node_id> const parents(trees.parents);
    on_device<std::uint64_t> const words(std::vector<std::uint64_t>(static_cast<std::size_t>(nodes * 5)));
    mc::tree_batch const batch{4, offsets.data(), parents.data(), nullptr};
    EXPECT_CUDA(mc::write_masks(nullptr, batch, nodes, words.data(), 5));
    on_device<std::uint8_t> const dense(std::vector<std::uint8_t>(static_cast<std::size_t>(nodes * 320)));
    EXPECT_CUDA(mc::write_bytes(nullptr, batch, nodes, words.data(), 5, {dense.data(), 310, 320, nullptr}));
    EXPECT_CUDA(cudaDeviceSynchronize());
    auto const packed = words.host();
    auto const bytes = dense.host();
    for (std::size_t b = 0; b < 4; ++b) {
        std::int64_t const begin = trees.offsets[b];
        ancestor_mask const mask(
            span<node_id const>(trees.parents.data() + begin, static_cast<std::size_t>(trees.offsets[b + 1] - begin)));
        for (node_id i = 0; i < mask.size(); ++i)
            for (node_id j = 0; j < mask.size(); ++j) {
                bool const expected = mask.view()(i, j);
                auto const word = packed[static_cast<std::size_t>((begin + i) * 5 + j / 64)];
                ASSERT_EQ(((word >> (j % 64)) & 1U) != 0, expected);
                ASSERT_EQ(bytes[static_cast<std::size_t>((begin + i) * 320 + j)] != 0, expected);
            }
    }
}

TEST_F(cuda_device, compaction_moves_the_kept_entries) {
    std::vector<std::uint8_t> cache(2 * 16 * 48);
    std::iota(cache.begin(), cache.end(), std::uint8_t{0});
    on_device<std::uint8_t> const data(cache);
    on_device<node_id> const nodes(std::vector<node_id>{2, 3, 7, 1, 0, 0});
    on_device<std::int32_t> const counts(std::vector<std::int32_t>{3, 1});
    on_device<std::int64_t> const bases(std::vector<std::int64_t>{4, 0});
    mc::contiguous_cache layout;
    layout.data = data.data();
    layout.request_stride = 16 * 48;
    layout.entry_stride = 48;
    layout.entry_bytes = 48;
    EXPECT_CUDA(mc::compact(nullptr, layout, {2, nodes.data(), 3, counts.data(), bases.data(), 1}));
    EXPECT_CUDA(cudaDeviceSynchronize());
    auto const got = data.host();
    node_id const from[] = {0, 1, 2, 3, 4, 6, 7, 11};
    for (std::size_t t = 0; t < 8; ++t)
        for (std::size_t k = 0; k < 48; ++k)
            ASSERT_EQ(got[t * 48 + k], cache[static_cast<std::size_t>(from[t]) * 48 + k]);
}

}  // namespace
