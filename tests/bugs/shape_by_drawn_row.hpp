// Bug: a shape that is chosen from "all rows", of which one, and the confidence in it, are of a token that was drawn.
#pragma once

#include <algorithm>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"

namespace multidraft::bugs {

/// The shape of a tree of two levels from the rows of its depths (`draft::shape_of_rows`). Rightly the row of the
/// second depth, and the confidence in it, are those after the likeliest token of the first. `drawn`: those after the
/// larger token of two that were drawn, so that a node's subtree depends on its sibling.
inline testing::shape_rule shape_of_depths(testing::model_pair const& models, bool drawn) {
    return {drawn ? "shape_by_drawn_row" : "shape_of_rows", [&models, drawn](testing::undrawn_node const& v) {
                if (v.node == 0) return index_t{2};
                auto const falling = [](std::vector<double> row) {
                    std::sort(row.rbegin(), row.rend());
                    return row;
                };
                auto const& first = models.draft[0];
                auto const likeliest =
                    static_cast<token_id>(std::max_element(first.begin(), first.end()) - first.begin());
                token_id const before = drawn ? std::max(v.tree.tokens[1], v.tree.tokens[2]) : likeliest;
                std::vector<std::vector<double>> const rows{falling(first),
                                                            falling(models.draft[models.draft.after(0, before)])};
                double const confidence = before % 2 == 0 ? 0.9 : 0.01;
                std::vector<draft::depth_outlook> const outlook{{rows[0], {}},
                                                                {rows[1], draft::child_rates{}.scaled_to(confidence)}};
                topology const shape =
                    draft::shape_of_rows(draft::iid{}, outlook, {.nodes = 6, .children = 2, .least = 0.02});
                // The node at the same place: a child of the root.
                return v.depth > 1 || v.node >= shape.size() ? index_t{0} : shape.child_count(v.node);
            }};
}

}  // namespace multidraft::bugs
