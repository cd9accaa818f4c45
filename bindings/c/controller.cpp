// Trees chosen at each step.
// SPDX-License-Identifier: Apache-2.0
#include "multidraft/control/controller.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "multidraft.h"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/topology.hpp"

using namespace multidraft;
using namespace multidraft::c_interface;

/// A controller and the shape that it chose last.
struct md_controller {
    controller inner;
    topology chosen;
};

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

analysis::call_cost cost_of(std::int32_t const* rows, double const* seconds, std::int64_t points, char const* name) {
    std::string const argument = std::string("times.") + name;
    if (points < 1) refuse(argument + "_points", points, "a cost is measured for one number of rows or more");
    auto const of_rows = array(rows, points, (argument + "_rows").c_str());
    auto const of_seconds = array(seconds, points, (argument + "_seconds").c_str());
    std::vector<std::pair<std::int32_t, double>> pairs;
    for (std::size_t k = 0; k < of_rows.size(); ++k) {
        auto const index = static_cast<std::int64_t>(k);
        if (of_rows[k] < 1 || (k > 0 && of_rows[k] <= of_rows[k - 1]))
            refuse(argument + "_rows", index, of_rows[k], "numbers of rows are 1 or more, and increase");
        if (!(of_seconds[k] >= 0) || !std::isfinite(of_seconds[k]))
            refuse(argument + "_seconds", index, of_seconds[k], "seconds are finite and not negative");
        pairs.emplace_back(of_rows[k], of_seconds[k]);
    }
    return analysis::call_cost(std::move(pairs));
}

double seconds_of(double value, char const* name) {
    if (!(value >= 0) || !std::isfinite(value)) refuse(name, value, "seconds are finite and not negative");
    return value;
}

controller_options options_of(md_controller_options const* given) {
    if (given == nullptr) return {};
    md_controller_options const o = read(given, "options");
    controller_options result;
    result.nodes = o.nodes;
    result.depth = o.depth;
    result.children = o.children;
    result.memory = o.memory;
    result.prior = o.prior;
    result.slack = o.slack;
    result.credit = o.credit;
    result.explore_every = o.explore_every;
    result.search_every = o.search_every;
    result.learns_times = o.learns_times != 0;
    return result;
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

md_status md_make_controller(md_step_times const* times, md_controller_options const* options, md_controller** made) {
    return guarded([&] {
        refuse_null(made, "controller");
        md_step_times const t = read(times, "times");
        step_times seconds{cost_of(t.target_rows, t.target_seconds, t.target_points, "target"),
                           cost_of(t.draft_rows, t.draft_seconds, t.draft_points, "draft"),
                           {{seconds_of(t.step, "times.step"), seconds_of(t.inner, "times.inner")}}};
        controller_options const chosen = options_of(options);
        try {
            *made =
                std::make_unique<md_controller>(md_controller{controller(std::move(seconds), chosen), {}}).release();
        } catch (invalid_input const& e) {  // the times have been checked
            refuse_member("options", e);
        }
    });
}

void md_free_controller(md_controller* c) { delete c; }

md_status md_start_text(md_controller* c) {
    return guarded([&] {
        refuse_null(c, "controller");
        c->inner.start();
    });
}

md_status md_choose_tree(md_controller* c, std::int32_t depth, std::int32_t unread, std::int32_t* parents,
                         std::int64_t* nodes) {
    return guarded([&] {
        refuse_null(c, "controller");
        refuse_null(parents, "parents");
        refuse_null(nodes, "nodes");
        if (depth < 0) refuse("depth", depth, "a number of levels is not negative");
        if (unread < 1) refuse("unread", unread, "the root at least has not been read");
        step_situation situation;
        situation.depth = depth;
        situation.unread = unread;
        c->chosen = c->inner.choose(situation);
        std::copy(c->chosen.parents().begin(), c->chosen.parents().end(), parents);
        *nodes = c->chosen.size();
    });
}

md_status md_learn_step(md_controller* c, std::int64_t nodes, std::int32_t const* path, std::int64_t accepted,
                        double target_seconds, double draft_seconds, double other_seconds) {
    return guarded([&] {
        refuse_null(c, "controller");
        topology const& shape = c->chosen;
        bool whole_levels = nodes == shape.size();
        for (std::int32_t d = 0; d < shape.max_depth(); ++d)
            whole_levels = whole_levels || nodes == shape.level(d + 1).first;
        if (!whole_levels)
            refuse("nodes", nodes,
                   "the tree that was chosen has " + std::to_string(shape.size()) +
                       " nodes, of which all or the first levels are drafted");
        auto const of_path = array(path, accepted, "path");
        node_id node = 0;
        for (std::size_t k = 0; k < of_path.size(); ++k) {
            if (of_path[k] < 1 || of_path[k] >= nodes || shape.parent(of_path[k]) != node)
                refuse("path", static_cast<std::int64_t>(k), of_path[k],
                       "a path leads from the root to children of the tree that was chosen");
            node = of_path[k];
        }
        // The first levels are a tree, too. What a controller learns does not depend on tokens.
        tree_view const drafted{shape.parents().first(static_cast<std::size_t>(nodes)), {}};
        c->inner.learn({drafted, {of_path.data(), of_path.size()}, {target_seconds, draft_seconds, other_seconds}});
    });
}

md_status md_current_times(md_controller const* c, std::int32_t rows, double* target, double* draft, double* step,
                           double* inner) {
    return guarded([&] {
        refuse_null(c, "controller");
        if (rows < 1) refuse("rows", rows, "a call has one row or more");
        step_times const& times = c->inner.times();
        if (target != nullptr) *target = times.target(rows);
        if (draft != nullptr) *draft = times.draft(rows);
        if (step != nullptr) *step = times.library.front().step;
        if (inner != nullptr) *inner = times.library.front().inner;
    });
}
