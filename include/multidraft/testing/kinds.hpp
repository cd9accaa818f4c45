// Random small models of the kinds that tend to reveal faults: equal, truncated and steep rows, ties, tokens without
// mass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/test_numbers.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The kinds of random models.
enum class kind {
    plain,           ///< every token has mass in both
    no_mass,         ///< some tokens have no mass in the target, some in the draft
    disjoint,        ///< no token has mass in both
    one_hot_target,  ///< the target is certain, the draft is not
    one_hot_draft,   ///< the draft is certain, so without replacement a node has at most one child
    narrow_draft,    ///< two tokens have mass in the draft: fewer than the number of children
    equal,           ///< draft and target are the same
    almost_equal,    ///< the same up to 1e-13: residuals of rounding errors
    greedy,          ///< both are one-hot, as at temperature 0
    ties,            ///< probabilities are multiples of one: ties of p, of q and of p/q
    cut,             ///< each row is truncated to some tokens, as by top-k and top-p
    sharp_draft,     ///< the draft leaves 1e-4 to 1e-10 for the other tokens, at the rounding of a row of floats
    sharp,           ///< both do
    steep_draft,     ///< the draft leaves 1e-30 to 1e-45, near the smallest floats
    steep_target,    ///< the target does
    steep,           ///< both do
};

inline constexpr kind all_kinds[] = {kind::plain,         kind::no_mass,      kind::disjoint,     kind::one_hot_target,
                                     kind::one_hot_draft, kind::narrow_draft, kind::equal,        kind::almost_equal,
                                     kind::greedy,        kind::ties,         kind::cut,          kind::sharp_draft,
                                     kind::sharp,         kind::steep_draft,  kind::steep_target, kind::steep};

[[nodiscard]] inline char const* name_of(kind k) {
    constexpr char const* names[] = {"plain",         "no_mass",      "disjoint",     "one_hot_target",
                                     "one_hot_draft", "narrow_draft", "equal",        "almost_equal",
                                     "greedy",        "ties",         "cut",          "sharp_draft",
                                     "sharp",         "steep_draft",  "steep_target", "steep"};
    return names[static_cast<std::size_t>(k)];
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

/// A row that leaves 10^low to 10^high for each token but one, and 0 for some.
[[nodiscard]] inline std::vector<double> row_with_tails(index_t vocabulary, test_numbers& numbers, double low,
                                                        double high) {
    std::vector<double> row(static_cast<std::size_t>(vocabulary));
    double rest = 0;
    for (double& x : row) {
        x = numbers() < 0.2 ? 0.0 : std::pow(10, low + (high - low) * numbers());
        rest += x;
    }
    double& top = row[static_cast<std::size_t>(numbers.below(vocabulary))];
    top = 1 - (rest - top);
    return row;
}

/// A row of multiples of one number.
[[nodiscard]] inline std::vector<double> row_with_ties(index_t vocabulary, test_numbers& numbers) {
    std::vector<double> row(static_cast<std::size_t>(vocabulary));
    for (double& x : row) x = numbers.below(4);
    if (std::none_of(row.begin(), row.end(), [](double x) { return x > 0; })) row[0] = 1;
    normalise(row);
    return row;
}

/// The rows of one context, of one kind.
inline void make_rows_of_kind(kind k, index_t vocabulary, test_numbers& numbers, std::vector<double>& p,
                              std::vector<double>& q) {
    auto const all = [](index_t) { return true; };
    index_t const a = numbers.below(vocabulary);
    index_t const b = numbers.below(vocabulary);
    auto const only_a = [a](index_t i) { return i == a; };
    auto const only_b = [b](index_t i) { return i == b; };
    auto const not_a = [a](index_t i) { return i != a; };
    auto const not_b = [b](index_t i) { return i != b; };
    auto const even = [](index_t i) { return i % 2 == 0; };
    auto const odd = [](index_t i) { return i % 2 == 1; };
    auto const a_and_next = [a, vocabulary](index_t i) { return i == a || i == (a + 1) % vocabulary; };
    auto const half = [&numbers](index_t) { return numbers() < 0.5; };
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
        case kind::ties:
            p = row_with_ties(vocabulary, numbers);
            q = row_with_ties(vocabulary, numbers);
            break;
        case kind::cut:
            p = random_row(vocabulary, numbers, half);
            q = random_row(vocabulary, numbers, half);
            break;
        case kind::sharp_draft:
            q = row_with_tails(vocabulary, numbers, -10, -4);
            break;
        case kind::sharp:
            p = row_with_tails(vocabulary, numbers, -10, -4);
            q = row_with_tails(vocabulary, numbers, -10, -4);
            break;
        case kind::steep_draft:
            q = row_with_tails(vocabulary, numbers, -45, -30);
            break;
        case kind::steep_target:
            p = row_with_tails(vocabulary, numbers, -45, -30);
            break;
        case kind::steep:
            p = row_with_tails(vocabulary, numbers, -45, -30);
            q = row_with_tails(vocabulary, numbers, -45, -30);
            break;
    }
}

/// Random models of one kind, with rows for contexts of up to `depth` tokens.
[[nodiscard]] inline model_pair random_models(kind k, index_t vocabulary, int depth, std::uint64_t seed) {
    model_pair models{small_model(vocabulary, depth), small_model(vocabulary, depth)};
    test_numbers numbers(seed * 1000 + static_cast<std::uint64_t>(k));
    for (std::size_t c = 0; c < models.target.contexts(); ++c)
        make_rows_of_kind(k, vocabulary, numbers, models.target[c], models.draft[c]);
    return models;
}

/// Sets the rows of the target to NaN after every text of probability 0 under the target: no verifier may read them.
template <class Real>
void poison_unreachable(basic_small_model<Real>& target, std::size_t context = 0, bool reached = true) {
    if (context >= target.contexts()) return;
    if (!reached) std::fill(target[context].begin(), target[context].end(), std::numeric_limits<Real>::quiet_NaN());
    for (token_id x = 0; x < target.vocabulary(); ++x)
        poison_unreachable(target, target.after(context, x),
                           reached && target[context][static_cast<std::size_t>(x)] > 0);
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
