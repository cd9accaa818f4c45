// Repeated drawing and verification of the children of one node, for estimating acceptance rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

namespace detail {

/// One row for every node of a tree.
class row_of_all_nodes {
public:
    /// The row belongs to the caller and must outlive this object.
    row_of_all_nodes(std::span<double const> row, index_t nodes) noexcept
        : row_(row.data(), static_cast<index_t>(row.size())), nodes_(nodes) {}

    [[nodiscard]] index_t rows() const noexcept { return nodes_; }
    [[nodiscard]] index_t size() const noexcept { return row_.size(); }
    template <group G>
    [[nodiscard]] probabilities<double> operator()(G const& /*g*/, node_id /*node*/) const noexcept {
        return row_;
    }

private:
    probabilities<double> row_;
    index_t nodes_;
};

}  // namespace detail

/// Draws the n children of a root from q and verifies them against p, as a trial for `analysis::estimate_acceptance`:
/// any sampler, and any verifier of its law, of single nodes or of whole trees.
///
/// Trial k has its own draws, functions of (seed, k) alone, so trials may be run in any order. The rows after the
/// children, which verifiers of whole trees read too, are p again: which child is accepted at a last level does not
/// depend on them. One object must be used by one thread at a time.
template <sampler Sampler, verify::verifier Verifier>
class node_trial {
public:
    /// `p` and `q` are copied, divided by their sums. Throws `invalid_input` for rows that are not distributions over
    /// one vocabulary and for n < 1.
    node_trial(Sampler sampler, Verifier verifier, std::span<double const> p, std::span<double const> q, index_t n,
               std::uint64_t seed = 0)
        : sampler_(sampler), verifier_(verifier), children_(n), seed_(seed) {
        analysis::detail::check_count(n);
        if (n >= max_nodes) refuse("n", n, "a tree has at most 2^24 nodes");
        rows_ = analysis::detail::checked(p, q);
    }

    /// The number of children.
    [[nodiscard]] index_t children() const noexcept { return children_; }

    /// The rank of the accepted child, in the order drawn, or `none`. Throws as the sampler and the verifier do.
    [[nodiscard]] index_t operator()(std::int64_t trial) {
        if (trial < 0 || trial > largest_number<std::int32_t>) refuse("trial", trial, "there are 2^31 trials");
        addressed_source source{addressed_uniforms(seed_)};
        return run(source, static_cast<std::int32_t>(trial));
    }

    /// The same with draws from any source, such as an enumerating one.
    template <draw_source Source>
    [[nodiscard]] index_t run(Source& source, std::int32_t position = 0) {
        host_group const g;
        probabilities<double> const q(rows_.q.data(), static_cast<index_t>(rows_.q.size()));
        auto sums = g.sum_chunks(q.size(), weight_of{q});
        tree_.tokens.assign(static_cast<std::size_t>(children_) + 1, none);
        tree_.tokens[0] = 0;
        drawn_children const drawn =
            sampler_(g, q, sums, source, draw_site{position, 0}, span<token_id>(tree_.tokens).subspan(1));
        auto const nodes = static_cast<std::size_t>(drawn.count) + 1;
        tree_.tokens.resize(nodes);
        tree_.parents.assign(nodes, 0);
        tree_.parents[0] = none;
        tree_.certain.assign(nodes, 0);
        tree_.certain[0] = drawn.certain;
        path_.assign(1, none);
        auto const count = static_cast<node_id>(nodes);
        verdict const found = verify::verify_tree(
            verifier_, g, make_drafted<typename Sampler::law>(tree_view{tree_.parents, tree_.tokens}, tree_.certain),
            target_rows(detail::row_of_all_nodes(rows_.p, count)), draft_rows(detail::row_of_all_nodes(rows_.q, count)),
            source, position, span<node_id>(path_), scratch_.of<Verifier>(count, drawn.count > 0 ? 1 : 0));
        return found.accepted > 0 ? path_[0] - 1 : none;
    }

private:
    /// The root and its children.
    struct tree {
        std::vector<token_id> tokens;
        std::vector<node_id> parents;
        std::vector<index_t> certain;
    };

    Sampler sampler_;
    Verifier verifier_;
    index_t children_;
    std::uint64_t seed_;
    analysis::detail::pair rows_;
    tree tree_;
    std::vector<node_id> path_;
    verify::scratch_memory scratch_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
