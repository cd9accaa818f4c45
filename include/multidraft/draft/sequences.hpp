// Independent sequences that share a node while they agree: how often each token was drawn, and by which draw first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// For K sequences drawn independently token by token ([SpecTr]): those that agree so far share a node of the tree and
/// draw its children, one each, so the children's law is `iid`. A token that m of them drew is m children. The first of
/// these has m children in turn; the others are leaves.
///
/// Writes to `continuing[k]` how many sequences continue below the k-th draw: the number of equal draws for the first
/// of them, 0 for the others. O(K^2). `continuing` is as long as `drawn`.
MULTIDRAFT_HD inline void share_nodes(span<token_id const> drawn, span<index_t> continuing) {
    for (std::size_t k = 0; k < drawn.size(); ++k) {
        std::size_t first = 0;
        while (drawn[first] != drawn[k]) ++first;
        continuing[k] = 0;
        ++continuing[first];
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
