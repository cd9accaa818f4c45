// Block verification: the tokens of one drafted path are accepted together, not one after another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// A law whose single child was drawn from q itself.
template <class Law>
inline constexpr bool draws_one_from_q =
    std::is_same_v<Law, law::iid> || std::is_same_v<Law, law::sequential> || std::is_same_v<Law, law::top_then_one> ||
    std::is_same_v<Law, law::conditional_poisson> || std::is_same_v<Law, law::stratified>;

/// A chain as `stop_of_block` reads it: level l is node l.
template <class Target, class Draft, class Real>
struct chain_path {
    tree_view tree;
    Target const& target_rows;
    Draft const& draft_rows;
    Real const* weights;
    std::int32_t levels;

    [[nodiscard]] MULTIDRAFT_HD std::int32_t length() const { return levels; }
    [[nodiscard]] MULTIDRAFT_HD node_id node(std::int32_t level) const { return level; }
    [[nodiscard]] MULTIDRAFT_HD token_id token(std::int32_t level) const { return tree.tokens[level]; }
    [[nodiscard]] MULTIDRAFT_HD Real weight(std::int32_t level) const { return weights[level]; }
    [[nodiscard]] MULTIDRAFT_HD Target const& target() const { return target_rows; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto conditional(G const& g, std::int32_t level) const {
        return draft_rows(g, level);
    }
};

}  // namespace detail

/// Block verification of one drafted path ([Block]): accepts a prefix of the path as a whole.
///
/// Weights w_0 = 1, w_i = min(1, w_{i-1} p(x_i) / q(x_i)); then, from the last level up, the path stops at level i with
/// the probability h_i of `stop_of_block`. Lossless. For every pair of models it accepts on average at least as many
/// tokens as `speculative_sampling`, and no lossless verifier of one path accepts more.
///
/// For chains: a node with more than one child is an `invalid_input` on the host ("no token" on a device); for trees
/// there is `traversal`. With one child per node the laws that draw it from q coincide: `law::iid`, `law::sequential`,
/// `law::conditional_poisson`, and `law::stratified` and `law::top_then_one` where that child is not certain (else
/// an `invalid_input`).
///
/// Cost: the two probabilities of each drafted token on the way down, which ends at a weight of 0; on the way up one
/// pass over p and q for each rejected level. `target(g, node)` is called up to twice for a node, so rows that cost a
/// pass to normalise are better prepared beforehand (`remembered_rows`).
template <draft_law Law>
class block : public whole_tree<block<Law>, Law> {
    static_assert(detail::draws_one_from_q<Law>,
                  "multidraft: verify::block divides by the law of the draw and is lossless for a token drawn from q "
                  "(law::iid, law::sequential, law::stratified and others with one child); for other laws, "
                  "law::deterministic among them, use verify::naive");

public:
    /// A node is accepted with its weight, whatever the shape below it: the shape carries no information about refused
    /// nodes.
    static constexpr verifier_traits traits{.lossless = true,
                                            .trees = allowed_trees::chains,
                                            .draws = allowed_draws::one,
                                            .shape_may_depend_on = shape_depends_on::earlier_siblings};

    /// One weight per level.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id /*nodes*/, std::int32_t depth) {
        return (static_cast<std::size_t>(depth) + 1) * sizeof(double);
    }

    /// The verdict on one path; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<Law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        tree_view const tree = drafts.tree;
        if (!detail::is_chain<G>(tree, "block verification takes one child per node; for trees use verify::traversal"))
            return {};
        auto* const weights = reinterpret_cast<real*>(scratch.data());
        if (g.leader()) weights[0] = 1;
        std::int32_t levels = 0;
        real w = 1;
        while (levels + 1 < tree.size() && w > 0) {
            auto const next = static_cast<std::size_t>(levels) + 1;
            token_id const x = tree.tokens[next];
            if (certain_of(drafts, {static_cast<node_id>(next), 1}, levels) != 0) {
                detail::refuse_on_host<G>("certain", levels, 1,
                                          "block verification divides by q and takes a draw; for certain children use "
                                          "verify::ranked_block");
                return {};
            }
            if constexpr (!G::throws)
                if (is_absent(x)) break;
            real const qx = draft(g, levels)(x);
            if (!(qx > 0)) {
                detail::refuse_node_on_host(g, drafts, target, draft, levels);
                return {};
            }
            w = detail::next_weight(w, target(g, levels)(x), qx);
            ++levels;
            if (g.leader()) weights[levels] = w;
        }
        g.barrier();
        detail::chain_path<std::decay_t<decltype(target)>, std::decay_t<decltype(draft)>, real> const chain{
            tree, target, draft, weights, levels};
        return detail::verify_block(g, tree, chain, source, position, path);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
