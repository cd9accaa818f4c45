// The rows that the children of a step's nodes were drawn from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/detail/step_arrays.hpp"
#include "multidraft/batch/detail/step_rows.hpp"
#include "multidraft/tree/absent_tokens.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// Of which kind the draft's rows are, and whether a mask and a bias changed that of each node whose children were
/// drawn: a verifier that divides by the draft's probabilities must read the same rows.
class step_draws {
public:
    void clear() noexcept {
        of_.clear();
        refused_.clear();
        rows_ = {};
    }
    /// Begins the draws of that many nodes.
    void start(std::int64_t nodes) { of_.assign(index_of(nodes), not_drawn); }
    /// The children of a level's nodes were drawn, with the draft's masks and biases of the call if it had some.
    /// `tokens`: of the nodes of all trees.
    void draw(step_level const& level, token_id const* tokens, step_model const& draft, bool adjusted,
              kind_of_rows const& rows) {
        if (!level.empty()) rows_ = rows;
        for (std::size_t e = 0; e < level.nodes.size(); ++e) {
            of_[index_of(level.node_index[e])] = how(draft, e, adjusted);
            // Every distribution has a token for the first child.
            if (tokens[level.first[e]] == support_ended) refused_.push_back(level.requests[e]);
        }
    }
    [[nodiscard]] bool refuses(std::int32_t b) const noexcept {
        return std::find(refused_.begin(), refused_.end(), b) != refused_.end();
    }
    /// The requests of which a row was no distribution.
    [[nodiscard]] std::vector<std::int32_t> const& refused() const noexcept { return refused_; }
    /// Whether any children were.
    [[nodiscard]] bool has_draws() const noexcept {
        return std::any_of(of_.begin(), of_.end(), [](char how) { return how != not_drawn; });
    }
    /// Throws `invalid_input` for rows of another kind than those of the draws so far.
    void check(kind_of_rows const& rows) const { rows_.refuse_others(rows); }
    /// Throws `invalid_input` where a node of request b had a mask or a bias at its draws and has none now, or the
    /// other way round. The draft's numbers are those of all nodes.
    void check(std::int32_t b, step_trees const& trees, step_model const& draft, bool adjusted) const {
        for (node_id v = 0; v < trees.shape(b).size(); ++v) {
            std::size_t const i = index_of(trees.index(b, v));
            if (i >= of_.size() || of_[i] == not_drawn) continue;
            if (char const now = how(draft, i, adjusted); now != of_[i]) refuse_other(b, v, i, now);
        }
    }

private:
    static constexpr char not_drawn = 0;
    static constexpr char plain = 1;  ///< with neither; masks and biases are added
    static constexpr char masked = 2;
    static constexpr char biased = 4;

    [[nodiscard]] static char how(step_model const& draft, std::size_t i, bool adjusted) noexcept {
        if (!adjusted) return plain;
        return static_cast<char>(plain + (draft.allowed[i] >= 0 ? masked : 0) + (draft.biases[i] >= 0 ? biased : 0));
    }
    [[noreturn]] MULTIDRAFT_COLD void refuse_other(std::int32_t b, node_id v, std::size_t i, char now) const {
        int const other = of_[i] ^ now;
        int const first = (other & masked) != 0 ? masked : biased;
        bool const had = (of_[i] & first) != 0;
        refuse("of_draft", static_cast<std::int64_t>(i),
               std::string(had ? "no " : "a ") + (first == masked ? "mask" : "bias"),
               "the children of node " + std::to_string(v) + " of request " + std::to_string(b) + " were drawn " +
                   (had ? "with one" : "without one") + ": verify with the masks and biases of the draws");
    }

    std::vector<char> of_;  ///< by node
    std::vector<std::int32_t> refused_;
    kind_of_rows rows_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
