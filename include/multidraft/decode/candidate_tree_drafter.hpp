// The base of drafters that grow a candidate tree: access to the arranged tree for the loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The base of drafters that add nodes to `tree_` in any order and arrange them: the members of a `drafter` that
/// concern its nodes.
template <draft_law Law>
class candidate_tree_drafter {
public:
    using law = Law;

    [[nodiscard]] node_id size() const noexcept { return tree_.nodes().size(); }
    [[nodiscard]] drafted<law> tree() const noexcept {
        static_assert(!counts_certain<law>, "multidraft: a candidate tree does not say which children are certain");
        return {tree_.nodes().tree()};
    }
    [[nodiscard]] std::span<token_id const> tokens() const noexcept { return tree_.nodes().tokens; }
    [[nodiscard]] std::span<std::int32_t const> positions() const noexcept { return tree_.nodes().positions; }
    [[nodiscard]] mask_view mask() const noexcept { return tree_.mask(); }

protected:
    /// A node as an index.
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// The next input of the draft: these nodes, whose parents were read.
    [[nodiscard]] draft::draft_inputs inputs(draft::draft_reader& reader, std::span<node_id const> nodes,
                                             generation_metrics& m) {
        detail::stopwatch const time(m.mask_seconds);
        reader.begin();
        for (node_id const v : nodes) reader.add(tree_, v);
        return reader.inputs();
    }

    tree_builder tree_;
};

}  // namespace MULTIDRAFT_NAMESPACE
