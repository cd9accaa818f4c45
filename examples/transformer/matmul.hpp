// Matrix products by oneDNN: one packed copy of the weights for every number of rows, and rows whose bits do not depend
// on how many there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace multidraft::examples {

/// Zeroed storage on cache-line boundaries that never moves.
template <class T>
class aligned_array {
public:
    aligned_array() = default;
    explicit aligned_array(std::size_t size)
        : data_(static_cast<T*>(::operator new(size * sizeof(T), alignment))), size_(size) {
        for (std::size_t i = 0; i < size; ++i) data_.get()[i] = T{};
    }
    [[nodiscard]] T* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    static constexpr std::align_val_t alignment{64};
    struct release {
        void operator()(T* p) const noexcept { ::operator delete(p, alignment); }
    };
    std::unique_ptr<T, release> data_;
    std::size_t size_ = 0;
};

/// Whether the CPU multiplies bf16 matrices by tiles of 16 rows (AMX): then 16 rows cost little more than one, and
/// trees of candidates are nearly free. Elsewhere every row costs its multiplications.
[[nodiscard]] bool multiplies_by_tiles();

/// The threads that OpenMP offers the calling thread; 1 where there is no OpenMP.
[[nodiscard]] int available_threads() noexcept;

/// Sets the number of threads that oneDNN and our own loops take, for the calling thread and until the end of the
/// scope.
class thread_scope {
public:
    explicit thread_scope(int threads) noexcept;
    ~thread_scope();
    thread_scope(thread_scope const&) = delete;
    thread_scope& operator=(thread_scope const&) = delete;

private:
    int before_;
};

/// Products of `rows` x K inputs with one K x N matrix or with several of that size, results in float.
///
/// There is a primitive for each of some numbers of rows; other numbers are padded to the next. The order of the sum
/// over K may depend on the number of rows (it does in oneDNN's GEMM for AVX2, not in its AVX-512 kernels), and
/// then a token's bits would depend on its company. So the constructor multiplies random numbers and keeps only those
/// primitives whose rows have the bits of the 16-row one, wherever a row lies; if even that one depends on the place,
/// only the 1-row primitive.
class matmul {
public:
    /// `type` is that of inputs and weights: bf16 or f32.
    matmul(dnnl::engine const& engine, std::int32_t k, std::int32_t n, dnnl::memory::data_type type,
           std::int32_t max_rows);

    /// Packs a row-major N x K matrix of the type given to the constructor.
    [[nodiscard]] dnnl::memory pack(dnnl::engine const& engine, void const* weights) const;

    [[nodiscard]] std::int32_t k() const noexcept { return k_; }
    [[nodiscard]] std::int32_t n() const noexcept { return n_; }
    [[nodiscard]] std::size_t scratchpad_bytes() const noexcept { return scratchpad_bytes_; }
    [[nodiscard]] std::size_t packed_bytes() const { return packed_.get_size(); }

    /// The numbers of rows with a primitive, increasing.
    [[nodiscard]] std::vector<std::int32_t> row_counts() const;
    /// oneDNN's name of the implementation.
    [[nodiscard]] std::string const& implementation() const noexcept { return implementation_; }

    /// Buffers bound to the primitives: what one caller needs to run them. Not for two threads at a time.
    class binding {
    public:
        binding() = default;
        /// `input` and `output` have room for twice `max_rows` rows (padding included), and hold numbers in all.
        binding(dnnl::engine const& engine, matmul const& products, void* input, float* output, void* scratchpad);

        /// Multiplies the first `rows` rows, at most the `max_rows`, by packed weights. With an `output`, results go
        /// there instead of into the bound buffer.
        void run(dnnl::stream const& stream, dnnl::memory const& weights, std::int32_t rows, float* output = nullptr);

    private:
        struct buffers {
            dnnl::memory input;
            dnnl::memory output;
            dnnl::memory scratchpad;
        };
        matmul const* products_ = nullptr;
        std::vector<buffers> buffers_;
        float* bound_ = nullptr;
    };

private:
    struct sized {
        std::int32_t rows;
        dnnl::primitive primitive;
        dnnl::memory::desc input;
        dnnl::memory::desc output;
        dnnl::memory::desc scratchpad;
    };

    void keep_equal_bits(dnnl::engine const& engine);

    std::int32_t k_;
    std::int32_t n_;
    std::int32_t max_rows_;
    dnnl::memory::data_type type_;
    dnnl::memory::desc packed_;
    std::string implementation_;
    std::size_t scratchpad_bytes_ = 0;
    std::vector<sized> sizes_;
};

}  // namespace multidraft::examples
