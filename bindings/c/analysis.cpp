// Acceptance rates, what they are worth, and the trees that fit them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "kernels.hpp"
#include "methods.hpp"
#include "multidraft.h"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/k_seq.hpp"
#include "multidraft/analysis/naive.hpp"
#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/analysis/recursive_rejection.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/analysis/speculative_sampling.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/certain_selection.hpp"
#include "multidraft/testing/reference/ranked_node.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

using row = std::span<double const>;

/// Two rows that were checked, and how many children are drawn.
struct node {
    analysis::detail::pair rows;
    index_t n;

    node(double const* p, double const* q, std::int64_t vocabulary, index_t children)
        : rows(analysis::detail::checked(row(array(p, vocabulary, "p")), row(array(q, vocabulary, "q")))), n(children) {
        analysis::detail::check_count(n);
    }
    [[nodiscard]] analysis::ratio_rows sorted() const { return {rows.p, rows.q}; }
    [[nodiscard]] testing::certain_selection certain() const { return {draft::stratified{}, rows.q, n}; }
    void only(index_t count, std::string_view name) const {
        if (n != count) refuse("n", n, std::string(name) + " has n = " + std::to_string(count));
    }
};

double best_stratified(node const& at) {
    testing::certain_selection const chosen = at.certain();
    auto const certain = static_cast<index_t>(chosen.tokens.size());
    if (chosen.draws == 0) return analysis::alpha_star_deterministic(at.sorted(), certain);
    return analysis::alpha_star_stratified(at.sorted(), certain + chosen.draws, chosen.draws);
}

double best_top_then_one(node const& at) { return analysis::alpha_star_stratified(at.sorted(), at.n, 1); }

struct bound {
    std::string_view law;
    double (*rate)(node const& at);
};

constexpr std::array<bound, 7> bounds{{
    {"iid", [](node const& at) { return analysis::alpha_star_iid(at.sorted(), at.n); }},
    {"sequential", [](node const& at) { return analysis::alpha_star_sequential(at.sorted(), at.n); }},
    {"conditional_poisson",
     [](node const& at) {
         analysis::ratio_rows const rows = at.sorted();
         return analysis::alpha_star_conditional_poisson(rows, std::min(at.n, rows.support()));
     }},
    {"stratified", &best_stratified},
    {"top_then_one", &best_top_then_one},
    {"top_paired",
     [](node const& at) {
         at.only(2, "top_paired");
         return best_top_then_one(at);
     }},
    {"deterministic", [](node const& at) { return analysis::alpha_star_deterministic(at.sorted(), at.n); }},
}};

double ranked(node const& at, std::span<token_id const> certain, index_t draws) {
    auto const view = [](std::vector<double> const& of) {
        return probabilities<double>(of.data(), static_cast<index_t>(of.size()));
    };
    return testing::reference::ranked_node(view(at.rows.p), view(at.rows.q), certain, draws).acceptance();
}

analysis::estimated_rate of_prefixes(node const& at, md_estimation const& how) {
    analysis::ratio_rows const rows = at.sorted();
    if (analysis::can_walk_prefixes(rows.support(), at.n))
        return {analysis::acceptance_recursive_sequential(rows, at.n), 0};
    return analysis::estimate_recursive_sequential(rows, at.n, how.samples, how.seed);
}

struct formula {
    std::string_view method;
    analysis::estimated_rate (*rate)(node const& at, md_estimation const& how);
};

