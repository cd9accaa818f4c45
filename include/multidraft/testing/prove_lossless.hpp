// The proof that a verifier is lossless: exact laws over many trees and many kinds of rows, in doubles and in floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The shape of a tree and the size of the vocabulary for a proof; with a rule, the shape depends on what is drawn.
struct tree_case {
    shape children;
    index_t vocabulary;
    shape_rule rule = {};
    bool shared_lists = false;  ///< one list for all nodes of a depth: for verifiers that take `law::shared_lists`
    bool shared_rows = false;   ///< one row of the draft for all nodes of a depth; each draws for itself

    /// The case in words: 2x2, or 2x2, shared lists, or 2x2, shared rows.
    [[nodiscard]] std::string text() const {
        return print(children) + (rule.name.empty() ? "" : ", " + rule.name) + (shared_lists ? ", shared lists" : "") +
               (shared_rows ? ", shared rows" : "");
    }
};

/// Trees of up to six children per node and three levels, over two to five tokens: fewer tokens than children too.
[[nodiscard]] inline std::vector<tree_case> trees_to_prove() {
    return {{{1}, 1},
            {{1}, 3},
            {{2}, 2},
            {{2}, 3},
            {{2}, 5},
            {{3}, 2},
            {{3}, 3},
            {{3}, 4},
            {{4}, 2},
            {{4}, 3},
            {{5}, 2},
            {{6}, 2},
            {{6}, 3},
            {{1, 1}, 3},
            {{1, 2}, 3},
            {{2, 1}, 2},
            {{2, 1}, 3},
            {{2, 1}, 4},
            {{2, 2}, 2},
            {{2, 2}, 3},
            {{3, 1}, 2},
            {{3, 1}, 3},
            {{1, 1, 1}, 2},
            {{2, 1, 1}, 2},
            {{1, 2, 1}, 2},
            {{1, 1, 2}, 3},
            {{2, 1}, 3, {}, true},
            {{2, 2}, 2, {}, true},
            {{3, 1}, 2, {}, true},
            {{2, 2, 1}, 2, {}, true},
            {{2, 1}, 3, {}, false, true},
            {{2, 2}, 2, {}, false, true},
            {{2, 1, 1}, 2, {}, false, true}};
}

/// One child a node: for verifiers of one path.
[[nodiscard]] inline std::vector<tree_case> chains_to_prove() {
    return {{{1}, 1},    {{1}, 2},    {{1}, 3},       {{1}, 5},       {{1, 1}, 2},
            {{1, 1}, 3}, {{1, 1}, 4}, {{1, 1, 1}, 2}, {{1, 1, 1}, 3}, {{1, 1, 1}, 2, {}, false, true}};
}

/// Up to two children per node: for verifiers of pairs.
[[nodiscard]] inline std::vector<tree_case> pairs_to_prove() {
    return {{{1}, 1},
            {{1}, 3},
            {{2}, 2},
            {{2}, 3},
            {{2}, 4},
            {{2}, 5},
            {{1, 1}, 3},
            {{1, 2}, 3},
            {{2, 1}, 3},
            {{2, 2}, 2},
            {{2, 2}, 3},
            {{2, 1, 1}, 2},
            {{1, 2, 1}, 3},
            {{2, 1}, 3, {}, true},
            {{2, 2}, 3, {}, true},
            {{2, 1}, 3, {}, false, true},
            {{2, 2}, 2, {}, false, true}};
}

/// Paths that branch at the root.
[[nodiscard]] inline std::vector<tree_case> forks_to_prove() {
    return {{{1}, 1},       {{1}, 3},       {{2}, 2},       {{2}, 4},
            {{3}, 2},       {{3}, 3},       {{4}, 3},       {{6}, 2},
            {{1, 1}, 3},    {{2, 1}, 2},    {{2, 1}, 3},    {{3, 1}, 2},
            {{1, 1, 1}, 3}, {{2, 1, 1}, 2}, {{3, 1, 1}, 2}, {{2, 1, 1}, 2, {}, false, true}};
}

/// The cases that `prove_lossless` runs.
struct proof_options {
    std::vector<tree_case> trees = trees_to_prove();
    int seeds = 2;                        ///< pairs of models of each kind
    bool doubles = true;                  ///< rows of doubles
    bool floats = true;                   ///< rows of floats, as engines have them
    std::uint64_t most_branches = 50000;  ///< of one case; cases with more are left out and listed
};

/// The distance from the target's law that rounding alone explains: rows of doubles.
inline constexpr double tolerance_of_doubles = 1e-12;

/// The same for rows of floats and a tree of that shape. A decision at a node - the probability of a Bernoulli draw,
/// the sum and the terms of a residual, the law of a candidate - has about eight roundings of 2^-24. Each of these
/// moves the law by no more than its own size, and there is at most one decision for each node.
[[nodiscard]] inline double tolerance_of_floats(shape const& children) {
    double nodes = 1;
    double level = 1;
    for (int const n : children) nodes += level *= n;
    return 0x1p-21 * nodes;
}

