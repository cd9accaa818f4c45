// The rows that an engine gives a step of a batch, indexed by its inputs, as the rows of the step's nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/step_arrays.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

template <class Rows>
inline constexpr bool is_whole_rows = false;
template <class T, class Layout>
inline constexpr bool is_whole_rows<rows_of_batch<T, Layout>> = true;
template <class Rows>
inline constexpr bool is_candidate_rows = false;
template <class T>
inline constexpr bool is_candidate_rows<candidate_batch<T>> = true;

/// Rows that a step takes: `rows_of_batch`, and no type derived from it. What such a type has beside them, sampling
/// parameters or masks, would not be read.
template <class Rows>
concept whole_rows = is_whole_rows<Rows>;
/// The same of the draft, or rows of a few candidates.
template <class Rows>
concept rows_of_step = whole_rows<Rows> || is_candidate_rows<Rows>;

/// What the draft's rows of a step are, as far as another kind would be another row.
struct kind_of_rows {
    index_t vocabulary = 0;      ///< 0: nothing was drawn yet
    index_t candidates = 0;      ///< of a row; 0: rows of all tokens
    void const* type = nullptr;  ///< of an entry, by the address of something that each type has
    std::size_t entry_bytes = 0;

    kind_of_rows() = default;
    /// Those of some rows, as an engine gives them or with parameters and adjustments.
    template <has_element Rows>
    explicit kind_of_rows(Rows const& rows) noexcept
        : vocabulary(rows.vocabulary), type(&of_type<typename Rows::element>), entry_bytes(sizeof *rows.data) {
        if constexpr (has_candidates<Rows>) candidates = rows.candidates;
    }

    /// Throws for rows of another vocabulary, of candidates instead of all tokens or of other numbers of them, and of a
    /// type that need not hold the logits that children were drawn from.
    void refuse_others(kind_of_rows const& others) const {
        if (vocabulary == 0) return;
        if (others.vocabulary != vocabulary)
            refuse("draft.vocabulary", others.vocabulary,
                   "children were drawn from rows of " + std::to_string(vocabulary) + " tokens");
        if (others.candidates != candidates)
            refuse("draft.candidates", others.candidates,
                   "children were drawn from rows of " +
                       (candidates == 0 ? std::string("all tokens") : std::to_string(candidates) + " candidates"));
        if (others.type != type && others.entry_bytes <= entry_bytes)
            refuse("draft.data", "logits of another type",
                   "children were drawn from logits of " + std::to_string(8 * entry_bytes) +
                       " bits, which these need not be");
    }

private:
    template <class T>
    static constexpr char of_type = 0;
};

/// The nodes of a call: how many there are, and which.
template <class Node>
using step_nodes = std::pair<std::int64_t, Node>;

/// The rows of a call's nodes. `sampling`: of the requests.
template <class Node, class T, class Layout>
[[nodiscard]] logit_batch<T, Layout> rows_of_nodes(step_model& model, step_nodes<Node> const& nodes,
                                                   rows_of_batch<T, Layout> rows,
                                                   std::vector<sampling_params> const& sampling) {
    auto const number = [rows](std::int64_t row) { return rows.row(row); };
    rows.row_of = model.numbers(model.rows, nodes.first, nodes.second, 0, number);
    return logit_batch<T, Layout>(rows, batch_sampling{sampling.data(), {}, {}, nullptr});
}
template <class Node, class T>
[[nodiscard]] candidate_batch<T> rows_of_nodes(step_model& model, step_nodes<Node> const& nodes,
                                               candidate_batch<T> const& rows,
                                               std::vector<sampling_params> const& sampling) {
    return {rows_of_nodes(model, nodes, static_cast<rows_of_batch<T> const&>(rows), sampling), rows.tokens,
            rows.candidates};
}

/// Rows without masks and biases.
struct as_they_are {
    template <class Rows>
    [[nodiscard]] Rows operator()(Rows const& rows) const {
        return rows;
    }
};

/// The masks and biases of a call's nodes.
template <class Node>
[[nodiscard]] logit_adjustments adjustments_of_nodes(step_model& model, step_nodes<Node> const& nodes,
                                                     logit_adjustments all) {
    auto const mask = [all](std::int64_t row) { return all.mask_number(row); };
    auto const bias = [all](std::int64_t row) { return all.bias_number(row); };
    auto const allowed_of = model.numbers(model.allowed, nodes.first, nodes.second, none, mask);
    all.bias_of = model.numbers(model.biases, nodes.first, nodes.second, none, bias);
    all.allowed_of = allowed_of;
    return all;
}

/// Rows in the place of the draft's where none is read: those of the target.
template <rows_of_step Rows, class Target>
[[nodiscard]] Rows unread_rows(Rows q, Target const& p) noexcept {
    static constexpr token_id first = 0;
    q.data = static_cast<typename Rows::element const*>(static_cast<void const*>(p.data));
    q.vocabulary = p.vocabulary;
    if constexpr (has_candidates<Rows>) {
        q.tokens = &first;
        q.candidates = 1;
    }
    return q;
}

/// Rows from a node of the call and a request on.
template <class Rows>
[[nodiscard]] Rows rows_from(Rows rows, std::int64_t node, std::int32_t request) {
    rows.row_of += node;
    rows.sampling += request;
    if constexpr (has_adjustments<Rows>) {
        rows.adjustments.allowed_of += node;
        rows.adjustments.bias_of += node;
    }
    return rows;
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
