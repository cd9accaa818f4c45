// How many levels a drafter that gives the rows of all of them in one call is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Asks for the levels that earlier steps gained from by more than their rows cost. Each row of a call is a pass over
/// the drafter's output matrix, and where trees are shallow most rows are never read.
///
/// It knows earlier steps alone, and never looks at draws: every verifier is lossless for its choice.
class asked_levels {
public:
    /// How many of `most` levels the next call is asked for, at least 1 where there is one. `draft`: seconds of a call
    /// by its levels; `price`: tokens that a second is worth. The first calls and every 16th ask for all, to see what
    /// they are worth now. O(most).
    [[nodiscard]] std::int32_t choose(std::int32_t most, analysis::call_cost const& draft, double price) {
        if (most <= 1 || calls_++ % all_every == 0) return most;
        std::int32_t best = 1;
        double sum = 0;
        double of_best = 0;
        for (std::int32_t l = 2; l <= most; ++l) {
            // What the steps of a text promise differs much from one to the next.
            if (static_cast<std::size_t>(l) > gains_.size() || gains_[static_cast<std::size_t>(l) - 1].count < enough)
                return most;
            sum += gains_[static_cast<std::size_t>(l) - 1].mean - price * (draft(l) - draft(l - 1));
            if (sum < of_best) continue;
            of_best = sum;
            best = l;
        }
        return best;
    }
    /// Counts a call: `best[l]` is what the best tree of at most l levels was worth in tokens, nondecreasing, from no
    /// level to all that were asked for.
    void learn(std::span<double const> best) {
        for (std::size_t l = 1; l < best.size(); ++l) {
            if (l > gains_.size()) gains_.push_back({});
            gain& one = gains_[l - 1];
            one.count += 1;
            one.mean += std::max(1 / one.count, slowest) * (best[l] - best[l - 1] - one.mean);
        }
    }

private:
    struct gain {
        double mean = 0;
        double count = 0;
    };
    static constexpr std::int64_t all_every = 16;
    static constexpr double enough = 12;         ///< calls that asked for a level, before it may be left out
    static constexpr double slowest = 1.0 / 32;  ///< weight of a call, once there were many

    std::vector<gain> gains_;  ///< by level, the first one's first
    std::int64_t calls_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE
