// Rows of logits of a batch with a term of the node's own token, added as they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/adjusted_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/low_rank_term.hpp"
#include "multidraft/rows/row_view.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The draft's rows of a block drafter with a term of the parent's token ([DSpark]): `low_rank_batch(rows, term,
/// trees.tokens)`. The row of node i is `rows`' row i, with `row_of` that of its depth, plus the term of token
/// `tokens[i]`, the node's own. In `draft_batch` i is the entry, and `tokens[i]` the token of its node.
///
/// Decisions have the same bits as with rows that were written out, on every machine. An entry costs `rank`
/// multiply-adds each time it is read: write rows out where they are read often. `children_batch::states` must be null.
template <class T, class W = float, class Layout = contiguous>
struct low_rank_batch : logits_of_batch<low_rank_batch<T, W, Layout>, T, Layout> {
    low_rank_term<W> term{};
    token_id const* tokens = nullptr;

    low_rank_batch() = default;
    /// Rows, weights and tokens belong to the caller.
    MULTIDRAFT_HD low_rank_batch(logit_batch<T, Layout> const& rows, low_rank_term<W> const& of_token,
                                 token_id const* of_nodes) noexcept
        : logits_of_batch<low_rank_batch, T, Layout>(rows, rows), term(of_token), tokens(of_nodes) {}

    /// The row of node i with the term of its token; without a term where it has none.
    [[nodiscard]] MULTIDRAFT_HD low_rank_view<row_view<T, Layout>, W> view(std::int64_t i) const noexcept {
        token_id const x = tokens[i];
        return (x < 0 ? low_rank_term<W>{} : term)(rows_of_batch<T, Layout>::view(i), x < 0 ? 0 : x);
    }
};

namespace detail {

/// Rows with a term of the node's token.
template <class Rows>
concept has_token_term = requires(Rows const& rows) {
    rows.term;
    rows.tokens;
};

/// Rows that are changed as they are read: a state of the row in memory would be that of another row.
template <class Rows>
concept changed_when_read = has_adjustments<Rows> || has_token_term<Rows>;

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
