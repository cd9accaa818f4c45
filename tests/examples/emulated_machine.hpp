// A machine for the device form of the example transformer whose threads are emulated on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "support/emulated_lanes.hpp"
#include "transformer/device_transformer.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Memory that is freed together.
class emulated_memory {
public:
    template <class T>
    [[nodiscard]] T* array(std::size_t n) {
        pieces_.push_back(std::make_unique<std::uint64_t[]>((n * sizeof(T) + 7) / 8));
        return reinterpret_cast<T*>(pieces_.back().get());
    }

private:
    std::vector<std::unique_ptr<std::uint64_t[]>> pieces_;
};

/// Runs every launch at once, block after block, and products in loops over the rows that hold tokens.
class emulated_machine : public emulated_memory {
public:
    template <class T>
    void upload(T* to, T const* from, std::size_t n) {
        std::memcpy(to, from, n * sizeof(T));
    }

    class stream : public emulated_memory {
    public:
        using recording = std::function<void()>;

        explicit stream(emulated_machine&) {}

        [[nodiscard]] std::byte* staging(std::size_t bytes) { return array<std::byte>(bytes); }
        template <class Kernel>
        void launch(Kernel const& kernel, int blocks) {
            namespace device = examples::device;
            // Blocks of rows that are not there would return at once.
            if constexpr (requires {
                              kernel.heads;
                              kernel.entries;
                          })
                blocks = kernel.step->rows * kernel.heads;
            else
                blocks = kernel.step->rows;
            rows_ = kernel.step->rows;
            device::shared_memory shared;
            for (int block = 0; block < blocks; ++block) {
                std::memset(&shared, 0xff, sizeof shared);  // NaN: what is read was written
                emulator_.run([&](int rank, int thread) {
                    kernel(emulated_lanes<device::threads>(emulator_, rank, thread, 0), block, shared);
                });
            }
        }
        void multiply(examples::device::matrix const& m, bfloat16 const* in, float* out) const {
            for (std::int32_t r = 0; r < rows_; ++r)
                for (std::int32_t n = 0; n < m.outputs; ++n) {
                    float sum = 0;
                    for (std::int32_t k = 0; k < m.inputs; ++k)
                        sum += to_real(in[std::int64_t{r} * m.inputs + k]) *
                               to_real(m.weights[std::int64_t{n} * m.inputs + k]);
                    out[std::int64_t{r} * m.outputs + n] = sum;
                }
        }
        template <class Work>
        [[nodiscard]] recording record(Work const& work) {
            return work;
        }
        void play(recording const& work) { work(); }
        void fetch(void* to, void const* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
        void read(float* to, float const* from, std::size_t n) { std::memcpy(to, from, n * sizeof(float)); }
        void compact(contiguous_cache const& cache, kept_batch const& kept) {
            std::int64_t const pieces = cache.entry_bytes / 4;
            std::int64_t const planes = cache.axes[0].count;
            for (std::int64_t k = 0; k < pieces * planes; ++k)
                multidraft::detail::compact_piece<std::uint32_t, contiguous_cache>{cache, kept, pieces, planes}(k);
        }
        void wait() {}

    private:
        simt_emulator emulator_{1, examples::device::threads};
        std::int32_t rows_ = 0;
    };
};

/// The accelerator that is no device.
[[nodiscard]] inline examples::accelerator on_emulator() {
    return [](examples::model_config const& config, examples::tensor_store const& tensors, std::int32_t context_limit,
              std::int32_t capacity) -> std::shared_ptr<examples::accelerator_weights const> {
        return std::make_shared<examples::device::weights<emulated_machine>>(std::make_unique<emulated_machine>(),
                                                                             config, tensors, context_limit, capacity);
    };
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
