// Rows whose errors name the model and the node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/no_draft_rows.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The rows of a tree under a name: an `invalid_input` about the row of node 3 has the argument `target row of node 3`
/// and that node. For hosts; the rows are otherwise unchanged.
template <class Rows>
class named_rows {
public:
    /// The rows and the name belong to the caller and must outlive this object.
    named_rows(Rows const& rows, char const* name) noexcept : rows_(rows), name_(name) {}

    [[nodiscard]] auto rows() const { return rows_.rows(); }
    [[nodiscard]] auto size() const { return rows_.size(); }
    template <group G>
    requires row_source<Rows, G>
    [[nodiscard]] auto operator()(G const& g, node_id node) const {
        return under_name(node, [&] { return rows_(g, node); });
    }
    template <group G>
    requires child_row_source<Rows, G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t child) const {
        return under_name(node, [&] { return rows_(g, node, child); });
    }
    template <group G>
    requires has_with_sums<Rows, G>
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        return under_name(node, [&] { return rows_.with_sums(g, node); });
    }
    template <group G>
    requires has_prefetch<Rows, G, node_range>
    void prefetch(G const& g, node_range nodes) const { rows_.prefetch(g, nodes); }

private:
    template <class Ask>
    [[nodiscard]] auto under_name(node_id node, Ask const& ask) const {
        try {
            return ask();
        } catch (invalid_input const& e) {
            if (e.node() != none) throw;  // already named
            std::string const row = std::string(name_) + " row of node " + std::to_string(node);
            // A row of logits is called `logits` or `target logits` in errors, and its size `logits.size`.
            std::string const& argument = e.argument();
            std::size_t const end = argument.find("logits");
            throw invalid_input(end == std::string::npos ? argument + " of the " + row : row + argument.substr(end + 6),
                                e.index(), e.value(), e.reason(), node);
        }
    }

    Rows const& rows_;
    char const* name_;
};

/// The rows under a name where errors are thrown; otherwise, and for `no_draft_rows`, the rows themselves.
template <class G, class Rows>
[[nodiscard]] MULTIDRAFT_HD decltype(auto) named(Rows const& rows, [[maybe_unused]] char const* name) {
#if MULTIDRAFT_ON_DEVICE
    return (rows);
#else
    if constexpr (G::throws && !std::is_same_v<Rows, no_draft_rows>)
        return named_rows<Rows>(rows, name);
    else
        return (rows);
#endif
}

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
