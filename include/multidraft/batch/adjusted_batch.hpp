// Rows of logits of a batch with masks and biases, applied as they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/logit_bias.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/token_mask.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The masks and biases of the nodes of a batch. Either may be left out, for all nodes or for some.
///
/// Node i of the batch, numbered across all requests, has the mask `allowed(allowed_of[i])` and the bias
/// `bias(bias_of[i])`: none where that index is negative, index i where the array is null. So one mask may serve many
/// nodes, and requests without a grammar have none. The arrays are in memory of the machine that verifies the batch.
struct batch_adjustments {
    token_masks allowed{};
    std::int64_t const* allowed_of = nullptr;  ///< may be null
    logit_biases bias{};
    std::int64_t const* bias_of = nullptr;  ///< may be null

    /// The index of the mask of node i; negative: it has none.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t mask_number(std::int64_t i) const noexcept {
        if (allowed.empty()) return -1;
        return allowed_of == nullptr ? i : allowed_of[i];
    }
    /// The mask of node i.
    [[nodiscard]] MULTIDRAFT_HD token_mask mask(std::int64_t i) const noexcept {
        std::int64_t const r = mask_number(i);
        return r < 0 ? token_mask{} : allowed(r);
    }
    /// The index of the bias of node i; negative: it has none.
    [[nodiscard]] MULTIDRAFT_HD std::int64_t bias_number(std::int64_t i) const noexcept {
        if (bias.empty()) return -1;
        return bias_of == nullptr ? i : bias_of[i];
    }
    /// The bias of node i.
    [[nodiscard]] MULTIDRAFT_HD logit_bias bias_at(std::int64_t i) const noexcept {
        std::int64_t const r = bias_number(i);
        return r < 0 ? logit_bias{} : bias(r);
    }
};

/// A `logit_batch` with grammar masks, logit bias and penalties: `adjusted_batch(rows, {.allowed = {bits, masks,
/// words}})`. The decisions have the same bits as with rows that were changed beforehand (`adjusted_view`), on every
/// machine.
///
/// In `draft_batch` entry e has the mask and the bias of index e. `children_batch::states` describes plain rows, so it
/// must be null here, and `verify_batch` gets the draft's rows with the masks they were drawn with. If every token of a
/// row is forbidden, the request gets the token `none`.
template <class T, class Layout = contiguous>
struct adjusted_batch : logits_of_batch<adjusted_batch<T, Layout>, T, Layout> {
    batch_adjustments adjustments{};

    adjusted_batch() = default;
    /// Rows and adjustments belong to the caller.
    MULTIDRAFT_HD adjusted_batch(logit_batch<T, Layout> const& rows, batch_adjustments const& of_nodes) noexcept
        : logits_of_batch<adjusted_batch, T, Layout>(rows, rows), adjustments(of_nodes) {}

    /// The row of node i with its mask and bias.
    [[nodiscard]] MULTIDRAFT_HD adjusted_view<row_view<T, Layout>> view(std::int64_t i) const noexcept {
        return {rows_of_batch<T, Layout>::view(i), adjustments.mask(i), adjustments.bias_at(i)};
    }
};

namespace detail {

/// Rows of logits with masks and biases.
template <class Rows>
concept has_adjustments = requires(Rows const& rows) {
    { rows.adjustments } -> std::convertible_to<batch_adjustments>;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
