// What a step costs: the times of both models by the rows of a call, and of the library, learnt from steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Seconds of a verifier, apart from the models' calls.
struct library_cost {
    double step = 0;   ///< of every step
    double inner = 0;  ///< of every node with children: drawing them, verifying them
};

/// Writes the rows of each call of a draft that goes level by level: what the draft lacked of the text, the root
/// included, then whole levels, of which a node has children. Returns the number of nodes with children. O(nodes).
inline std::int32_t draft_calls(tree_view const& tree, std::int32_t unread, std::vector<std::int32_t>& rows) {
    rows.clear();
    std::int32_t inner = 0;
    for (node_id begin = 0, end = 1; begin < end;) {
        node_id next = end;
        for (node_id v = begin; v < end; ++v) {
            node_range const children = tree.children(v);
            inner += children.count > 0 ? 1 : 0;
            next += children.count;
        }
        if (next > end) rows.push_back(begin == 0 ? unread : end - begin);
        begin = end;
        end = next;
    }
    return inner;
}

/// The cost of steps: the times of both models by the rows of a call, and of the library by verifier. A call of the
/// target with one row is one where nothing is drafted: a model that fits in the caches takes less time for it than
/// between calls of a draft, so one row and two are better measured apart.
struct step_times {
    analysis::call_cost target;
    analysis::call_cost draft;
    std::vector<library_cost> library;  ///< one for each verifier; at least one
    /// The draft is a `block_model`: one call a step, with a row for each level.
    bool draft_in_one_call = false;

    /// Throws `invalid_input` for no verifier, and for seconds that are negative or not finite.
    void validate() const {
        if (library.empty()) refuse("library.size", 0, "there is one verifier or more");
        for (std::size_t v = 0; v < library.size(); ++v)
            for (double const seconds : {library[v].step, library[v].inner})
                if (!(seconds >= 0) || !std::isfinite(seconds))
                    refuse("library", static_cast<std::int64_t>(v), seconds, "seconds are finite and not negative");
    }

    /// Moves the times by a twentieth towards those of a step that this verifier verified, before which the draft had
    /// not read `unread` tokens; that of one row by a quarter, since every choice is compared with it and few steps
    /// measure it. `levels`: those that a draft in one call was asked for; 0: those of the tree. `rows` is scratch
    /// memory. Throws `invalid_input` for a verifier without times.
    void learn(step_outcome const& outcome, std::size_t verifier, std::int32_t unread, std::vector<std::int32_t>& rows,
               std::int32_t levels = 0) {
        if (verifier >= library.size())
            refuse("verifier", verifier, "there are times of " + std::to_string(library.size()) + " verifiers");
        constexpr double weight = 0.05;
        constexpr double weight_of_nothing = 0.25;
        target.learn(outcome.tree.size(), outcome.seconds.target, outcome.tree.size() > 1 ? weight : weight_of_nothing);
        std::int32_t const inner = draft_calls(outcome.tree, unread, rows);
        if (draft_in_one_call && levels == 0) levels = static_cast<std::int32_t>(rows.size());
        if (draft_in_one_call && levels > 0) rows.assign(1, levels);
        if (!rows.empty() && outcome.seconds.draft > 0) {
            double whole = 0;
            for (std::int32_t const n : rows) whole += draft(n);
            double const seconds = outcome.seconds.draft;
            double const equal = seconds / static_cast<double>(rows.size());  // where nothing was expected
            for (std::int32_t const n : rows) draft.learn(n, whole > 0 ? seconds / whole * draft(n) : equal, weight);
        }
        library_cost& cost = library[verifier];
        double const before = cost.step + inner * cost.inner;
        double seconds = outcome.seconds.library;
        if (!(seconds >= 0) || !std::isfinite(seconds)) return;
        if (before > 0) seconds = std::clamp(seconds, before / 2, 2 * before);
        double const step = weight * (seconds - before);
        if (inner > 0)
            cost.inner = std::max(0.0, cost.inner + step / inner);
        else
            cost.step = std::max(0.0, cost.step + step);
    }
};

namespace detail {

/// The time of a text's steps against what their tokens would have taken without drafts.
struct time_balance {
    double spent = 0;
    double tokens = 0;
    int steps = 0;  ///< so far, of the first ones

    /// Counts a step that was expected to take `seconds`, by what it took (`by_clock`) as far as that is credible.
    void count(step_outcome const& outcome, double seconds, bool by_clock) {
        double const took = outcome.seconds.target + outcome.seconds.draft + outcome.seconds.library;
        // A step of more than twice the time expected was probably disturbed. The first ones of a text find other
        // things in the caches, and would take longer without drafts, too.
        constexpr int first = 6;
        if (steps < first)
            ++steps;
        else if (by_clock && took > 0)
            seconds = std::clamp(took, seconds / 2, 2 * seconds);
        spent += seconds;
        tokens += static_cast<double>(outcome.path.size() + 1);
    }
    /// The seconds that the next step may lose, where a step without drafts takes `nothing` by what is known now: on a
    /// machine that has become slower, earlier steps have not lost what none could have saved. `slack` and `credit` are
    /// those of `controller_options`.
    [[nodiscard]] double allowed(double slack, double credit, double nothing) const noexcept {
        return (tokens + credit) * nothing - (1 - slack) * spent;
    }
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
