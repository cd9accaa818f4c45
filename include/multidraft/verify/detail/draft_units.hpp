// The draft's probabilities in units so small that none is subnormal, and without the certain tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::verify::detail {

/// The number of units in a probability of 1: 2^64 where a verifier computes in float, 2^512 in double.
///
/// The mass that remains once a draft's likely tokens are drawn may be any positive number, however small, and the next
/// tokens are drawn from it. In units the smallest subnormal probability is a normal number, 2^-85 or 2^-562, and so is
/// its inverse. A quotient of the target's mass by it, or a product with it, neither overflows nor loses bits. Units
/// are powers of two, so decisions about other rows do not change by a bit.
template <class Real>
inline constexpr Real units_in_1 = sizeof(Real) == 4 ? Real(0x1p64) : static_cast<Real>(0x1p512);

/// A draft's row as a function of the token, its probability in units of the target's type `Real`.
template <distribution Q, class Real>
struct row_in_units {
    Q row;

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return row.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t i) const {
        using wide = std::conditional_t<(sizeof(probability_of<Q>) > sizeof(Real)), probability_of<Q>, Real>;
        return static_cast<Real>(static_cast<wide>(row(i)) * static_cast<wide>(units_in_1<Real>));
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real weight(index_t i) const { return (*this)(i); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_mass(index_t i) const requires sparse_distribution<Q> {
        return row.may_have_mass(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_all_mass() const requires sparse_distribution<Q> {
        return row.may_have_all_mass();
    }
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> candidates() const requires lists_candidates<Q> {
        return row.candidates();
    }
    [[nodiscard]] MULTIDRAFT_HD row_in_units only(index_t k) const requires lists_candidates<Q> {
        return {row.only(k)};
    }
    [[nodiscard]] MULTIDRAFT_HD row_in_units in_chunk(index_t begin, index_t end) const requires has_runs<Q> {
        return {row.in_chunk(begin, end)};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires has_runs<Q> {
        return row.is_empty_run(begin);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<Q> {
        row.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(row_in_units<std::remove_cvref_t<decltype(here)>, Real>{here});
        });
    }
};

/// A draft's row in units. Free where the row can absorb a factor (`row.times`).
template <class Real, distribution Q>
[[nodiscard]] MULTIDRAFT_HD auto in_units(Q const& q) {
    if constexpr (std::is_same_v<probability_of<Q>, Real> && multidraft::detail::has_times<Q, Real>)
        return q.times(units_in_1<Real>);
    else
        return row_in_units<Q, Real>{q};
}

/// The type of a draft's row in units.
template <distribution Q, class Real>
using in_units_of = decltype(in_units<Real>(std::declval<Q const&>()));

/// The mass of q, a row in units, outside the tokens drawn. The difference is exact enough until little is left; then
/// the rest is summed: one pass over q, or over its candidates if it lists them.
template <group G, distribution Q, class Real>
[[nodiscard]] MULTIDRAFT_HD Real mass_left(G const& g, Q const& q, span<token_id const> drawn, Real difference) {
    if (difference > Real(0.125) * units_in_1<Real>) return difference;
    if constexpr (lists_candidates<Q>) {
        Real left = 0;
        span<token_id const> const tokens = q.candidates();
        for (index_t k = 0; k < static_cast<index_t>(tokens.size()); ++k) {
            bool taken = false;
            for (token_id const x : drawn) taken = taken || x == tokens[k];
            if (!taken) left += static_cast<Real>(q.only(k)(tokens[k]));
        }
        return left;
    }
    auto sums = g.sum_chunks(q.size(), q);

    MULTIDRAFT_ROLL
    for (token_id const x : drawn) g.update_chunk(sums, q.size(), q, drawn, x);
    return sums.total;
}

/// The certain children of a node, tested token by token inside a row loop.
///
/// Compares the tokens themselves, whatever their order and mass: ties may have been broken either way, and at
/// temperature 0 certain tokens may have no mass. A token lighter than all of them is not certain, so the list is
/// searched for few tokens only. Groups that process runs of tokens test a whole run (`any_in`).
template <distribution Q>
class certain_tokens {
public:
    using real = probability_of<Q>;

    /// O(tokens): keeps the smallest of their probabilities, so that one comparison excludes most other tokens.
    MULTIDRAFT_HD certain_tokens(Q const& row, span<token_id const> tokens) : q(row), tokens_(tokens) {
        for (token_id const x : tokens_) {
            real const here = q(x);
            lightest_ = here < lightest_ ? here : lightest_;
        }
    }

    /// Whether token i is one of them.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool holds(index_t i) const {
        if (tokens_.empty() || q(i) < lightest_) return false;
        bool found = false;

        MULTIDRAFT_ROLL
        for (token_id const x : tokens_) found = found || x == i;
        return found;
    }
    /// Whether one of them is in [begin, end).
    [[nodiscard]] MULTIDRAFT_HD bool any_in(index_t begin, index_t end) const {
        bool found = false;
        for (token_id const x : tokens_) found = found || (x >= begin && x < end);
        return found;
    }

    /// The tokens.
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> tokens() const { return tokens_; }
    /// The same with another form of q.
    [[nodiscard]] MULTIDRAFT_HD certain_tokens with(Q const& row) const {
        certain_tokens here = *this;
        here.q = row;
        return here;
    }

    Q q;

private:
    span<token_id const> tokens_;
    real lightest_ = -minus_infinity<real>;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify::detail