/// The result of a proof.
struct proof {
    /// The worst case, relative to the tolerance.
    struct place_of_case {
        double value = 0;      ///< total variation from the target, or acceptance above alpha*
        double tolerance = 0;  ///< the largest value that rounding explains
        shape tree{};
        index_t vocabulary = 0;
        kind models = kind::plain;
        int seed = 0;
        bool in_floats = false;
        std::string text{};  ///< the tree in words
    };

    place_of_case distance;  ///< the largest total variation between the output law and the target's
    place_of_case excess;    ///< the largest excess of a node's acceptance over alpha* of its draws, which a lossless
                             ///< verifier cannot have
    std::string error;       ///< what was thrown, and where; empty if nothing
    bool exact = true;       ///< false if a uniform was drawn directly: laws are then those of a grid and prove nothing
    std::uint64_t branches = 0;
    int cases = 0;
    std::vector<tree_case> left_out;  ///< trees of which some case had too many branches

    /// Whether every case was exact and had the target's law, up to rounding.
    [[nodiscard]] bool holds() const {
        return cases > 0 && exact && error.empty() && distance.value <= distance.tolerance &&
               excess.value <= excess.tolerance;
    }

    /// A summary in one or two lines.
    [[nodiscard]] std::string report() const {
        std::ostringstream out;
        auto const at = [&](place_of_case const& where) {
            out << where.value << " (rounding explains " << where.tolerance << ") on " << where.text
                << ", V = " << where.vocabulary << ", " << name_of(where.models) << ", seed " << where.seed
                << (where.in_floats ? ", floats" : ", doubles");
        };
        constexpr int few = 250;
        out << (holds() ? "lossless: " : (exact ? "not shown to be lossless: " : "not exact, so no proof: ")) << cases
            << " cases, " << branches << " branches";
        if (cases < few)
            out << "\n    few cases: wrong verifiers pass so few. The default options have more than " << few
                << ", of all kinds of rows";
        if (distance.vocabulary > 0) {
            out << "\n    total variation from the target at most ";
            at(distance);
        }
        if (excess.value > excess.tolerance) {
            out << "\n    accepts more than any lossless verifier can, by ";
            at(excess);
        }
        if (!error.empty()) out << "\n    " << error;
        if (!exact) out << "\n    uniforms were asked for: their law is that of a grid";
        for (tree_case const& t : left_out) out << "\n    too many branches: " << t.text() << ", V = " << t.vocabulary;
        return out.str();
    }
};

/// alpha* of a sampler's own draws, by enumeration: 1 + min over sets H of p(H) - P(all drafted tokens in H)
/// ([OptimalMDSD] (8)). No lossless verifier accepts a child more often. For vocabularies of a few tokens.
template <sampler Sampler, class Real>
[[nodiscard]] double best_acceptance(Sampler const& sampler, std::vector<Real> const& p, std::vector<Real> const& q,
                                     index_t n) {
    auto const size = static_cast<index_t>(p.size());
    host_group const g;
    probabilities<Real> const row(q.data(), size);
    std::map<std::uint32_t, double> sets;
    std::vector<token_id> out(static_cast<std::size_t>(n), none);
    enumerate([&](enumerating_source& source) {
        auto sums = g.sum_chunks(size, weight_of{row});
        drawn_children const drawn = sampler(g, row, sums, source, draw_site{}, span<token_id>(out));
        std::uint32_t set = 0;
        for (index_t k = 0; k < drawn.count; ++k) set |= 1U << out[static_cast<std::size_t>(k)];
        sets[set] += source.probability();
    });
    double sum = 0;
    for (Real const x : p) sum += static_cast<double>(x);
    double least = 0;
    for (std::uint32_t inside = 1; inside < 1U << size; ++inside) {
        double value = 0;
        for (index_t i = 0; i < size; ++i)
            if ((inside >> i & 1U) != 0) value += static_cast<double>(p[static_cast<std::size_t>(i)]) / sum;
        for (auto const& [set, chance] : sets)
            if ((set & ~inside) == 0) value -= chance;
        least = std::min(least, value);
    }
    return 1 + least;
}

