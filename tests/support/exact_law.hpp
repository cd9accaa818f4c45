// Random small models of every kind, and the exact laws of what is emitted with them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/decode/exact_law.hpp"
#include "support/test_numbers.hpp"

namespace multidraft::testing {

using exact::distance_from_target;
using exact::law_of_step;
using exact::law_of_target;
using exact::law_of_text;
using exact::model_pair;
using exact::rows_of_nodes;
using exact::shape;
using exact::small_model;
using exact::small_step;
using exact::text;
using exact::total_variation;
using exact_law = exact::output_law;

/// What random models are like.
enum class kind {
    plain,           ///< every token has mass in both
    no_mass,         ///< some tokens have no mass in the target, some in the draft
    disjoint,        ///< no token has mass in both
    one_hot_target,  ///< the target is certain, the draft is not
    one_hot_draft,   ///< the draft is certain, and so has one child at most without replacement
    narrow_draft,    ///< two tokens have mass in the draft: fewer than the children wanted
    equal,           ///< draft and target are the same
    almost_equal,    ///< the same up to 1e-13: residuals of rounding errors
    greedy,          ///< both are one-hot, as at temperature 0
};

inline constexpr kind all_kinds[] = {kind::plain,          kind::no_mass,       kind::disjoint,
                                     kind::one_hot_target, kind::one_hot_draft, kind::narrow_draft,
                                     kind::equal,          kind::almost_equal,  kind::greedy};

[[nodiscard]] inline char const* name_of(kind k) {
    switch (k) {
        case kind::plain:
            return "plain";
        case kind::no_mass:
            return "no_mass";
        case kind::disjoint:
            return "disjoint";
        case kind::one_hot_target:
            return "one_hot_target";
        case kind::one_hot_draft:
            return "one_hot_draft";
        case kind::narrow_draft:
            return "narrow_draft";
        case kind::equal:
            return "equal";
        case kind::almost_equal:
            return "almost_equal";
        case kind::greedy:
            return "greedy";
    }
    return "?";
}

inline void normalise(std::vector<double>& row) {
    double sum = 0;
    for (double const x : row) sum += x;
    for (double& x : row) x /= sum;
}

/// A row drawn from the flat Dirichlet law, over the tokens for which `keep` holds; token 0 when it holds for none.
template <class Keep>
[[nodiscard]] std::vector<double> random_row(index_t vocabulary, test_numbers& numbers, Keep keep) {
    std::vector<double> row(static_cast<std::size_t>(vocabulary), 0.0);
    for (index_t i = 0; i < vocabulary; ++i) {
        double const weight = -std::log(numbers());
        row[static_cast<std::size_t>(i)] = keep(i) ? weight : 0.0;
    }
    if (std::none_of(row.begin(), row.end(), [](double x) { return x > 0; })) row[0] = 1;
    normalise(row);
    return row;
}

/// Random models of one kind, with rows for contexts of up to `depth` tokens.
[[nodiscard]] inline model_pair random_models(kind k, index_t vocabulary, int depth, std::uint64_t seed) {
    model_pair models{small_model(vocabulary, depth), small_model(vocabulary, depth)};
    test_numbers numbers(seed * 1000 + static_cast<std::uint64_t>(k));
    auto const all = [](index_t) { return true; };
    for (std::size_t c = 0; c < models.target.contexts(); ++c) {
        index_t const a = numbers.below(vocabulary);
        index_t const b = numbers.below(vocabulary);
        auto const only_a = [a](index_t i) { return i == a; };
        auto const only_b = [b](index_t i) { return i == b; };
        auto const not_a = [a](index_t i) { return i != a; };
        auto const not_b = [b](index_t i) { return i != b; };
        auto const even = [](index_t i) { return i % 2 == 0; };
        auto const odd = [](index_t i) { return i % 2 == 1; };
        auto const a_and_next = [a, vocabulary](index_t i) { return i == a || i == (a + 1) % vocabulary; };
        std::vector<double>& p = models.target[c];
        std::vector<double>& q = models.draft[c];
        p = random_row(vocabulary, numbers, all);
        q = random_row(vocabulary, numbers, all);
        switch (k) {
            case kind::plain:
                break;
            case kind::no_mass:
                p = random_row(vocabulary, numbers, not_a);
                q = random_row(vocabulary, numbers, not_b);
                break;
            case kind::disjoint:
                p = random_row(vocabulary, numbers, even);
                q = random_row(vocabulary, numbers, odd);
                break;
            case kind::one_hot_target:
                p = random_row(vocabulary, numbers, only_a);
                break;
            case kind::one_hot_draft:
                q = random_row(vocabulary, numbers, only_b);
                break;
            case kind::narrow_draft:
                q = random_row(vocabulary, numbers, a_and_next);
                break;
            case kind::equal:
                q = p;
                break;
            case kind::almost_equal:
                q = p;
                for (double& x : q) x *= 1 + 1e-13 * (numbers() - 0.5);
                normalise(q);
                break;
            case kind::greedy:
                p = random_row(vocabulary, numbers, only_a);
                q = random_row(vocabulary, numbers, only_b);
                break;
        }
    }
    return models;
}

}  // namespace multidraft::testing
