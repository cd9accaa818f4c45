// Acceptance rates, their bounds and speed-ups, and the best trees for given rates.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
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
#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/analysis/tree_limit.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/draft/certain.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"
#include "pool.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

using row = std::span<double const>;

/// Two valid rows, and the number of children drawn.
struct node {
    analysis::detail::pair rows;
    index_t n;

    node(double const* p, double const* q, std::int64_t vocabulary, index_t children)
        : rows(analysis::detail::checked(row(array(p, vocabulary, "p")), row(array(q, vocabulary, "q")))), n(children) {
        analysis::detail::check_count(n);
        if (n > max_nodes) refuse("n", n, "a tree has at most 2^24 nodes");
    }
    [[nodiscard]] analysis::ratio_rows sorted() const { return {rows.p, rows.q}; }
    [[nodiscard]] draft::certain_selection certain() const { return {draft::stratified{}, rows.q, n}; }
    void only(index_t count, std::string_view name) const {
        if (n != count) refuse("n", n, std::string(name) + " has n = " + std::to_string(count));
    }
};

double best_stratified(node const& at) {
    draft::certain_selection const chosen = at.certain();
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

analysis::estimated_rate of_prefixes(node const& at, md_estimation const& how) {
    analysis::ratio_rows const rows = at.sorted();
    if (analysis::can_walk_prefixes(rows.support(), at.n))
        return {analysis::acceptance_by_rejected_prefixes(rows, at.n), 0};
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
    // Ranked verification reaches the bounds of its laws.
    {"ranked/stratified",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {best_stratified(at), 0};
     }},
    {"ranked/iid",
     [](node const& at, md_estimation const&) -> analysis::estimated_rate {
         return {analysis::alpha_star_iid(at.sorted(), at.n), 0};
     }},
}};

/// The trials of `analysis::estimate_acceptance`: draws the children of a root and verifies them, several trees per
/// call. Both rows are logits in single precision, so that the draws have the law that the verifier reads. The rows
/// after the children are the target's again: which child is accepted does not depend on them.
class node_trials {
public:
    node_trials(any_c_method method, md_pool* pool, node const& at, md_estimation const& how)
        : method_(method),
          policy_(pool),
          children_(at.n),
          trials_(how.samples),
          seed_(how.seed),
          target_(logits_of(at.rows.p)),
          draft_(logits_of(at.rows.q)) {
        if (at.n == max_nodes) refuse("n", at.n, "a tree has at most 2^24 nodes, its root among them");
        if (method.trees() == allowed_trees::pairs && at.n > 2)
            refuse("n", at.n, std::string(method.name()) + " takes up to 2 children a node");
        if (method.trees() == allowed_trees::chains && at.n > 1)
            refuse("n", at.n, std::string(method.name()) + " takes one child a node");
        if (trials_ < 2) refuse("how.samples", trials_, "there are two samples or more");
        constexpr std::int64_t most_trees = 4096;
        constexpr std::int64_t most_nodes = std::int64_t{1} << 20;
        std::int64_t const nodes = std::int64_t{at.n} + 1;
        trees_ = std::max<std::int64_t>(1, std::min({most_trees, most_nodes / nodes, trials_}));
        auto const of_trees = static_cast<std::size_t>(trees_);
        auto const of_nodes = static_cast<std::size_t>(trees_ * nodes);
        zeros_.assign(of_trees, 0);
        wanted_.assign(of_trees, at.n);
        seeds_.resize(of_trees);
        ids_.resize(of_trees);
        accepted_.resize(of_trees);
        next_.resize(of_trees);
        path_.resize(of_trees);
        ranks_.resize(of_trees);
        tokens_.assign(of_nodes, 0);
        certain_.assign(of_nodes, 0);
        same_row_.assign(of_nodes, 0);
        parents_.assign(of_nodes, 0);
        for (std::int64_t b = 0; b < trees_; ++b) {
            std::int64_t const root = b * nodes;
            requests_.push_back(static_cast<std::int32_t>(b));
            roots_.push_back(root);
            first_.push_back(root + 1);
            parents_[static_cast<std::size_t>(root)] = none;
        }
        roots_.push_back(trees_ * nodes);
    }

    [[nodiscard]] index_t children() const noexcept { return children_; }

    /// The rank of the child that is accepted in a trial, or `none`.
    [[nodiscard]] index_t operator()(std::int64_t trial) {
        if (trial < begin_ || trial >= end_) run(trial);
        return ranks_[static_cast<std::size_t>(trial - begin_)];
    }

private:
    static std::vector<float> logits_of(std::vector<double> const& probabilities) {
        std::vector<float> result;
        for (double const x : probabilities) result.push_back(static_cast<float>(std::log(x)));
        return result;
    }

