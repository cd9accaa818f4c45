// Rows of logits with masks and no bias, as kernels read them: without a branch at an entry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/adjusted_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/token_mask.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda::detail {

/// A row whose entries are x_i where the mask allows token i, and minus infinity elsewhere.
///
/// Whether a row has a mask is decided without a branch, since loads are not joined across one. Without a mask the row
/// itself is read instead of the mask's words.
template <class T, class Layout>
class masked_view {
public:
    using real = real_of<T>;

    masked_view() = default;
    /// The row at `data`; the mask has a bit for each of its tokens, or no words.
    MULTIDRAFT_HD masked_view(T const* data, index_t size, Layout layout, token_mask mask) noexcept
        : row_(data, size, layout),
          words_(mask.empty() ? static_cast<void const*>(data) : mask.words()),
          always_(mask.empty() ? ~std::uint32_t{0} : 0U) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        real const x = row_(i);
        return allows(i) ? x : minus_infinity<real>;
    }
    /// Whether the mask allows a token.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool allows(index_t i) const noexcept {
#if defined(__CUDA_ARCH__)
        return ((__ldg(static_cast<std::uint32_t const*>(words_) + (i >> 5)) | always_) >> (i & 31) & 1U) != 0;
#else
        if (always_ != 0) return true;
        std::uint32_t word = 0;  // the words have another type
        __builtin_memcpy(&word, static_cast<unsigned char const*>(words_) + (i >> 5) * std::int64_t{4}, 4);
        return (word >> (i & 31) & 1U) != 0;
#endif
    }

private:
    row_view<T, Layout> row_{};
    void const* words_ = nullptr;
    std::uint32_t always_ = 0;
};

/// The rows of an `adjusted_batch` that has no bias.
template <class T, class Layout>
struct masked_batch : logits_of_batch<masked_batch<T, Layout>, T, Layout> {
    batch_adjustments adjustments{};

    MULTIDRAFT_HD masked_batch(rows_of_batch<T, Layout> const& rows, batch_sampling const& parameters,
                               batch_adjustments const& of_nodes) noexcept
        : logits_of_batch<masked_batch, T, Layout>(rows, parameters), adjustments(of_nodes) {}

    [[nodiscard]] MULTIDRAFT_HD masked_view<T, Layout> view(std::int64_t i) const noexcept {
        return {this->data + this->row(i) * this->stride(), this->vocabulary, this->layout, adjustments.mask(i)};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::cuda::detail
