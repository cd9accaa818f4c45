// Multi-round verification: candidates of several draft models, one after another.
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
#include "multidraft/verify/detail/reject_in_turn.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Multi-round speculative sampling over several draft models ([SpecInfer], Algorithm 2): recursive rejection where
/// each candidate k has its own distribution q_k: accept x_k with min(1, r_k(x_k) / q_k(x_k)), else r_{k+1} = Norm[(r_k
/// - q_k)+]; after the last candidate emit from the residual.
///
/// Lossless for `law::independent`. `draft(g, node, k)` is the row of child k of a node (`rows_of_models` of
/// `independent_drafter`); with one model it decides as `recursive_rejection<law::iid>`. Cost: for each rejection a
/// pass over p and the rows of all candidates refused so far, since the residual is recomputed from them. Up to 64
/// children per node; more are an `invalid_input` on the host, "no token" elsewhere.
template <draft_law Law>
class multi_round : public node_by_node<multi_round<Law>, Law> {
    static_assert(
        std::is_same_v<Law, law::independent>,
        "multidraft: verify::multi_round is for candidates of several draft models, law::independent; for one "
        "model use verify::recursive_rejection");

public:
    static constexpr std::size_t most_children = 64;
    static constexpr verifier_traits traits{
        .lossless = true, .reads_rows_of_children = true, .most_children = index_t{most_children}};

    /// The decision at one node: `rows.of_child(k)` is the row that candidate k was drawn from. No token where it gives
    /// the candidate no mass.
    template <group G, distribution P, class Rows, draw_source Source>
    [[nodiscard]] MULTIDRAFT_HD node_verdict decide(G const& g, P const& p, Rows const& rows,
                                                    span<token_id const> candidates, Source& source,
                                                    draw_site site) const {
        return detail::reject_in_turn<most_children>(g, p, rows, candidates, source, site,
                                                     "multi-round verification takes up to 64 candidates");
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