constexpr std::array<formula, 12> formulas{{
    {"recursive_rejection/sequential", &of_prefixes},
    {"recursive_rejection/gumbel_top_k", &of_prefixes},
    {"recursive_rejection/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::acceptance_recursive_iid(at.rows.p, at.rows.q, at.n), 0};
     }},
    {"speculative_sampling/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         at.only(1, "speculative_sampling/iid");
         return {analysis::acceptance_speculative_sampling(at.rows.p, at.rows.q), 0};
     }},
    {"naive/deterministic",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::alpha_star_deterministic(at.sorted(), at.n), 0};
     }},
    {"naive/sequential",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::acceptance_naive_sequential(at.rows.p, at.rows.q, at.n), 0};
     }},
    {"naive/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::acceptance_naive_iid(at.rows.p, at.rows.q, at.n), 0};
     }},
    {"k_seq/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::acceptance_k_seq(at.rows.p, at.rows.q, at.n), 0};
     }},
    {"greedy_optimal/top_then_one",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {best_top_then_one(at), 0};
     }},
    {"spec_hub/top_paired",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         at.only(2, "spec_hub/top_paired");
         return {best_top_then_one(at), 0};
     }},
    {"ranked/stratified",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         testing::certain_selection const chosen = at.certain();
         return {ranked(at, chosen.tokens, chosen.draws), 0};
     }},
    {"ranked/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {ranked(at, {}, at.n), 0};
     }},
}};

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

md_status md_alpha_star(char const* law, double const* p, double const* q, std::int64_t vocabulary, std::int32_t n,
                        double* rate) {
    return guarded([&] {
        refuse_null(law, "law");
        refuse_null(rate, "rate");
        std::string names;
        for (bound const& b : bounds) {
            if (b.law == law) {
                *rate = b.rate(node(p, q, vocabulary, n));
                return;
            }
            names += (names.empty() ? "" : ", ") + std::string(b.law);
        }
        refuse("law", law, "the laws with a bound are " + names);
    });
}

md_status md_acceptance(md_method const* method, double const* p, double const* q, std::int64_t vocabulary,
                        std::int32_t n, md_estimation const* how, double* rate, double* error) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        refuse_null(rate, "rate");
        md_estimation const wanted = how == nullptr ? md_estimation MD_ESTIMATION_INIT : read(how, "how");
        for (formula const& f : formulas) {
            if (f.method != m.name()) continue;
            analysis::estimated_rate const result = f.rate(node(p, q, vocabulary, n), wanted);
            *rate = result.mean;
            if (error != nullptr) *error = result.standard_error;
            return;
        }
        refuse("method", m.name(), "its acceptance rate at a node has no formula here");
    });
}

md_status md_block_efficiency(double const* rates, std::int64_t levels, double* efficiency) {
    return guarded([&] {
        refuse_null(efficiency, "efficiency");
        *efficiency = analysis::block_efficiency(row(array(rates, levels, "rates")));
    });
}

md_status md_improvement_factor(double alpha, std::int32_t depth, double cost, double* factor) {
    return guarded([&] {
        refuse_null(factor, "factor");
        *factor = analysis::improvement_factor(alpha, depth, cost);
    });
}

md_status md_memory_bound_speed_up(double efficiency, std::int32_t depth, double size_ratio, double* factor) {
    return guarded([&] {
        refuse_null(factor, "factor");
        *factor = analysis::memory_bound_speed_up(efficiency, depth, size_ratio);
    });
}

md_status md_optimal_tree(double const* rates, std::int32_t levels, std::int32_t ranks, std::int32_t nodes,
                          std::int32_t* parents, std::int64_t* count, double* accepted) {
    return guarded([&] {
        if (levels < 0 || levels > 4096) refuse("levels", levels, "a tree is 0 to 4096 levels deep");
        if (ranks < 0) refuse("ranks", ranks, "a node has 0 children or more");
        refuse_null(parents, "parents");
        refuse_null(count, "count");
        auto const all = array(rates, std::int64_t{levels} * ranks, "rates");
        analysis::rank_rates by_level;
        for (std::int32_t l = 0; l < levels; ++l) {
            double const* const begin = all.data() + std::ptrdiff_t{l} * ranks;
            by_level.emplace_back(begin, begin + ranks);
        }
        analysis::optimal_shape const best = analysis::optimal_tree(by_level, nodes);
        std::copy(best.shape.parents().begin(), best.shape.parents().end(), parents);
        *count = best.shape.size();
        if (accepted != nullptr) *accepted = best.accepted;
    });
}