    /// One row for all nodes.
    [[nodiscard]] logit_batch<float> rows_of(std::vector<float> const& logits) const {
        return {logits.data(), 0, static_cast<index_t>(logits.size()), same_row_.data()};
    }

    void run(std::int64_t begin) {
        begin_ = begin;
        end_ = std::min(begin + trees_, trials_);
        auto const count = static_cast<std::int32_t>(end_ - begin);
        for (std::int64_t k = begin; k < end_; ++k) {
            seeds_[static_cast<std::size_t>(k - begin)] = seed_ + (static_cast<std::uint64_t>(k) >> 32);
            ids_[static_cast<std::size_t>(k - begin)] = static_cast<std::uint32_t>(k & 0xffffffff);
        }
        request_batch const draws{seeds_.data(), zeros_.data(), ids_.data()};
        draft_rows_of(
            policy_, method_, {count, requests_.data(), zeros_.data(), wanted_.data(), zeros_.data()}, rows_of(draft_),
            draws, children_batch{tokens_.data(), first_.data(), 0, nullptr, certain_.data(), nullptr, roots_.data()});
        any_drafted_batch const drafts{{count, roots_[static_cast<std::size_t>(count)], roots_.data(), parents_.data(),
                                        tokens_.data(), certain_.data()},
                                       method_.law_name()};
        logit_batch<float> const q = rows_of(draft_);
        verify_rows(policy_, method_, drafts, rows_of(target_), &q, draws,
                    verdict_batch{path_.data(), 1, accepted_.data(), next_.data()},
                    scratch_.of(verify_workspace_size(policy_, method_, count, children_ + 1, 1)));
        for (std::size_t b = 0; b < static_cast<std::size_t>(count); ++b) {
            if (next_[b] == none) refuse("p", "no mass", "in single precision this is no distribution");
            ranks_[b] = accepted_[b] > 0 ? path_[b] - 1 : none;
        }
    }

    any_c_method method_;
    pool_policy policy_;
    index_t children_;
    std::int64_t trials_;
    std::uint64_t seed_;
    std::vector<float> target_, draft_;
    std::int64_t trees_ = 0;  ///< per call
    std::int64_t begin_ = 0, end_ = 0;
    std::vector<std::int32_t> zeros_, wanted_, requests_, accepted_;
    std::vector<std::uint64_t> seeds_;
    std::vector<std::uint32_t> ids_;
    std::vector<std::int64_t> roots_, first_, same_row_;
    std::vector<node_id> parents_, path_;
    std::vector<token_id> tokens_, next_;
    std::vector<index_t> certain_, ranks_;
    verify::scratch_memory scratch_;
};

/// The rows of a model given by a C function, as `analysis::tree_limit` reads them.
struct model_rows {
    md_model_row row_of;
    void* model;
    std::int64_t vocabulary;
    char const* name;

    [[nodiscard]] row operator()(std::span<token_id const> prefix) const {
        double const* const found = row_of(model, prefix.data(), static_cast<std::int64_t>(prefix.size()));
        if (found == nullptr)
            refuse(name, "null", "the model has no row after a prefix of " + std::to_string(prefix.size()) + " tokens");
        return {found, static_cast<std::size_t>(vocabulary)};
    }
};

analysis::tree_draw draw_of(std::string_view law) {
    if (law == "iid") return analysis::tree_draw::iid;
    if (law == "sequential") return analysis::tree_draw::sequential;
    if (law == "stratified") return analysis::tree_draw::stratified;
    refuse("law", law, "limits of whole trees are of iid, sequential and stratified");
}

double solve_by(md_solve solve, void* solver, analysis::linear_program const& program) {
    std::vector<std::int64_t> rows, columns;
    std::vector<double> values;
    for (analysis::linear_program::entry const& e : program.entries) {
        rows.push_back(static_cast<std::int64_t>(e.row));
        columns.push_back(static_cast<std::int64_t>(e.column));
        values.push_back(e.value);
    }
    md_linear_program const given{sizeof(md_linear_program),
                                  static_cast<std::int64_t>(program.gain.size()),
                                  static_cast<std::int64_t>(program.bound.size()),
                                  static_cast<std::int64_t>(values.size()),
                                  program.gain.data(),
                                  program.bound.data(),
                                  rows.data(),
                                  columns.data(),
                                  values.data()};
    double value = 0;
    if (std::int32_t const failure = solve(solver, &given, &value); failure != 0)
        refuse("solve", failure, "the solver did not solve the program");
    if (!std::isfinite(value)) refuse("solve", value, "the largest value of the program is a number");
    return value;
}

