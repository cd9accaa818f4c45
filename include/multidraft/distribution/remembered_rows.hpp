// Rows that are made once, however often a verifier asks for them.
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

/// What `remembered_rows` remembers: a few numbers a node. Kept from one step to the next it allocates no more.
template <class Row>
struct row_memory {
    std::vector<Row> rows;
    std::vector<char> known;
};

/// The rows of a tree, each made when it is first asked for and remembered: for verifiers of whole trees, which ask for
/// a row several times, where making a row costs passes over it (`logit_rows`). Rows that are not asked for are not
/// made. On the host.
template <class Rows>
class remembered_rows {
public:
    using row = std::decay_t<decltype(std::declval<Rows const&>()(std::declval<host_group const&>(), node_id{}))>;

    /// Forgets what `memory` has, and makes room for as many rows as there are.
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
    /// The row with the chunk sums of its weights: one pass where the row is known.
    template <group G>
    requires has_with_sums<Rows, G>
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        using answer = decltype(rows_.with_sums(g, node));
        auto const i = static_cast<std::size_t>(node);
        // Of a row that was cut the chunk sums are made from its weights, of others with the normaliser, by the same
        // pass.
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
