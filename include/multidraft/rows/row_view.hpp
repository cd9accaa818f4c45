// Rows of numbers where the engine keeps them: float, double, half or bfloat16, with the engine's own strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How the entries of a row lie in memory: `layout(i)` is the offset of entry i, and rows begin at multiples of
/// `alignment` bytes, so that they may be read so many at a time; 0: entries are read one by one.
template <class L>
concept row_layout = requires(L const& layout, index_t i) {
    { layout(i) } -> std::convertible_to<std::int64_t>;
    { L::alignment } -> std::same_as<int const&>;
};

/// How the entries of a row lie in memory: one after another.
struct contiguous {
    static constexpr int alignment = 0;
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t operator()(index_t i) const noexcept { return i; }
};

/// How the entries of a row lie in memory: `step` entries apart (a transposed matrix of logits).
struct strided {
    static constexpr int alignment = 0;
    std::int64_t step = 1;
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t operator()(index_t i) const noexcept { return i * step; }
};

/// Entries one after another, rows that begin at a multiple of `Bytes`: groups that read several adjacent entries at a
/// time may then do so in one access. The caller guarantees the alignment, and that nobody writes to the row meanwhile.
/// On a device an entry may be read together with the rest of its 16-byte block, past the end of the row too.
template <int Bytes = 16>
struct aligned {
    static constexpr int alignment = Bytes;
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t operator()(index_t i) const noexcept { return i; }
};

namespace detail {

/// Whether the entries of a row follow one another, so that a row of V has V entries.
template <class Layout>
inline constexpr bool is_dense_layout = std::is_same_v<Layout, contiguous> || (Layout::alignment > 0);

/// The distance of rows for which `row_stride` was given: 0 means rows one after another.
[[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t stride_of_rows(std::int64_t row_stride, index_t size) noexcept {
    return row_stride == 0 ? size : row_stride;
}

/// Refuses rows that would overlap.
template <class Layout>
constexpr void refuse_bad_stride(std::int64_t row_stride, index_t size, char const* argument) {
    if (row_stride != 0 && row_stride < size && is_dense_layout<Layout>)
        refuse(argument, row_stride,
               "rows of " + std::to_string(size) + " entries would overlap; 0: one after another");
    if (row_stride == 0 && !is_dense_layout<Layout>)
        refuse(argument, row_stride, "rows whose entries do not follow one another need a stride of their own");
}

}  // namespace detail

/// One row of V entries, read only. `T` is float, double, `float16` or `bfloat16`; entries are read as `real_of<T>`.
///
/// `Layout` maps an index to an offset; `contiguous`, `strided` and `aligned` are given, an engine may bring its own.
template <class T, row_layout Layout = contiguous>
class row_view {
public:
    using real = real_of<T>;

    row_view() = default;
    /// `size` entries from `data` on, in the order of the layout.
    MULTIDRAFT_HD constexpr row_view(T const* data, index_t size, Layout layout = {}) noexcept
        : data_(data), layout_(layout), size_(size) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        if constexpr (Layout::alignment > 0) {
            T const* const data = static_cast<T const*>(MULTIDRAFT_ASSUME_ALIGNED(data_, Layout::alignment));
#if defined(__CUDA_ARCH__)
            if constexpr (Layout::alignment % 16 == 0 && in_blocks)
                return from_block(data, i);
            else
#endif
                return to_real(data[layout_(i)]);
        } else {
            return to_real(data_[layout_(i)]);
        }
    }

private:
#if defined(__CUDA_ARCH__)
    static constexpr bool in_blocks =
        std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

    /// Entry i of an aligned row, from an explicit load of its 16-byte block. nvcc merges loads of adjacent words only
    /// where nothing between them could write, and never merges loads of half words.
    [[nodiscard]] MULTIDRAFT_INLINE __device__ static real from_block(T const* data, index_t i) noexcept {
        index_t const at = sizeof(T) == 2 ? i >> 1 : i;  // the word of the row; a block has four
        uint4 const block = __ldg(reinterpret_cast<uint4 const*>(data) + (at >> 2));
        int const k = at & 3;
        std::uint32_t const low = k == 0 ? block.x : block.y;
        std::uint32_t const high = k == 2 ? block.z : block.w;
        std::uint32_t const word = k < 2 ? low : high;
        if constexpr (std::is_same_v<T, float>)
            return __uint_as_float(word);
        else
            return to_real(T::from_bits(static_cast<std::uint16_t>((i & 1) != 0 ? word >> 16 : word)));
    }
#endif

    T const* data_ = nullptr;
    [[no_unique_address]] Layout layout_{};
    index_t size_ = 0;
};

/// Rows of V entries, `row_stride` entries apart (64 bits: a batch of rows may pass 2^31 entries).
template <class T, row_layout Layout = contiguous>
class rows_view {
public:
    using real = real_of<T>;

    rows_view() = default;
    /// `rows` rows of `size` entries; row r begins at `data + r * row_stride`. A stride of 0: one after another. On the
    /// host rows that would overlap are an `invalid_input`.
    MULTIDRAFT_HD constexpr rows_view(T const* data, index_t rows, index_t size, std::int64_t row_stride,
                                      Layout layout = {})
        : data_(data),
          row_stride_(detail::stride_of_rows(row_stride, size)),
          layout_(layout),
          rows_(rows),
          size_(size) {
#if !MULTIDRAFT_ON_DEVICE
        detail::refuse_bad_stride<Layout>(row_stride, size, "row_stride");
#endif
    }
    /// Rows one after another.
    MULTIDRAFT_HD constexpr rows_view(T const* data, index_t rows, index_t size)
        : rows_view(data, rows, size, std::int64_t{0}) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept { return rows_; }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_HD constexpr row_view<T, Layout> operator()(index_t row) const noexcept {
        return {data_ + row * row_stride_, size_, layout_};
    }

private:
    T const* data_ = nullptr;
    std::int64_t row_stride_ = 0;
    [[no_unique_address]] Layout layout_{};
    index_t rows_ = 0;
    index_t size_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE
