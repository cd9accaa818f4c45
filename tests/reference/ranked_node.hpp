// One node under ranked verification: the sets of ranks of its children's tokens, the law of the selected child, and
// the law of that child's quantile given the selection.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/verdict.hpp"
#include "reference/rank_sets.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

class ranked_node;

/// The distribution function of a node's quantile given that the node was selected: a concave map of [0, 1].
///
/// Every node has a quantile that is uniform a priori. Selection favours good quantiles, in a way that depends on the
/// parent: see `ranked_node::conditional_cdf_of`. Holds a pointer to the parent's node, which must not move.
class conditional_cdf {
public:
    /// The identity: a node whose selection does not depend on its quantile, such as the root.
    conditional_cdf() = default;
    /// A certain token, selected when its quantile was at most t.
    explicit conditional_cdf(double t) noexcept : kind_(kind::certain), limit_(t) {}
    /// A candidate from a set of ranks: quantiles up to the fraction `kept` of the mass were selected; those beyond
    /// with probability `damped`.
    conditional_cdf(ranked_node const& parent, int set, double kept, double damped) noexcept
        : kind_(kind::candidate), parent_(&parent), set_(set), limit_(kept), damped_(damped) {}

    /// Its value at v in [0, 1].
    [[nodiscard]] double operator()(double v) const;
    /// Whether the law is uniform.
    [[nodiscard]] bool is_identity() const noexcept { return kind_ == kind::identity; }

private:
    enum class kind { identity, certain, candidate };
    kind kind_ = kind::identity;
    ranked_node const* parent_ = nullptr;
    int set_ = 0;
    double limit_ = 1;
    double damped_ = 1;
};

/// Ranked verification at one node ([Ranked] 3), in its exact form: the candidate among j independent draws and d
/// certain tokens with the highest acceptance rate, and the law of the selected child.
///
/// Every drawn token has a rank, uniform on its token's set (`rank_sets`), at the length u |R| along the set for a draw
/// of quantile u; the draw with the best (smallest) rank is the candidate, with law `candidate_law`. It is kept with
/// probability min(1, p / m~). Otherwise a certain token is selected with probability f, and the candidate with
/// probability 1 - f. The selected child has exactly the law `law`.
///
/// On the host, in double, with memory of the size of the vocabulary. Tokens whose q is below `pooled` of the draws'
/// law are pooled: the law stays exact, and the loss of acceptance is at most their mass. O(V + S log S) for S tokens
/// that are not pooled.
class ranked_node {
public:
    /// `p`, `q`: the node's rows. `certain`: the tokens taken with certainty; `draws`: j, the number of draws from the
    /// rest, may be 0. `own`: the law of the node's own quantile given that it was selected.
    template <distribution P, distribution Q>
    ranked_node(P const& p, Q const& q, span<token_id const> certain, index_t draws, conditional_cdf own = {},
                double pooled = 0)
        : own_(own), draws_(draws), certain_(certain.begin(), certain.end()) {
        auto const n = static_cast<std::size_t>(p.size());
        std::vector<char> skip(n, 0);
        for (token_id const x : certain_) {
            skip[static_cast<std::size_t>(x)] = 1;
            certain_p_.push_back(static_cast<double>(p(x)));
            base_ += certain_p_.back();
        }
        p_.resize(n);
        element_.assign(n, none);
        std::vector<double> mass(n);
        double rest = 0;
        for (std::size_t i = 0; i < n; ++i) {
            p_[i] = static_cast<double>(p(static_cast<index_t>(i)));
            mass[i] = static_cast<double>(q(static_cast<index_t>(i)));
        }
        double target = 0;
        for (std::size_t i = 0; i < n; ++i) {
            rest += skip[i] != 0 ? 0.0 : mass[i];
            target += p_[i];
        }
        valid_ = target > 0 && target < 2;
        if (draws_ == 0) {  // no candidate: a certain token is always selected
            refused_ = 1;
            passed_ = base_ > 0 ? 1 : 0;
            acceptance_ = base_;
            return;
        }
        valid_ = valid_ && rest > 0 && rest < 2;
        if (!valid_) return;
        // Tokens that are never drawn, and rarely drawn ones.
        ranked_token undrawn;
        ranked_token seldom;
        double const threshold = pooled * rest;
        std::vector<ranked_token> tokens;
        tokens.reserve(n + 2);
        for (std::size_t i = 0; i < n; ++i) {
            if (skip[i] != 0) continue;
            if (!(mass[i] > 0)) {
                undrawn.p += p_[i];
            } else if (mass[i] < threshold) {
                seldom.p += p_[i];
                seldom.q += mass[i] / rest;
                element_[i] = static_cast<index_t>(n);
            } else {
                element_[i] = static_cast<index_t>(i);
                tokens.push_back({p_[i], mass[i] / rest, static_cast<index_t>(i)});
            }
        }
        mass_ = std::move(mass);
        rest_ = rest;
        seldom.element = static_cast<index_t>(n);
        undrawn.element = static_cast<index_t>(n + 1);
        tokens.push_back(seldom);
        tokens.push_back(undrawn);

        auto const best = [this](double t) { return best_below(t); };
        sort_by_ratio(tokens);
        sets_.divide(tokens, ranked_marginal(span<ranked_token const>(tokens), best, base_), best, n + 2);

        double accepted = 0;
        double all = 0;
        for (std::size_t i = 0; i < n; ++i) {
            double const m = candidate_law(static_cast<token_id>(i));
            all += m;
            accepted += std::min(p_[i], m);
            refused_ += std::max(m - p_[i], 0.0);
        }
        valid_ = all > 0.5 && all < 1.5;
        passed_ = refused_ > 1e-15 ? std::min(1.0, base_ / refused_) : 0.0;
        acceptance_ = accepted + base_;
    }
    ranked_node(ranked_node const&) = delete;
    ranked_node& operator=(ranked_node const&) = delete;

