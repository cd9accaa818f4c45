// Rows of numbers where the engine keeps them: float, double, half or bfloat16, with the engine's own strides.
#pragma once

#include <cstdint>

#include "multidraft/core/config.hpp"
#include "multidraft/core/half.hpp"

namespace multidraft {

/// How the entries of a row lie in memory: one after another.
struct contiguous {
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t operator()(index_t i) const noexcept { return i; }
};

/// How the entries of a row lie in memory: `step` entries apart (a transposed matrix of logits).
struct strided {
    std::int64_t step = 1;
    [[nodiscard]] MULTIDRAFT_HD constexpr std::int64_t operator()(index_t i) const noexcept { return i * step; }
};

/// One row of V entries, read only. `T` is float, double, `half` or `bfloat16`; entries are read as `real_of<T>`.
///
/// `Layout` maps an index to an offset; `contiguous` and `strided` are given, an engine may bring its own.
template <class T, class Layout = contiguous>
class row_view {
public:
    using real = real_of<T>;

    row_view() = default;
    MULTIDRAFT_HD constexpr row_view(T const* data, index_t size, Layout layout = {}) noexcept
        : data_(data), layout_(layout), size_(size) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        return to_real(data_[layout_(i)]);
    }

private:
    T const* data_ = nullptr;
    [[no_unique_address]] Layout layout_{};
    index_t size_ = 0;
};

/// Rows of V entries, `row_stride` entries apart (64 bits: a batch of rows may pass 2^31 entries).
template <class T, class Layout = contiguous>
class rows_view {
public:
    using real = real_of<T>;

    rows_view() = default;
    MULTIDRAFT_HD constexpr rows_view(T const* data, index_t rows, index_t size, std::int64_t row_stride,
                                      Layout layout = {}) noexcept
        : data_(data), row_stride_(row_stride), layout_(layout), rows_(rows), size_(size) {}
    /// Rows one after another.
    MULTIDRAFT_HD constexpr rows_view(T const* data, index_t rows, index_t size) noexcept
        : rows_view(data, rows, size, size) {}

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

}  // namespace multidraft
