// alpha* of any draft law by its definition, from the probability that all drafted tokens lie in a set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::research {

/// A set of tokens of a small vocabulary: bit i is set if token i is in it.
using token_set = std::uint32_t;

/// The largest vocabulary whose sets are enumerated.
inline constexpr index_t most_tokens_of_sets = 24;

/// Q of a draft law: `inside(H)` is the probability that all drafted tokens lie in the set H.
template <class F>
concept set_function = requires(F const& inside, token_set set) {
    { inside(set) } -> std::convertible_to<double>;
};

/// A draft law written out: the probability of every tuple of drafted tokens, in the order drawn. Tuples that are left
/// out have probability 0. The plan in tests/support/optimal_transport.hpp takes the same type.
using tuple_law = std::map<std::vector<token_id>, double>;

namespace detail {

inline void check_set_vocabulary(std::size_t size, char const* argument = "p.size") {
    if (size < 1 || size > static_cast<std::size_t>(most_tokens_of_sets))
        refuse(argument, size, "sets of tokens are walked for vocabularies of 1 to 24 tokens");
}

/// Calls f with every set of a vocabulary, the empty one first.
template <class F>
void for_each_set(std::size_t size, F const& f) {
    for (token_set set = 0; set < token_set{1} << size; ++set) f(set);
}

/// The sum of a row over a set of tokens.
[[nodiscard]] inline double sum_over(token_set set, std::span<double const> row) {
    double sum = 0;
    for (token_set left = set; left != 0; left &= left - 1)
        sum += row[static_cast<std::size_t>(std::countr_zero(left))];
    return sum;
}

}  // namespace detail

/// Q of a law that is written out, for all sets: 2^V numbers.
class inside_probabilities {
public:
    /// O(2^V V + tuples). Throws `invalid_input` for a vocabulary of none or more than 24 tokens, tokens outside it,
    /// and probabilities that are negative, not finite, or sum to anything but 1 (within 1e-4).
    inside_probabilities(tuple_law const& law, index_t vocabulary) {
        if (vocabulary < 1 || vocabulary > most_tokens_of_sets)
            refuse("vocabulary", vocabulary, "sets of tokens are walked for vocabularies of 1 to 24 tokens");
        std::vector<double> chances;
        for (auto const& [tuple, chance] : law) chances.push_back(chance);
        auto const checked = analysis::detail::checked(chances, "law");
        chance_.assign(std::size_t{1} << vocabulary, 0.0);
        std::size_t at = 0;
        for (auto const& [tuple, chance] : law) {
            token_set set = 0;
            for (token_id const x : tuple) {
                if (x < 0 || x >= vocabulary)
                    refuse("law", static_cast<std::int64_t>(at), x, "a token is in 0 .. V - 1");
                set |= token_set{1} << x;
            }
            chance_[set] += checked[at++];
        }
        for (index_t i = 0; i < vocabulary; ++i)
            for (std::size_t set = 0; set < chance_.size(); ++set)
                if ((set >> i & 1U) != 0) chance_[set] += chance_[set ^ (std::size_t{1} << i)];
    }

    /// The probability that all drafted tokens lie in the set.
    [[nodiscard]] double operator()(token_set set) const { return chance_.at(set); }

private:
    std::vector<double> chance_;
};

/// The law of tuples of n tokens, the k-th of which is drawn from `conditional(drawn)`, a row given the k - 1 tokens
/// before it, a `std::span<token_id const>`. A row without mass ends the tuple: then fewer tokens are drafted. O(V^n)
/// rows.
///
/// Throws `invalid_input` for n < 1 and for rows that are neither distributions nor all zero.
template <class Conditional>
[[nodiscard]] tuple_law law_of_conditionals(index_t n, Conditional const& conditional) {
    analysis::detail::check_count(n);
    tuple_law law;
    std::vector<token_id> drawn;
    auto const deeper = [&](auto const& self, double chance) -> void {
        std::vector<double> row;
        if (static_cast<index_t>(drawn.size()) < n) row = conditional(std::span<token_id const>(drawn));
        if (std::none_of(row.begin(), row.end(), [](double x) { return !(x == 0); })) {
            law[drawn] += chance;
            return;
        }
        auto const q = analysis::detail::checked(row, "conditional");
        for (std::size_t x = 0; x < q.size(); ++x) {
            if (!(q[x] > 0)) continue;
            drawn.push_back(static_cast<token_id>(x));
            self(self, chance * q[x]);
            drawn.pop_back();
        }
    };
    deeper(deeper, 1.0);
    return law;
}

/// The acceptance rate that no lossless verifier of a law exceeds, and a set of tokens that attains the minimum.
struct optimum_of_sets {
    double alpha_star = 1;
    token_set set = 0;  ///< minimises p(H) - Q(H)
};