    /// False when the rows are not distributions, or when there are draws but q has no mass outside the certain tokens.
    [[nodiscard]] bool valid() const noexcept { return valid_; }
    /// Independent draws among the children.
    [[nodiscard]] index_t draws() const noexcept { return draws_; }
    /// Certain tokens among the children.
    [[nodiscard]] index_t certain() const noexcept { return static_cast<index_t>(certain_.size()); }

    /// The probability that a candidate or a certain token is the emitted one: alpha*, for the root's own quantile law.
    [[nodiscard]] double acceptance() const noexcept { return acceptance_; }

    /// G(t): the probability that the best rank is below t, given that this node was selected.
    [[nodiscard]] double best_below(double t) const { return own_(quantile_of_best(t)); }

    /// 1 - (1 - t)^j: the quantile of a node whose best rank is t.
    [[nodiscard]] double quantile_of_best(double t) const {
        double left = 1;
        for (index_t k = 0; k < draws_; ++k) left *= 1 - t;
        return 1 - left;
    }

    /// f: the probability that a certain token is selected once the candidate is refused.
    [[nodiscard]] double passed() const noexcept { return passed_; }

    /// Whether the token can have been drawn.
    [[nodiscard]] bool drawn(token_id x) const { return set_of(x) >= 0; }

    /// The rank of a draw of token x whose quantile is u.
    [[nodiscard]] double rank(token_id x, double u) const {
        int const s = set_of(x);
        double need = u * sets_[s].length;
        for (rank_interval const& r : sets_.intervals(s)) {
            if (need <= r.length()) return r.begin + need;
            need -= r.length();
        }
        return sets_.intervals(s).back().end;
    }

    /// The intervals of ranks of token x, which was drawn.
    [[nodiscard]] span<rank_interval const> intervals(token_id x) const { return sets_.intervals(set_of(x)); }

    /// m~: the law of the candidate; 0 for certain tokens, and where there are no draws.
    [[nodiscard]] double candidate_law(token_id x) const {
        int const s = draws_ > 0 ? set_of(x) : -1;
        if (s < 0) return 0;
        rank_set const& set = sets_[s];
        return set.mass * (mass_[static_cast<std::size_t>(x)] / rest_) / set.length;
    }

    /// m: the law of the selected child.
    [[nodiscard]] double law(token_id x) const {
        for (std::size_t k = 0; k < certain_.size(); ++k)
            if (certain_[k] == x) return base_ > 0 ? certain_p_[k] / base_ * refused_ * passed_ : 0.0;
        double const m = candidate_law(x);
        double const p = p_[static_cast<std::size_t>(x)];
        return std::min(p, m) + std::max(m - p, 0.0) * (1 - passed_);
    }

    /// Whether a candidate with quantile u is kept; otherwise certain tokens are tried.
    [[nodiscard]] bool keeps(token_id x, double u) const { return mass_before(set_of(x), u) <= kept(x); }

