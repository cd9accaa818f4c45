// Rows that are normalised once, however often a verifier reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A row that `remembered_rows` has normalised, or not yet.
template <class Row>
struct remembered_row {
    Row value{};
    bool is_known = false;
};

/// The memory of `remembered_rows`: a few numbers for each node. Reused from step to step it allocates nothing more.
template <class Row>
struct row_memory {
    std::vector<remembered_row<Row>> rows;
};

/// The rows of a tree, each normalised when first read and then remembered. For verifiers of whole trees, which read a
/// row several times, over rows that cost passes to normalise (`logit_rows`). Rows that are never read are never
/// normalised. The bits are the same as without. On the host: `G` is the group that the type of a row is taken from,
/// and any of one lane reads them.
template <class Rows, group G = host_group>
class remembered_rows {
public:
    using row = std::decay_t<decltype(std::declval<Rows const&>()(std::declval<G const&>(), node_id{}))>;

    /// In memory of the caller's: `memory[v]` for row v, one for each row, none of them known.
    remembered_rows(Rows rows, span<remembered_row<row>> memory) : rows_(std::move(rows)), memory_(memory) {}
    /// Forgets what `memory` has, and resizes it to the number of rows where it is smaller.
    remembered_rows(Rows rows, row_memory<row>& memory)
        : rows_(std::move(rows)), memory_(forgotten(memory.rows, rows_.rows())) {}

    [[nodiscard]] auto rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] auto size() const noexcept { return rows_.size(); }
    /// The row: normalised now, or remembered.
    template <group Other>
    [[nodiscard]] row operator()(Other const& g, node_id node) const {
        remembered_row<row>& here = memory_[node];
        if (!here.is_known) here = {rows_(g, node), true};
        return here.value;
    }
    /// The row with the chunk sums of its weights: one pass if the row is remembered.
    template <group Other>
    requires has_with_sums<Rows, Other>
    [[nodiscard]] auto with_sums(Other const& g, node_id node) const {
        using answer = decltype(rows_.with_sums(g, node));
        remembered_row<row>& here = memory_[node];
        // The chunk sums of a truncated row are made from its weights, those of others together with the normaliser, in
        // the same pass.
        if (here.is_known && !here.value.may_have_all_mass())
            return answer{here.value, g.sum_chunks(here.value.size(), weight_of{here.value})};
        answer made = rows_.with_sums(g, node);
        here = {made.row, true};
        return made;
    }

private:
    static span<remembered_row<row>> forgotten(std::vector<remembered_row<row>>& memory, index_t rows) {
        auto const n = static_cast<std::size_t>(rows);
        if (memory.size() < n) memory.resize(n);
        span<remembered_row<row>> const used(memory.data(), n);
        for (remembered_row<row>& one : used) one.is_known = false;
        return used;
    }

    Rows rows_;
    span<remembered_row<row>> memory_;
};
template <class Rows>
remembered_rows(Rows, row_memory<typename remembered_rows<Rows>::row>&) -> remembered_rows<Rows>;

}  // namespace MULTIDRAFT_NAMESPACE
