// The rows of a tree straight from logits: each is normalised when it is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The rows of a tree as distributions straight from logits: each call `rows(group, node)` computes the row's
/// normaliser, so rows that a verifier does not use are not read. Verifiers of whole trees use a row more than once:
/// for them there is `remembered_rows`.
///
/// With masks and biases, row v of which belongs to node v, the rows are those of the adjusted logits:
///
///     logit_rows p(rows_view<float>(logits, nodes, V, stride), sampling,
///                  {.allowed = {bits, words}, .bias = {ids, values}});
///
/// A row whose tokens are all forbidden, like a row of minus infinities, is an `invalid_input` that names the node,
/// when it is read. Rows below a candidate that the target's mask forbids are not read.
template <class T, class Layout = contiguous, class View = row_view<T, Layout>>
class logit_rows {
    static constexpr bool plain = std::is_same_v<View, row_view<T, Layout>>;
    static_assert(plain || std::is_same_v<View, adjusted_view<row_view<T, Layout>>>);

public:
    using real = real_of<T>;

    /// Rows of plain logits, all with the same sampling parameters.
    MULTIDRAFT_HD logit_rows(rows_view<T, Layout> rows, sampling_params w) noexcept requires(plain)
        : rows_(rows), sampling_(w) {}
    /// Throws `invalid_input` on the host for masks and a bias that do not fit these rows (`validate`).
    MULTIDRAFT_HD logit_rows(rows_view<T, Layout> rows, sampling_params w,
                             logit_adjustments const& adjustments) requires(!plain)
        : rows_(rows), adjustments_(adjustments), sampling_(w) {
#if !MULTIDRAFT_ON_DEVICE
        validate(adjustments, rows.rows(), rows.size());
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD softmax_row<View> operator()(G const& g, node_id node) const {
        return with_sums(g, node).row;
    }
    /// The row with the chunk sums of its weights, which are valid as long as the group keeps it.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return process_logits(g, view(node), sampling_);
    }
    /// The logits of a node.
    [[nodiscard]] MULTIDRAFT_HD View view(node_id node) const noexcept {
        if constexpr (plain)
            return rows_(node);
        else
            return View::unchecked(rows_(node), adjustments_.mask(node), adjustments_.bias_at(node));
    }

private:
    struct nothing {};

    rows_view<T, Layout> rows_;
    [[no_unique_address]] std::conditional_t<plain, nothing, logit_adjustments> adjustments_;
    sampling_params sampling_;
};
template <class T, class Layout>
MULTIDRAFT_GUIDE logit_rows(rows_view<T, Layout>, sampling_params)->logit_rows<T, Layout>;
template <class T, class Layout>
logit_rows(rows_view<T, Layout>, sampling_params, logit_adjustments)
    -> logit_rows<T, Layout, adjusted_view<row_view<T, Layout>>>;

}  // namespace MULTIDRAFT_NAMESPACE