/// The rates by level and rank.
analysis::rank_rates rates_of(double const* rates, std::int32_t levels, std::int32_t ranks) {
    if (levels < 0 || levels > 4096) refuse("levels", levels, "a tree is 0 to 4096 levels deep");
    if (ranks < 0) refuse("ranks", ranks, "a node has 0 children or more");
    auto const all = array(rates, std::int64_t{levels} * ranks, "rates");
    analysis::rank_rates by_level;
    for (std::int32_t l = 0; l < levels; ++l) {
        double const* const begin = all.data() + std::ptrdiff_t{l} * ranks;
        by_level.emplace_back(begin, begin + ranks);
    }
    return by_level;
}

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
            node const at(p, q, vocabulary, n);
            analysis::estimated_rate const result =
                with_names({{"samples", "how.samples"}}, [&] { return f.rate(at, wanted); });
            *rate = result.mean;
            if (error != nullptr) *error = result.standard_error;
            return;
        }
        refuse("method", m.name(), "its acceptance rate at a node has no formula here");
    });
}

md_status md_estimate_acceptance(md_method const* method, md_pool* pool, double const* p, double const* q,
                                 std::int64_t vocabulary, std::int32_t n, md_estimation const* how, double* rate,
                                 double* error, double* by_rank) {
    return guarded([&] {
        any_c_method const m = method_of(method);
        refuse_null(rate, "rate");
        md_estimation const wanted = how == nullptr ? md_estimation MD_ESTIMATION_INIT : read(how, "how");
        node_trials trials(m, pool, node(p, q, vocabulary, n), wanted);
        analysis::acceptance_estimate const found = analysis::estimate_acceptance(trials, wanted.samples);
        *rate = found.rate;
        if (error != nullptr) *error = found.standard_error;
        if (by_rank != nullptr) std::copy(found.by_rank.begin(), found.by_rank.end(), by_rank);
    });
}

md_status md_tree_limit(char const* law, std::int64_t vocabulary, std::int32_t const* children, std::int32_t levels,
                        md_model_row target, void* target_model, md_model_row draft, void* draft_model, double theta,
                        md_solve solve, void* solver, double* limit) {
    return guarded([&] {
        refuse_null(law, "law");
        refuse_null(limit, "limit");
        if (target == nullptr) refuse("target", "null", "it is called");
        if (draft == nullptr) refuse("draft", "null", "it is called");
        if (solve == nullptr) refuse("solve", "null", "it is called");
        if (vocabulary < 1 || vocabulary > max_row_size) refuse("vocabulary", vocabulary, "a row has 1 entry or more");
        // Each further child multiplies the drafts that are enumerated by the vocabulary.
        constexpr std::int32_t most_children = 64;
        for (std::int32_t const n : array(children, levels, "children"))
            if (n > most_children) refuse("children", n, "the program of so many children a node is too large");
        *limit = analysis::tree_limit(
            model_rows{target, target_model, vocabulary, "target"}, model_rows{draft, draft_model, vocabulary, "draft"},
            array(children, levels, "children"), draw_of(law),
            [&](analysis::linear_program const& program) { return solve_by(solve, solver, program); }, theta);
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

md_status md_best_depth(double alpha, double cost, std::int32_t* depth) {
    return guarded([&] {
        refuse_null(depth, "depth");
        *depth = analysis::best_depth(alpha, cost);
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
        refuse_null(parents, "parents");
        refuse_null(count, "count");
        analysis::optimal_shape const best = analysis::optimal_tree(rates_of(rates, levels, ranks), nodes);
        std::copy(best.shape.parents().begin(), best.shape.parents().end(), parents);
        *count = best.shape.size();
        if (accepted != nullptr) *accepted = best.accepted;
    });
}

md_status md_expected_accepted(std::int32_t const* parents, std::int64_t nodes, double const* rates,
                               std::int32_t levels, std::int32_t ranks, double* accepted) {
    return guarded([&] {
        refuse_null(accepted, "accepted");
        if (nodes > max_nodes) refuse("parents.size", nodes, "a tree has at most 2^24 nodes");
        topology const shape = topology::from_parents(array(parents, nodes, "parents"));
        *accepted = analysis::expected_accepted(shape, rates_of(rates, levels, ranks));
    });
}
