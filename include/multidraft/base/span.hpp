// A span that host and device may both use: `std::span`'s members are not device functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// A contiguous range of T; where T is mutable it must not be a temporary. The constructor of `std::span` is
/// constrained by the same parts of `std::ranges`, so that they are in <span>; <ranges> takes long to compile.
template <class R, class T>
concept views_as = std::ranges::contiguous_range<R> &&(
    std::ranges::borrowed_range<R> ||
    std::is_const_v<T>)&&std::convertible_to<std::remove_reference_t<std::ranges::range_reference_t<R>> (*)[], T (*)[]>;

}  // namespace detail

/// A pointer and a length. Converts from every contiguous range (`std::vector`, `std::span`, ..) and to `std::span`.
/// Indices are not checked. A temporary container converts to a span of constants only, for the length of a call, as it
/// does to `std::span`: what is written to it would be lost.
template <class T>
class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span() = default;
    MULTIDRAFT_HD constexpr span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class R>
    requires(!std::same_as<std::remove_cvref_t<R>, span> &&
             detail::views_as<R, T>) constexpr span(R&& range) noexcept  // NOLINT: a view of what is passed
        : data_(std::ranges::data(range)), size_(static_cast<std::size_t>(std::ranges::size(range))) {}
    template <class U>
    requires(!std::same_as<U, T> && std::convertible_to<U (*)[], T (*)[]>) MULTIDRAFT_HD
        constexpr span(span<U> other) noexcept
        : data_(other.data()), size_(other.size()) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] MULTIDRAFT_HD constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_HD constexpr bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] MULTIDRAFT_HD constexpr T* begin() const noexcept { return data_; }
    [[nodiscard]] MULTIDRAFT_HD constexpr T* end() const noexcept { return data_ + size_; }
    /// Entry i, of any integer type: nodes, tokens and levels are signed.
    template <std::integral I>
    [[nodiscard]] MULTIDRAFT_HD constexpr T& operator[](I i) const noexcept {
        return data_[i];
    }
    [[nodiscard]] MULTIDRAFT_HD constexpr T& back() const noexcept { return data_[size_ - 1]; }
    [[nodiscard]] MULTIDRAFT_HD constexpr span first(std::size_t n) const noexcept { return {data_, n}; }
    [[nodiscard]] MULTIDRAFT_HD constexpr span subspan(std::size_t from) const noexcept {
        return {data_ + from, size_ - from};
    }
    [[nodiscard]] MULTIDRAFT_HD constexpr span subspan(std::size_t from, std::size_t n) const noexcept {
        return {data_ + from, n};
    }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

template <class R>
MULTIDRAFT_GUIDE span(R&&)->span<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

namespace detail {

/// The number of entries below x in a list that rises, which is where x is or would be: `std::lower_bound`, on a device
/// too. O(log entries).
template <class T>
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t entries_below(span<T const> list, T x) noexcept {
    std::size_t low = 0;
    for (std::size_t left = list.size(); left > 0;) {
        std::size_t const half = left / 2;
        bool const right = list[low + half] < x;
        low += right ? half + 1 : 0;
        left = right ? left - half - 1 : half;
    }
    return low;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE

/// @cond
// A span returned by value converts to std::span only if its iterators are known to outlive it.
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<multidraft::span<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_view<multidraft::span<T>> = true;
/// @endcond
