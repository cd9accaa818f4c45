// The target's rows of a tree as distributions, each warped once, when a verifier first asks for it.
#pragma once

#include <cstddef>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/distribution/row_view.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/distribution/warp.hpp"

namespace multidraft {

/// `logit_rows` that remember: a verifier that weighs whole trees asks for a row several times, and its normaliser
/// costs a pass. Only rows that are asked for are read. The memory is the caller's and is kept from one step to the
/// next.
template <class T>
class warped_rows {
public:
    using real = real_of<T>;
    using row = softmax_row<row_view<T>>;

    warped_rows(rows_view<T> rows, warp const& w, std::vector<row>& memory, std::vector<char>& known)
        : rows_(rows), warp_(w), memory_(memory), known_(known) {
        auto const n = static_cast<std::size_t>(rows.rows());
        if (memory.size() < n) memory.resize(n);
        known.assign(n, 0);
    }

    [[nodiscard]] index_t rows() const noexcept { return rows_.rows(); }
    [[nodiscard]] index_t size() const noexcept { return rows_.size(); }
    template <group G>
    [[nodiscard]] row operator()(G const& g, node_id node) const {
        auto const i = static_cast<std::size_t>(node);
        return known_[i] != 0 ? memory_[i] : weighed(g, node).row;
    }
    /// The row with the ledger of its weights: made anew, which costs little more than the ledger alone.
    template <group G>
    [[nodiscard]] auto weighed(G const& g, node_id node) const {
        auto result = warped(g, rows_(node), warp_, "target logits");
        auto const i = static_cast<std::size_t>(node);
        memory_[i] = result.row;
        known_[i] = 1;
        return result;
    }

private:
    rows_view<T> rows_;
    warp warp_;
    std::vector<row>& memory_;
    std::vector<char>& known_;
};

}  // namespace multidraft
