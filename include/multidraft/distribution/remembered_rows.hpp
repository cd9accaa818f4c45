// Rows that are normalised once, however often a verifier reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/core/optional_members.hpp"
#include "multidraft/distribution/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The memory of `remembered_rows`: a few numbers for each node. Reused from step to step it allocates nothing more.
template <class Row>
struct row_memory {
    std::vector<Row> rows;
    std::vector<char> known;
};

/// The rows of a tree, each normalised when first read and then remembered. For verifiers of whole trees, which read a
/// row several times, over rows that cost passes to normalise (`logit_rows`). Rows that are never read are never
/// normalised. On the host.
template <class Rows>
class remembered_rows {
public:
    using row = std::decay_t<decltype(std::declval<Rows const&>()(std::declval<host_group const&>(), node_id{}))>;

    /// Clears `memory` and resizes it to the number of rows.
    remembered_rows(Rows rows, row_memory<row>& memory) : rows_(std::move(rows)), memory_(memory) {
        auto const n = static_cast<std::size_t>(rows_.rows());
        if (memory.rows.size() < n) memory.rows.resize(n);
        memory.known.assign(n, 0);
    }

    [[nodiscard]] auto rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] auto size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] row operator()(G const& g, node_id node) const {
        auto const i = static_cast<std::size_t>(node);
        if (memory_.known[i] == 0) remember(node, rows_(g, node));
        return memory_.rows[i];
    }
    /// The row with the chunk sums of its weights: one pass if the row is remembered.
    template <group G>
    requires has_with_sums<Rows, G>
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        using answer = decltype(rows_.with_sums(g, node));
        auto const i = static_cast<std::size_t>(node);
        // The chunk sums of a truncated row are made from its weights, those of others together with the normaliser, in
        // the same pass.
        if (memory_.known[i] != 0 && !memory_.rows[i].may_have_all_mass())
            return answer{memory_.rows[i], g.sum_chunks(memory_.rows[i].size(), weight_of{memory_.rows[i]})};
        answer made = rows_.with_sums(g, node);
        remember(node, made.row);
        return made;
    }

private:
    void remember(node_id node, row const& made) const {
        auto const i = static_cast<std::size_t>(node);
        memory_.rows[i] = made;
        memory_.known[i] = 1;
    }

    Rows rows_;
    row_memory<row>& memory_;
};
template <class Rows>
remembered_rows(Rows, row_memory<typename remembered_rows<Rows>::row>&) -> remembered_rows<Rows>;

}  // namespace MULTIDRAFT_NAMESPACE
