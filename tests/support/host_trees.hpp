// The sorts and scans of `build_trees.cuh` by Thrust, with an execution policy of the caller's choice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/cuda/level_order.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// `build_trees` on the CPU through Thrust: the same functions, the same result. `policy`: `thrust::host`,
/// `thrust::seq`, `thrust::omp::par`, .. All pointers are to host memory. O(N log N depth). Throws `invalid_input` for
/// the first request that is not a tree, after writing the trees and `out.faults`.
template <class Policy>
void build_trees_on_host(Policy const& policy, tree_batch const& trees, built_trees const& out) {
    std::int64_t const nodes = trees.nodes;
    auto const n = static_cast<std::size_t>(nodes);
    std::vector<std::int64_t> keys(n);
    std::vector<std::int32_t> request(n), depth(n), faults(static_cast<std::size_t>(trees.requests));
    std::vector<node_id> place(n);
    detail::build_scratch const scratch{keys.data(), request.data(), depth.data(), place.data()};
    auto const each = [&](std::int64_t count, auto const& body) {
        thrust::for_each(policy, thrust::counting_iterator<std::int64_t>(0),
                         thrust::counting_iterator<std::int64_t>(count), body);
    };
    each(trees.requests, detail::find_root{trees, scratch});
    each(nodes, detail::locate_node{trees, scratch});
    thrust::stable_sort(policy, keys.begin(), keys.end(), detail::before_in_level_order{trees, scratch});
    each(nodes, detail::number_node{trees, scratch});
    each(nodes, detail::write_node{trees, scratch, out});
    each(trees.requests, detail::count_lost{trees, scratch, faults.data()});
    if (out.faults != nullptr) std::copy(faults.begin(), faults.end(), out.faults);
    for (std::size_t b = 0; b < faults.size(); ++b)
        if (faults[b] != 0)
            refuse("parents", static_cast<std::int64_t>(b), faults[b],
                   "nodes of this request are not connected to the root");
}

/// `write_offsets` on the CPU, through Thrust: offsets[0] = 0, offsets[b + 1] = offsets[b] + sizes[b].
template <class Policy>
void write_offsets_on_host(Policy const& policy, std::int32_t const* sizes, std::int32_t requests,
                           std::int64_t* offsets) {
    offsets[0] = 0;
    auto const begin = thrust::make_transform_iterator(sizes, detail::to_long{});
    thrust::inclusive_scan(policy, begin, begin + requests, offsets + 1, detail::add_long{});
}

/// `write_best` on the CPU, through Thrust. All pointers are to host memory.
template <class Policy>
void write_best_on_host(Policy const& policy, tree_batch const& trees, float const* scores, std::int32_t wanted,
                        node_id* out) {
    std::int64_t const nodes = trees.nodes;
    std::vector<std::int64_t> keys(static_cast<std::size_t>(nodes));
    std::vector<std::int32_t> request(static_cast<std::size_t>(nodes));
    auto const each = [&](std::int64_t count, auto const& body) {
        thrust::for_each(policy, thrust::counting_iterator<std::int64_t>(0),
                         thrust::counting_iterator<std::int64_t>(count), body);
    };
    each(nodes, detail::init_score_key{trees, keys.data(), request.data()});
    thrust::stable_sort(policy, keys.begin(), keys.end(), detail::before_by_score{scores, request.data()});
    each(std::int64_t{trees.requests} * wanted, detail::write_best_node{trees, keys.data(), wanted, out});
}

}  // namespace MULTIDRAFT_NAMESPACE::cuda
