// Device memory and errors of the CUDA programs of benchmarks, on a device or over the stand-in of tests/launches.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

inline void require(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

/// Device memory of n elements, zero at first, up to the last 16 bytes of aligned rows.
template <class T>
class device_array {
public:
    explicit device_array(std::size_t n) : size_(n) {
        std::size_t const bytes = (n * sizeof(T) / 16 + 1) * 16;
        require(cudaMalloc(&data_, bytes));
        require(cudaMemset(data_, 0, bytes));
    }
    explicit device_array(std::vector<T> const& host) : device_array(host.size()) {
        require(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    device_array(device_array const&) = delete;
    device_array& operator=(device_array const&) = delete;
    ~device_array() { static_cast<void>(cudaFree(data_)); }

    [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::vector<T> host() const {
        std::vector<T> result(size_);
        require(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
        return result;
    }

private:
    void* data_ = nullptr;
    std::size_t size_;
};

}  // namespace bench
