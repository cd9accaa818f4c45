// Where in the text and in the tree a draw happens: the part of an address that a whole node shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/random/address.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Where a draw happens: the position of the root in the text and the node whose children are drawn or verified.
struct draw_site {
    std::int32_t position = 0;
    node_id node = 0;

    /// The address of a draw for a purpose; `index` distinguishes draws with the same purpose at one node.
    [[nodiscard]] MULTIDRAFT_HD constexpr address operator()(purpose use, index_t index) const noexcept {
        return {position, node, use, index};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