namespace detail {

/// A verifier of quantiles that computes the law of a step itself, in doubles: `v.law_of_step(sampler, children,
/// models, rule)`, by integration.
template <class Verifier, class Sampler>
concept integrates = requires(Verifier const& v, Sampler const& sampler, shape const& children,
                              model_pair const& models, shape_rule const& rule) {
    { v.law_of_step(sampler, children, models, rule) } -> std::same_as<output_law>;
};

/// The law of a step: by enumeration or integration.
template <group Group, sampler Sampler, verify::verifier Verifier, class Real>
[[nodiscard]] output_law law_to_prove(Sampler const& sampler, Verifier const& verifier, shape const& children,
                                      basic_model_pair<Real> const& models, enumeration const& how) {
    if constexpr (integrates<Verifier, Sampler> && std::is_same_v<Real, double>)
        return verifier.law_of_step(sampler, children, models, how.rule);
    else
        return law_of_step<Group>(sampler, verifier, children, models, how);
}

template <group Group, sampler Sampler, verify::verifier Verifier, class Real>
void prove_case(Sampler const& sampler, Verifier const& verifier, tree_case const& t,
                basic_model_pair<Real> const& models, proof::place_of_case where, std::uint64_t most, proof& result) {
    try {
        output_law const found = law_to_prove<Group>(sampler, verifier, t.children, models,
                                                     {.most = most, .rule = t.rule, .shared_lists = t.shared_lists});
        result.branches += found.branches;
        if (!found.complete) {
            auto const same = [&](tree_case const& other) {
                return other.text() == t.text() && other.vocabulary == t.vocabulary;
            };
            if (std::none_of(result.left_out.begin(), result.left_out.end(), same)) result.left_out.push_back(t);
            return;
        }
        ++result.cases;
        result.exact = result.exact && found.exact;
        auto const offer = [&](proof::place_of_case& worst, double value) {
            where.value = value;
            // A NaN is the worst of all.
            bool const is_worse =
                worst.value == worst.value && !(value * worst.tolerance <= worst.value * where.tolerance);
            if (worst.vocabulary == 0 || is_worse) worst = where;
        };
        offer(result.distance, total_variation(found.law, law_of_target(models.target, t.children.size() + 1)));
        if (t.children.size() == 1 && !t.rule.children)
            offer(result.excess, found.mean_accepted - best_acceptance(sampler, models.target[0], models.draft[0],
                                                                       static_cast<index_t>(t.children[0])));
    } catch (std::exception const& e) {
        ++result.cases;
        if (result.error.empty())
            result.error = "threw on " + t.text() + ", V = " + std::to_string(t.vocabulary) + ", " +
                           name_of(where.models) + ", seed " + std::to_string(where.seed) +
                           (where.in_floats ? ", floats: " : ", doubles: ") + e.what();
    }
}

}  // namespace detail

/// Proves that the output of a sampler and a verifier has exactly the target's law, or reports where it does not.
///
///     auto const proof = testing::prove_lossless(draft::iid{}, my_verifier{});
///     if (!proof.holds()) std::puts(proof.report().c_str());
///
/// Runs every branch of drawing and verifying with its probability: one step on every tree of the options, with random
/// models of every kind (`all_kinds`), with rows of doubles and with the same rows rounded to floats. The law in floats
/// is compared with the target given by those floats. The target's rows after texts of probability 0 are NaN. The
/// output law is compared with the target's, and the mean accepted at a node with alpha* of its draws, which a lossless
/// verifier cannot exceed. An exception is a failure too. For a verifier that accepts certain trees only there are
/// `chains_to_prove`, `pairs_to_prove`, `forks_to_prove`. Trees with a `shape_rule` prove that shapes may depend on
/// draws. Trees with shared lists prove `verify::lists_may_be_shared`; other verifiers skip them. Trees with shared
/// rows are those of block drafters: every verifier of a law is lossless for them.
///
/// The library's samplers do not draw tokens of negligible weight; `engine_samplers.hpp` has samplers that do. A
/// verifier for launches, which cannot throw and whose trees have slots for children that could not be drawn, should
/// pass `prove_lossless<testing::silent_group>(..)` as well.
///
/// Any other verifier that draws uniforms directly cannot be enumerated: the proof then reports that it does not hold.
template <group Group = host_group, sampler Sampler, verify::verifier Verifier>
[[nodiscard]] proof prove_lossless(Sampler sampler, Verifier verifier, proof_options const& options = {}) {
    proof result;
    for (tree_case const& t : options.trees) {
        if (t.shared_lists && !verify::lists_may_be_shared<Verifier>) continue;
        // Once one case had too many branches, the limit for the others is lower.
        auto const most = [&, before = result.left_out.size()] {
            return result.left_out.size() > before ? options.most_branches / 16 : options.most_branches;
        };
        for (kind const k : all_kinds)
            for (int seed = 1; seed <= options.seeds; ++seed) {
                auto models = random_models(k, t.vocabulary, static_cast<int>(t.children.size()),
                                            static_cast<std::uint64_t>(seed) + 40);
                poison_unreachable(models.target);
                if (t.shared_rows) share_rows_of_depths(models.draft);
                proof::place_of_case where{0, tolerance_of_doubles, t.children, t.vocabulary, k, seed, false, t.text()};
                if (options.doubles) detail::prove_case<Group>(sampler, verifier, t, models, where, most(), result);
                where.in_floats = true;
                where.tolerance = tolerance_of_floats(t.children);
                if (options.floats && !detail::integrates<Verifier, Sampler>)
                    detail::prove_case<Group>(sampler, verifier, t, in_floats(models), where, most(), result);
            }
    }
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