    /// Once the candidate and the earlier certain tokens are refused, the k-th certain token is selected if its
    /// quantile is at most this.
    [[nodiscard]] double certain_limit(index_t k) const {
        if (!(refused_ * passed_ > 1e-15)) return 0;
        double before = 0;
        for (index_t i = 0; i < k; ++i) before += share(i);
        double const here = share(k);
        return here < 1 - before ? here / (1 - before) : (here > 0 ? 1.0 : 0.0);
    }

    /// The conditional distribution function of the k-th child, whose token is x: a certain one for k < certain(), else
    /// a draw. The identity where the child is rarely selected (`least_informative`): it then draws its own quantile.
    [[nodiscard]] conditional_cdf conditional_cdf_of(index_t k, token_id x) const {
        if (k < certain()) {
            double const limit = certain_limit(k);
            return limit >= verify::detail::least_informative ? conditional_cdf(limit) : conditional_cdf();
        }
        int const s = set_of(x);
        if (s < 0 || !(sets_[s].mass > 1e-300)) return {};
        double const kept_part = kept(x);
        if (kept_part + (1 - kept_part) * (1 - passed_) < verify::detail::least_informative) return {};
        return {*this, s, kept_part, 1 - passed_};
    }

    /// The G-mass of the first u |R| of a set, as a fraction of the whole: the probability of a better quantile given
    /// the selection.
    [[nodiscard]] double mass_before(int set_index, double u) const {
        rank_set const& set = sets_[set_index];
        double need = u * set.length;
        double sum = 0;
        for (rank_interval const& r : sets_.intervals(set_index)) {
            if (need <= r.length()) return std::min((sum + best_below(r.begin + need) - r.below_begin) / set.mass, 1.0);
            sum += r.mass();
            need -= r.length();
        }
        return 1;
    }

private:
    [[nodiscard]] int set_of(token_id x) const {
        index_t const e = element_[static_cast<std::size_t>(x)];
        return e < 0 ? -1 : sets_.set_of(e);
    }
    [[nodiscard]] double kept(token_id x) const {
        double const m = candidate_law(x);
        return m > 0 ? std::min(1.0, p_[static_cast<std::size_t>(x)] / m) : 1.0;
    }
    [[nodiscard]] double share(index_t k) const {
        return base_ > 0 ? certain_p_[static_cast<std::size_t>(k)] / base_ * passed_ : 0.0;
    }

    conditional_cdf own_;
    index_t draws_;
    std::vector<token_id> certain_;
    std::vector<double> certain_p_;
    double base_ = 0;     ///< p of the certain tokens
    double rest_ = 0;     ///< q of the others
    double refused_ = 0;  ///< the probability that the candidate is refused
    double passed_ = 0;   ///< f: the probability that a certain token is then selected
    double acceptance_ = 0;
    bool valid_ = false;
    std::vector<double> p_;
    std::vector<double> mass_;
    std::vector<index_t> element_;  ///< by token: its own element, V for pooled tokens, `none` for those never drawn
    rank_sets sets_;
};

/// The draw with the smallest rank, without drawing the ranks: an interval of each draw's set with probability
/// proportional to length. Intervals of different sets do not overlap, and two ranks in one interval are equally likely
/// in either order.
template <group G, draw_source Source>
[[nodiscard]] index_t best_ranked(G const& g, ranked_node const& node, verify::candidate_list candidates,
                                  Source& source, draw_site site) {
    index_t best = none;
    double least = 0;
    double equal = 0;
    for (index_t k = candidates.certain; k < candidates.count(); ++k) {
        auto const intervals = node.intervals(candidates[k]);
        auto const length = [intervals](index_t i) { return intervals[static_cast<std::size_t>(i)].length(); };
        auto const n = static_cast<index_t>(intervals.size());
        index_t const at = source.categorical(g, g.sum_chunks(n, length), n, length, {},
                                              site(purpose::rank, verify::detail::rank_index(k)));
        double const begin = at == none ? 2.0 : intervals[static_cast<std::size_t>(at)].begin;
        if (best == none || begin < least) {
            least = begin;
            best = k;
            equal = 1;
        } else if (begin == least) {
            equal += 1;
            if (source.bernoulli(site(purpose::rank, verify::detail::rank_index(k) + 1000), 1.0, equal)) best = k;
        }
    }
    return best;
}

inline double conditional_cdf::operator()(double v) const {
    if (kind_ == kind::identity) return v;
    if (kind_ == kind::certain) return std::min(v / limit_, 1.0);
    double const quantile = parent_->mass_before(set_, v);
    double const total = limit_ + (1 - limit_) * damped_;
    return (std::min(quantile, limit_) + std::max(quantile - limit_, 0.0) * damped_) / total;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
