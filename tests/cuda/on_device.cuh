// Shared by the tests on a device: arrays there, batches, and the fixture that skips tests without one.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/base/fma.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/batches.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// n, but at most `most` if kernels run on the CPU (tests/launches), where they take longer.
[[nodiscard]] constexpr index_t on_a_cpu(index_t n, index_t most) noexcept {
#if defined(MULTIDRAFT_CUDA_STANDIN)
    return n < most ? n : most;
#else
    static_cast<void>(most);
    return n;
#endif
}

#define EXPECT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

/// An array on the device with the contents of one on the host.
template <class T>
class on_device {
public:
    explicit on_device(std::vector<T> const& host) : size_(host.size()) {
        // Aligned rows are read to the end of their last 16 bytes.
        std::size_t const bytes = (size_ * sizeof(T) / 16 + 1) * 16;
        if (cudaMalloc(&data_, bytes) != cudaSuccess) data_ = nullptr;
        EXPECT_NE(data_, nullptr);
        EXPECT_EQ(cudaMemset(data_, 0, bytes), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    }
    explicit on_device(std::size_t size) : on_device(std::vector<T>(size)) {}
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() { static_cast<void>(cudaFree(data_)); }

    [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
    [[nodiscard]] std::size_t size() const { return size_; }
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
        cudaError_t const e = cudaGetDeviceCount(&devices);
        if (e != cudaSuccess || devices == 0)
            GTEST_SKIP() << "no CUDA device: " << (e != cudaSuccess ? cudaGetErrorString(e) : "none found");
        if (!has_fma) GTEST_SKIP() << "without FMA on the host there is no parity";
    }

    [[nodiscard]] static int attribute(cudaDeviceAttr which) {
        int value = 0;
        EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 0), cudaSuccess);
        return value;
    }
};

/// Logits with ties and minus infinities, and one that is always finite.
template <class T>
std::vector<T> random_logits(index_t n, std::uint64_t seed) {
    test_numbers numbers(seed);
    std::vector<T> row;
    for (index_t i = 0; i < n; ++i) {
        double const u = numbers();
        double const v = u < 0.1 ? -std::numeric_limits<double>::infinity() : u > 0.9 ? 1.25 : 4 * numbers.normal();
        row.push_back(T(static_cast<float>(v)));
    }
    row[static_cast<std::size_t>(n) / 2] = T(0.5F);
    return row;
}

/// A batch on the device.
template <class T>
struct device_batch {
    explicit device_batch(batch<T> const& b)
        : offsets(b.offsets),
          parents(b.parents),
          tokens(b.tokens),
          certain(b.certain),
          states(b.states),
          target(b.target),
          draft(b.draft),
          seeds(b.seeds),
          ids(b.ids),
          positions(b.positions),
          size(b.size()),
          vocabulary(b.vocabulary),
          w(b.w) {}

    [[nodiscard]] tree_batch trees() const {
        return {size,
                static_cast<std::int64_t>(parents.size()),
                offsets.data(),
                parents.data(),
                tokens.data(),
                certain.data(),
                10};
    }
    [[nodiscard]] request_batch requests() const { return {seeds.data(), positions.data(), ids.data()}; }
    [[nodiscard]] logit_batch<T> logits(on_device<T> const& rows) const {
        return {rows.data(), vocabulary, vocabulary, nullptr, nullptr, w};
    }

    on_device<std::int64_t> offsets;
    on_device<node_id> parents;
    on_device<token_id> tokens;
    on_device<index_t> certain;
    on_device<row_state> states;
    on_device<T> target, draft;
    on_device<std::uint64_t> seeds;
    on_device<std::uint32_t> ids;
    on_device<std::int32_t> positions;
    std::int32_t size;
    index_t vocabulary;
    sampling_params w;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
