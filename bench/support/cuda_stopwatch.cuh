// Times of calls on a device by CUDA events, each with a cold L2 cache, and the rate of copies they are compared with.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/cuda_device.cuh"

namespace bench {

/// The median seconds of 11 calls after 3 others, each after other data filled the L2 cache.
class stopwatch {
public:
    stopwatch() : flushed_(std::size_t{256} << 20) {
        require(cudaEventCreate(&begin_));
        require(cudaEventCreate(&end_));
    }
    stopwatch(stopwatch const&) = delete;
    stopwatch& operator=(stopwatch const&) = delete;
    ~stopwatch() {
        static_cast<void>(cudaEventDestroy(begin_));
        static_cast<void>(cudaEventDestroy(end_));
    }
    template <class Call>
    double operator()(Call const& call) {
        std::vector<double> seconds;
        for (int k = 0; k < 14; ++k) {
            double const one = once([&] { require(call()); });
            if (k >= 3) seconds.push_back(one);
        }
        std::sort(seconds.begin(), seconds.end());
        return seconds[seconds.size() / 2];
    }
    /// The seconds of one call, which reports its own errors.
    template <class Call>
    double once(Call const& call) {
        require(cudaMemsetAsync(flushed_.data(), 0, flushed_.size(), nullptr));
        require(cudaEventRecord(begin_));
        call();
        require(cudaEventRecord(end_));
        require(cudaEventSynchronize(end_));
        float milliseconds = 0;
        require(cudaEventElapsedTime(&milliseconds, begin_, end_));
        return static_cast<double>(milliseconds) * 1e-3;
    }

private:
    device_array<unsigned char> flushed_;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

/// Bytes read and written per second by copies of 1 GiB on the device.
inline double bytes_of_copy_per_second(stopwatch& watch) {
    constexpr std::size_t bytes = std::size_t{1} << 30;
    device_array<unsigned char> const from(bytes), to(bytes);
    return 2 * static_cast<double>(bytes) /
           watch([&] { return cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, nullptr); });
}

}  // namespace bench
