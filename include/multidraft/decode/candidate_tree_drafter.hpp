// The base of drafters that grow a candidate tree: access to the arranged tree for the loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/candidate_tree.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/mask_view.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The base of drafters that add nodes to `tree_` in any order and arrange them: the members of a `drafter` that
/// concern its nodes.
template <draft_law Law>
class candidate_tree_drafter {
public:
    using law = Law;

    [[nodiscard]] node_id size() const noexcept { return tree_.arranged_size(); }
    [[nodiscard]] drafted<law> tree() const noexcept {
        static_assert(!counts_certain<law>, "multidraft: a candidate tree does not say which children are certain");
        return {tree_.tree()};
    }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.tokens(); }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.positions(); }
    [[nodiscard]] mask_view mask() const noexcept { return tree_.mask(); }

protected:
    /// A node as an index.
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    candidate_tree tree_;
};

}  // namespace MULTIDRAFT_NAMESPACE
