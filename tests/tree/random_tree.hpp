// Random trees for tests: parents in level order, from a fixed seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::test {

/// `n` nodes in level order; `reach` is how far back a parent may be: small is deep, large is wide.
inline std::vector<node_id> random_parents(node_id n, node_id reach, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<node_id> parents{none};
    for (node_id i = 1; i < n; ++i) {
        node_id const low = std::max(parents.back(), std::max(0, i - reach));
        auto const choices = static_cast<std::uint64_t>(i - low);
        // Mostly the lowest: siblings come in runs.
        std::uint64_t const step = random() % 2 == 0 ? 0 : std::min<std::uint64_t>(random() % 3, choices - 1);
        parents.push_back(low + static_cast<node_id>(step));
    }
    return parents;
}

/// The brute-force reference for every mask: whether j is i or an ancestor of i.
inline bool attends(std::vector<node_id> const& parents, node_id i, node_id j) {
    for (node_id v = i; v >= 0; v = parents[static_cast<std::size_t>(v)])
        if (v == j) return true;
    return false;
}

}  // namespace multidraft::test