/// alpha* = 1 + min over sets H of p(H) - Q(H), for any law, given by its Q ([OptimalMDSD] (8)). O(2^V) calls of Q.
///
/// The dual of optimal transport, whose plan attains it (tests/support/optimal_transport.hpp). Throws `invalid_input`
/// for a row that is not a distribution or has more than 24 tokens.
template <set_function F>
[[nodiscard]] optimum_of_sets alpha_star_of_sets(std::span<double const> p, F const& inside) {
    detail::check_set_vocabulary(p.size());
    auto const row = analysis::detail::checked(p, "p");
    optimum_of_sets best;
    double least = 0;  // of the empty set
    detail::for_each_set(row.size(), [&](token_set set) {
        double const value = detail::sum_over(set, row) - static_cast<double>(inside(set));
        if (value < least) {
            least = value;
            best.set = set;
        }
    });
    best.alpha_star = 1 + least;
    return best;
}

/// alpha* of a law that is written out. As above.
[[nodiscard]] inline optimum_of_sets alpha_star_of_law(std::span<double const> p, tuple_law const& law) {
    detail::check_set_vocabulary(p.size());
    return alpha_star_of_sets(p, inside_probabilities(law, static_cast<index_t>(p.size())));
}

/// 1 + min of p(H) - Q(H) over the prefixes of the tokens sorted by q/p, largest first: alpha* where Q is q-convex and
/// monotone ([OptimalMDSD] Theorem 6 and 4.2.1), an upper bound of it for any other Q. V calls of Q after the sort.
///
/// Throws `invalid_input` for rows that are not distributions over one vocabulary, of at most 24 tokens.
template <set_function F>
[[nodiscard]] optimum_of_sets alpha_star_of_prefixes(std::span<double const> p, std::span<double const> q,
                                                     F const& inside) {
    detail::check_set_vocabulary(p.size());
    analysis::ratio_rows const rows(p, q);
    optimum_of_sets best;
    double least = 0;
    double mass = 0;
    token_set set = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
        set |= token_set{1} << rows.token()[k];
        mass += rows.p()[k];
        double const value = mass - static_cast<double>(inside(set));
        if (value < least) {
            least = value;
            best.set = set;
        }
    }
    best.alpha_star = 1 + least;
    return best;
}

namespace detail {

/// The largest of f(H, x, y) over sets H and different tokens x, y outside H. O(2^V V^2).
template <class F>
[[nodiscard]] double largest_over_pairs(std::size_t size, F const& f) {
    double worst = 0;
    for_each_set(size, [&](token_set set) {
        for (std::size_t x = 0; x < size; ++x)
            for (std::size_t y = 0; y < size; ++y)
                if (x != y && (set >> x & 1U) == 0 && (set >> y & 1U) == 0)
                    worst = std::max(worst, f(set, token_set{1} << x, token_set{1} << y, x, y));
    });
    return worst;
}

}  // namespace detail

/// By how much Q fails to be q-convex: the largest of Q(x | H) q(y) - Q(y | H + x) q(x) over sets H and different x, y
/// outside H, with Q(x | H) = Q(H + x) - Q(H). This is [OptimalMDSD] Definition 2 with both sides times q(x) q(y); 0
/// where Q is q-convex. O(2^V V^2).
///
/// Throws `invalid_input` for a row that is not a distribution or has more than 24 tokens.
template <set_function F>
[[nodiscard]] double lack_of_q_convexity(std::span<double const> q, F const& inside) {
    detail::check_set_vocabulary(q.size(), "q.size");
    auto const row = analysis::detail::checked(q, "q");
    return detail::largest_over_pairs(
        row.size(), [&](token_set set, token_set with_x, token_set with_y, std::size_t x, std::size_t y) {
            double const first = inside(set | with_x) - inside(set);
            double const second = inside(set | with_x | with_y) - inside(set | with_x);
            return first * row[y] - second * row[x];
        });
}

/// By how much Q fails to be supermodular: the largest of Q(x | H) - Q(x | H + y); 0 where it is ([OptimalMDSD] Theorem
/// 5: every q-convex Q is). O(2^V V^2). Errors as above, for the number of tokens.
template <set_function F>
[[nodiscard]] double lack_of_supermodularity(index_t vocabulary, F const& inside) {
    detail::check_set_vocabulary(static_cast<std::size_t>(std::max<index_t>(vocabulary, 0)), "vocabulary");
    return detail::largest_over_pairs(static_cast<std::size_t>(vocabulary),
                                      [&](token_set set, token_set with_x, token_set with_y, std::size_t, std::size_t) {
                                          double const first = inside(set | with_x) - inside(set);
                                          double const second = inside(set | with_x | with_y) - inside(set | with_y);
                                          return first - second;
                                      });
}

}  // namespace MULTIDRAFT_NAMESPACE::research
