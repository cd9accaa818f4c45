// The concept `distribution`: what samplers and verifiers read of a row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A distribution over the vocabulary: a function of the token, and its normaliser.
///
/// `row.weight(i)` is proportional to the probability of token i and `row(i)` is the probability itself; both are
/// finite, not negative and cheap: they are evaluated inside the row loops. `row.size()` is V.
template <class D>
concept distribution = requires(D const& row, index_t i) {
    { row.size() } -> std::convertible_to<index_t>;
    { row(i) } -> std::floating_point;
    { row.weight(i) } -> std::floating_point;
};

/// A distribution with a test for tokens without mass: `row.may_have_mass(i)` is false only where the row has none, and
/// cheaper than the mass itself; `row.may_have_all_mass()` is true when the test gains nothing.
template <class D>
concept sparse_distribution = distribution<D> && requires(D const& row, index_t i) {
    { row.may_have_mass(i) } -> std::convertible_to<bool>;
    { row.may_have_all_mass() } -> std::convertible_to<bool>;
};

/// A distribution without mass outside a list of tokens, which rise: `row.candidates()`. What is done for every token
/// with mass then takes O(candidates), and nothing of V. `row.only(k)` is the row with the k-th candidate alone, and
/// finds its mass without a search.
template <class D>
concept lists_candidates = distribution<D> && requires(D const& row, index_t k) {
    { row.candidates() } -> std::convertible_to<span<token_id const>>;
    { row.only(k) } -> std::same_as<D>;
};

/// A row whose tokens have an order other than that of the weights: `row.order(i)`, larger values first. Only the first
/// `row.order_limit()` tokens in this order may be taken.
template <class D>
concept has_order = requires(D const& row, index_t i) {
    { row.order(i) } -> std::floating_point;
    { row.order_limit() } -> std::convertible_to<index_t>;
};

namespace detail {

/// The first of some tokens that is outside the vocabulary, or does not rise above the one before it; their number if
/// all do. O(tokens).
[[nodiscard]] MULTIDRAFT_HD constexpr std::size_t first_out_of_order(span<token_id const> tokens,
                                                                     index_t vocabulary) noexcept {
    std::size_t k = 0;
    while (k < tokens.size() && tokens[k] >= 0 && tokens[k] < vocabulary && (k == 0 || tokens[k] > tokens[k - 1])) ++k;
    return k;
}

/// A row whose probabilities can be taken as multiples: `row.times(factor)`, a row of the same kind; the factor is a
/// power of two.
template <class D, class Real>
concept has_times = requires(D const& row, Real factor) {
    row.times(factor);
};

}  // namespace detail

/// False only where the row has no mass.
template <distribution D>
[[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_mass(D const& row, index_t i) {
    if constexpr (sparse_distribution<D>)
        return row.may_have_mass(i);
    else
        return row(i) != 0;
}

/// The floating-point type that a distribution is computed in.
template <class D>
using probability_of = std::decay_t<std::invoke_result_t<D const&, index_t>>;

/// The unnormalised weights of a distribution as a function object, for the operations of a group; it has
/// `may_be_nonzero` if the distribution has a test for mass.
template <class D>
struct weight_of {
    D row;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const { return row.weight(i); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const requires sparse_distribution<D> {
        return row.may_have_mass(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_dense() const requires sparse_distribution<D> {
        return row.may_have_all_mass();
    }
    [[nodiscard]] MULTIDRAFT_HD weight_of in_chunk(index_t begin, index_t end) const requires has_runs<D> {
        return {row.in_chunk(begin, end)};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires has_runs<D> {
        return row.is_empty_run(begin);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<D> {
        row.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(weight_of<std::remove_cvref_t<decltype(here)>>{here});
        });
    }
};
template <class D>
MULTIDRAFT_GUIDE weight_of(D)->weight_of<D>;

/// The order of a row's tokens as a function object, for `group.top_k`: the larger the more likely; minus infinity for
/// tokens that truncation removed. By `row.order(i)` where the row has one, which distinguishes tokens of equal weight,
/// such as all but one at temperature 0; else by weight.
template <class D>
struct order_of {
    D row;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const {
        if constexpr (has_order<D>) {
            return row.order(i);
        } else {
            auto const w = row.weight(i);
            return w > 0 ? w : minus_infinity<decltype(w)>;
        }
    }
    /// See `finite_at_candidates`.
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> candidates() const requires lists_candidates<D> {
        return row.candidates();
    }
    /// See `finite_at_candidates`.
    [[nodiscard]] MULTIDRAFT_HD order_of only(index_t k) const requires lists_candidates<D> { return {row.only(k)}; }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD order_of in_chunk(index_t begin, index_t end) const requires has_runs<D> {
        return {row.in_chunk(begin, end)};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires has_runs<D> {
        return row.is_empty_run(begin);  // no weight, so minus infinity
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<D> {
        row.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(order_of<std::remove_cvref_t<decltype(here)>>{here});
        });
    }
};
template <class D>
MULTIDRAFT_GUIDE order_of(D)->order_of<D>;

/// How many of the first n tokens in the order of a row may be taken: at temperature 0 truncation still counts tokens.
template <distribution D>
[[nodiscard]] MULTIDRAFT_HD index_t ordered_tokens(D const& row, index_t n) {
    if constexpr (has_order<D>) {
        index_t const limit = row.order_limit();
        return n < limit ? n : limit;
    } else {
        return n;
    }
}

namespace detail {

/// Probabilities that are given as a function: what a distribution is on a run.
template <class F>
struct probabilities_on_run {
    F values;
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return values.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const { return values(i); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto weight(index_t i) const { return values(i); }
};

}  // namespace detail

/// log(row(x)), at most 0; minus infinity for a token without mass. O(1).
///
/// For rows of logits it is computed from the logit, so it is exact even where the probability would underflow. A row
/// whose mass is NaN gives minus infinity.
template <distribution D>
[[nodiscard]] MULTIDRAFT_HD double log_probability(D const& row, token_id x) {
    double result = 0;
    if constexpr (requires { fp::log(static_cast<double>(row.mass())) + row.log_weight(x); }) {
        auto const mass = static_cast<double>(row.mass());
        result = mass > 0 ? static_cast<double>(row.log_weight(x)) - fp::log(mass) : minus_infinity<double>;
    } else {
        auto const p = static_cast<double>(row(x));
        result = p > 0 ? fp::log(p) : minus_infinity<double>;
    }
    return result < 0 ? result : (result == result ? 0.0 : minus_infinity<double>);
}

}  // namespace MULTIDRAFT_NAMESPACE
