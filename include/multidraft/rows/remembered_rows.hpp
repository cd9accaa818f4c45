// Rows that are normalised once, however often a verifier reads them: all beforehand, or each when first read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Rows that were processed before, such as the draft's, whose normalisers were made when its tokens were drawn.
/// `Entry` is a distribution, or a `processed_row`, which has the chunk sums of its weights too.
template <class Entry>
class prepared_rows {
public:
    /// Row v is that of node v; the array belongs to the caller and outlives this object.
    MULTIDRAFT_HD prepared_rows(span<Entry const> rows, index_t vocabulary) noexcept : rows_(rows), size_(vocabulary) {}

    [[nodiscard]] MULTIDRAFT_HD constexpr index_t rows() const noexcept { return static_cast<index_t>(rows_.size()); }
    [[nodiscard]] MULTIDRAFT_HD constexpr index_t size() const noexcept { return size_; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const&, node_id node) const {
        if constexpr (distribution<Entry>)
            return rows_[node];
        else
            return rows_[node].row;
    }
    template <group G>
    requires(!distribution<Entry>) [[nodiscard]] MULTIDRAFT_HD Entry const& with_sums(G const&, node_id node) const {
        return rows_[node];
    }

private:
    span<Entry const> rows_;
    index_t size_;
};

namespace detail {

/// A row that `remembered_rows` has normalised, or not yet.
template <class Row>
struct remembered_row {
    Row value{};
    bool is_known = false;
};

/// Rows that are normalised at each read, so that there is something to remember.
template <class Rows>
concept normalised_when_read = has_with_sums<Rows, host_group> && std::default_initializable<row_of<Rows, host_group>>;

}  // namespace detail

/// The memory of the rows of a tree: a few numbers for each node, or nothing for rows that need no normalising. Reused
/// from step to step it allocates nothing more. It serves one set of rows at a time: target and draft have one each.
template <class Rows>
struct row_memory {};
/// The memory of rows that are normalised when they are read.
template <detail::normalised_when_read Rows>
struct row_memory<Rows> {
    std::vector<detail::remembered_row<row_of<Rows, host_group>>> rows;
};

/// The rows of a tree, each normalised when first read and then remembered. For verifiers of whole trees, which read a
/// row several times, over rows that cost passes to normalise (`logit_rows`). Rows that are never read are never
/// normalised. The bits are the same as without. On the host: `G` is the group that the type of a row is taken from,
/// and any of one lane reads them.
template <class Rows, group G = host_group>
class remembered_rows {
public:
    using row = row_of<Rows, G>;

    /// In memory of the caller's: `memory[v]` for row v, one for each row, none of them known.
    remembered_rows(Rows rows, span<detail::remembered_row<row>> memory) : rows_(std::move(rows)), memory_(memory) {}
    /// Forgets what `memory` has, and resizes it to the number of rows where it is smaller.
    remembered_rows(Rows rows, row_memory<Rows>& memory)
        : rows_(std::move(rows)), memory_(forgotten(memory.rows, rows_.rows())) {}

    [[nodiscard]] auto rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return rows_.size(); }
    /// The row: normalised now, or remembered.
    template <group Other>
    [[nodiscard]] row operator()(Other const& g, node_id node) const {
        detail::remembered_row<row>& here = memory_[node];
        if (!here.is_known) here = {rows_(g, node), true};
        return here.value;
    }
    /// The row with the chunk sums of its weights: one pass if the row is remembered.
    template <group Other>
    requires has_with_sums<Rows, Other>
    [[nodiscard]] auto with_sums(Other const& g, node_id node) const {
        using answer = decltype(rows_.with_sums(g, node));
        detail::remembered_row<row>& here = memory_[node];
        // The chunk sums of a truncated row are made from its weights, those of others together with the normaliser, in
        // the same pass.
        if (here.is_known && !here.value.may_have_all_mass())
            return answer{here.value, g.sum_chunks(here.value.size(), weight_of{here.value})};
        answer made = rows_.with_sums(g, node);
        here = {made.row, true};
        return made;
    }

private:
    static span<detail::remembered_row<row>> forgotten(std::vector<detail::remembered_row<row>>& memory, index_t rows) {
        auto const n = static_cast<std::size_t>(rows);
        if (memory.size() < n) memory.resize(n);
        span<detail::remembered_row<row>> const used(memory.data(), n);
        for (detail::remembered_row<row>& one : used) one.is_known = false;
        return used;
    }

    Rows rows_;
    span<detail::remembered_row<row>> memory_;
};
template <class Rows>
MULTIDRAFT_GUIDE remembered_rows(Rows, row_memory<Rows>&)->remembered_rows<Rows>;

/// The rows remembered in `memory`, or as they are where they need no normalising.
template <class Rows>
[[nodiscard]] auto remember(Rows const& rows, [[maybe_unused]] row_memory<Rows>& memory) {
    if constexpr (detail::normalised_when_read<Rows>)
        return remembered_rows<Rows>(rows, memory);
    else
        return rows;
}

}  // namespace MULTIDRAFT_NAMESPACE
