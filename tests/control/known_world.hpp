// A world of known costs and rates, for tests of what chooses trees.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::testing {

inline std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Accepts children by given rates, and counts seconds by given times.
struct world {
    step_times times;
    std::function<double(std::int32_t level, std::int32_t n)> rate;
    test_numbers numbers{7};

    /// The path that is accepted below the root of a shape; each rank half as likely as the one before.
    std::vector<node_id> step(topology const& shape) {
        std::vector<node_id> path;
        node_id node = 0;
        for (std::int32_t level = 0; shape.child_count(node) > 0; ++level) {
            std::int32_t const n = shape.child_count(node);
            if (!(numbers() < rate(level, n))) break;
            std::int32_t rank = 0;
            while (rank + 1 < n && numbers() < 0.5) ++rank;
            node = shape.first_child(node) + rank;
            path.push_back(node);
        }
        return path;
    }
    [[nodiscard]] step_seconds seconds(topology const& shape, std::int32_t unread, std::size_t verifier) const {
        step_seconds result;
        result.target = times.target(shape.size());
        double inner = 0;
        for (node_id v = 0; v < shape.size(); ++v) inner += shape.child_count(v) > 0 ? 1 : 0;
        for (std::int32_t d = 0; d < shape.max_depth(); ++d)
            result.draft += times.draft(d == 0 ? unread : shape.level(d).count);
        result.library = times.library[verifier].step + inner * times.library[verifier].inner;
        return result;
    }
};

inline double sum(step_seconds const& s) { return s.target + s.draft + s.library; }

/// -log(1 - rate) = x n^power: more children, more acceptance.
inline auto rates_of(double one, double power) {
    return [=](std::int32_t, std::int32_t n) { return 1 - std::pow(1 - one, std::pow(n, power)); };
}

/// Rows that are free, that cost a third of a call, and that cost a call each.
inline std::vector<step_times> costs() {
    return {
        {analysis::call_cost({{1, 1.0}, {64, 1.1}}), analysis::call_cost({{1, 0.02}, {64, 0.03}}), {{0.001, 0.001}}},
        {analysis::call_cost({{1, 1.0}, {2, 1.05}, {4, 1.2}, {8, 1.7}, {16, 2.5}, {32, 4.7}}),
         analysis::call_cost({{1, 0.04}, {32, 0.2}}),
         {{0.002, 0.002}}},
        {analysis::call_cost({{1, 1.0}, {64, 64.0}}), analysis::call_cost({{1, 0.3}, {64, 3.0}}), {{0.01, 0.02}}}};
}

}  // namespace multidraft::testing
