// Matrix products by oneDNN: one packed copy of the weights for every number of rows, and rows whose bits do not depend
// on how many there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace multidraft::examples {

/// The CPU as oneDNN sees it.
[[nodiscard]] dnnl::engine const& cpu_engine();

/// Products of `rows` x K inputs with K x N matrices in bfloat16 or float, results in float.
///
/// There is a primitive for each of some numbers of rows; other numbers are padded to the next. The order of the sum
/// over K may depend on the number of rows, and then a token's bits would depend on the rest of the batch. So the
/// constructor multiplies random numbers and keeps only those primitives whose rows have the bits of the 16-row one, at
/// any index; if even that one depends on the index, only the 1-row primitive.
class matmul {
public:
    /// `type` is that of inputs and weights: bf16 or f32. Throws `dnnl::error` where oneDNN has no such product.
    matmul(std::int32_t k, std::int32_t n, dnnl::memory::data_type type, std::int32_t max_rows);

    /// Packs a row-major N x K matrix of the type given to the constructor.
    [[nodiscard]] dnnl::memory pack(void const* weights) const;

    [[nodiscard]] std::int32_t k() const noexcept { return k_; }
    [[nodiscard]] std::int32_t n() const noexcept { return n_; }
    [[nodiscard]] std::size_t scratchpad_bytes() const noexcept { return scratchpad_bytes_; }
    [[nodiscard]] std::size_t packed_bytes() const { return packed_.get_size(); }

    /// The numbers of rows with a primitive, increasing.
    [[nodiscard]] std::vector<std::int32_t> row_counts() const;
    /// oneDNN's name of the implementation.
    [[nodiscard]] std::string const& implementation() const noexcept { return implementation_; }

    /// Rows of inputs that `run` may read and of outputs that it may write.
    [[nodiscard]] std::int32_t padded(std::int32_t rows) const noexcept;

    /// Multiplies `rows` rows, one after the other, in the calling thread; several may do so at a time. `input` and
    /// `output` have room for `padded(rows)` rows, and the inputs hold numbers in all; `scratchpad` has
    /// `scratchpad_bytes()`.
    void run(dnnl::memory const& weights, std::int32_t rows, std::byte* input, float* output,
             std::byte* scratchpad) const;

private:
    struct sized {
        std::int32_t rows;
        dnnl::primitive primitive;
        dnnl::memory::desc input;
        dnnl::memory::desc output;
        dnnl::memory::desc scratchpad;
    };

    /// oneDNN's objects for one call at a time.
    struct objects {
        /// Memory whose address is updated only when it changes, since the update takes time.
        struct bound {
            dnnl::memory memory;
            void const* at = nullptr;
            dnnl_memory_t to(void* data);
        };
        struct buffers {
            bound input, output, scratchpad;
        };
        dnnl::stream stream;
        std::vector<buffers> by_size;
    };

    /// The index in `sizes_` of the primitive for that many rows.
    [[nodiscard]] std::size_t next(std::int32_t rows) const noexcept;
    [[nodiscard]] std::unique_ptr<objects> borrow() const;
    void keep_equal_bits();

    std::int32_t k_;
    std::int32_t n_;
    std::int32_t max_rows_;
    dnnl::memory::data_type type_;
    dnnl::memory::desc packed_;
    std::string implementation_;
    std::size_t scratchpad_bytes_ = 0;
    std::vector<sized> sizes_;
    mutable std::mutex guard_;
    mutable std::vector<std::unique_ptr<objects>> idle_;  ///< making them takes as long as a small product
};

}  // namespace multidraft::examples
