// Candidates of several draft models: the optimum, the law and the acceptance rates of a product of distributions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/research/any_law.hpp"

namespace MULTIDRAFT_NAMESPACE::research {

// `drafts[k]` is the row that candidate k is drawn from (`law::independent`; [SpecInfer]; [OptimalMDSD] 2.2, the
// product of different drafts). All functions throw `invalid_input` for no draft and for rows that are not
// distributions over the target's vocabulary.

namespace detail {

[[nodiscard]] inline std::vector<std::vector<double>> checked_drafts(std::size_t vocabulary,
                                                                     std::span<std::vector<double> const> drafts) {
    if (drafts.empty()) refuse("drafts.size", 0, "one token or more is drafted");
    std::vector<std::vector<double>> rows;
    for (std::size_t k = 0; k < drafts.size(); ++k) {
        std::string const name = "drafts[" + std::to_string(k) + "]";
        if (drafts[k].size() != vocabulary)
            refuse(name + ".size", drafts[k].size(), "target and draft have one vocabulary");
        rows.push_back(analysis::detail::checked(drafts[k], name.c_str()));
    }
    return rows;
}

}  // namespace detail

/// The law of the candidates, written out: V^n tuples. The input of the plan in tests/support/optimal_transport.hpp.
[[nodiscard]] inline tuple_law law_of_independent(std::span<std::vector<double> const> drafts) {
    auto const rows = detail::checked_drafts(drafts.empty() ? 0 : drafts.front().size(), drafts);
    return law_of_conditionals(static_cast<index_t>(rows.size()),
                               [&](std::span<token_id const> drawn) { return rows[drawn.size()]; });
}

/// alpha* of candidates from different drafts: Q(H) is the product of q_k(H). O(2^V n).
///
/// This Q is supermodular, but if the drafts differ it need not be q-convex for any q, so the minimum may not be at a
/// prefix of an order by q/p: all sets are tried, of at most 24 tokens. Also throws as `alpha_star_of_sets`.
[[nodiscard]] inline optimum_of_sets alpha_star_independent(std::span<double const> p,
                                                            std::span<std::vector<double> const> drafts) {
    auto const rows = detail::checked_drafts(p.size(), drafts);
    return alpha_star_of_sets(p, [&](token_set set) {
        double product = 1;
        for (auto const& row : rows) product *= std::min(detail::sum_over(set, row), 1.0);
        return product;
    });
}

/// Multi-round verification of candidates from different drafts ([SpecInfer], Algorithm 2): 1 - product of sum (r_k -
/// q_k)+, r_1 = p, r_{k+1} = Norm[(r_k - q_k)+]. O(V n), any V. The order of the drafts matters.
[[nodiscard]] inline double acceptance_multi_round(std::span<double const> p,
                                                   std::span<std::vector<double> const> drafts) {
    auto const rows = detail::checked_drafts(p.size(), drafts);
    return analysis::detail::accepted_in_turn(
        analysis::detail::checked(p, "p"),
        static_cast<index_t>(rows.size()), [&](index_t k) -> auto const& { return rows[static_cast<std::size_t>(k)]; });
}

/// Naive verification of candidates from different drafts: sum p (1 - product of (1 - q_k)). O(V n), any V.
[[nodiscard]] inline double acceptance_naive_independent(std::span<double const> p,
                                                         std::span<std::vector<double> const> drafts) {
    auto const rows = detail::checked_drafts(p.size(), drafts);
    auto const target = analysis::detail::checked(p, "p");
    double result = 0;
    for (std::size_t i = 0; i < target.size(); ++i) {
        double missed = 1;
        for (auto const& q : rows) missed *= 1 - q[i];
        result += target[i] * (1 - missed);
    }
    return std::min(result, 1.0);
}

}  // namespace MULTIDRAFT_NAMESPACE::research
