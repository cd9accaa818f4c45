// Rows of logits as distributions: temperature, top-k, top-p and min-p in a few numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/truncation.hpp"
#include "multidraft/rows/truncation_by_share.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A row of logits read as the distribution that sampling parameters turn it into.
///
/// weight(i) = exp((x_i - max x) * scale) for the tokens that truncation keeps, else 0; probability = weight / their
/// sum. Holds a few scalars and a view of the caller's row. Made by `process_logits`.
template <class View>
class softmax_row {
public:
    using real = typename View::real;

    softmax_row() = default;
    /// The row without its mass (`set_mass`): its largest logit, the inverse of the temperature, and which tokens are
    /// kept.
    MULTIDRAFT_HD softmax_row(View logits, real largest, real scale, truncation_threshold<real> kept) noexcept
        : logits_(logits), kept_(kept), largest_(largest), scale_(scale), weight_(scale) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return logits_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const noexcept {
        real const x = logits_(i);
        real const w = weight_(x - largest_);
        return detail::blend_with_zero(kept_.keeps(x, i), w);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        return fp::mul(weight(i), inverse_sum_);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_mass(index_t i) const noexcept {
        return kept_.keeps(logits_(i), i);
    }
    /// True unless truncation removed a token.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_have_all_mass() const noexcept {
        return kept_.value == minus_infinity<real>;
    }
    /// (x_i - max x) * scale: the logarithm of the weight; minus infinity where truncation removed the token.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real log_weight(index_t i) const noexcept {
        real const x = logits_(i);
        return kept_.keeps(x, i) ? fp::mul(x - largest_, scale_) : minus_infinity<real>;
    }
    /// The key of the tokens' order (see `order_of`): the logit, minus infinity where truncation does not keep the
    /// token. At temperature 0 it is the order in the limit of small temperatures, of which the first `order_limit()`
    /// tokens are kept: one with top-p or min-p, else k with top-k.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real order(index_t i) const noexcept {
        real const x = logits_(i);
        return order_limit_ > 0 || kept_.keeps(x, i) ? x : minus_infinity<real>;
    }
    [[nodiscard]] MULTIDRAFT_HD index_t order_limit() const noexcept {
        return order_limit_ > 0 ? order_limit_ : logits_.size();
    }
    /// Makes the row one of temperature 0, whose order continues after the one token that has mass.
    MULTIDRAFT_HD void set_order_limit(index_t tokens) noexcept { order_limit_ = tokens; }
    /// x_i, as the view reads it.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real logit(index_t i) const noexcept { return logits_(i); }
    /// The sum of the weights, set once by `process_logits`.
    [[nodiscard]] MULTIDRAFT_HD real mass() const noexcept { return mass_; }
    /// Sets the sum of the weights, by which weights are divided to give probabilities.
    MULTIDRAFT_HD void set_mass(real mass) noexcept {
        mass_ = mass;
        inverse_sum_ = fp::div(real(1), mass);
    }
    /// Which tokens truncation keeps.
    [[nodiscard]] MULTIDRAFT_HD truncation_threshold<real> const& kept() const noexcept { return kept_; }
    /// max x, unscaled.
    [[nodiscard]] MULTIDRAFT_HD real largest() const noexcept { return largest_; }
    /// The factor of the logits: the inverse of the temperature.
    [[nodiscard]] MULTIDRAFT_HD real scale() const noexcept { return scale_; }
    /// The row whose probabilities are `factor` times as large, a power of two; its weights are the same.
    [[nodiscard]] MULTIDRAFT_HD softmax_row times(real factor) const noexcept {
        softmax_row result = *this;
        result.inverse_sum_ = inverse_sum_ * factor;
        return result;
    }
    /// Makes the row read from another place, to which the caller has copied the logits.
    MULTIDRAFT_HD void move_to(View logits) noexcept { logits_ = logits; }
    /// The same distribution over another view of the logits.
    template <class Other>
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD softmax_row<Other> of(Other logits) const noexcept {
        softmax_row<Other> result;
        result.logits_ = logits;
        result.kept_ = kept_;
        result.largest_ = largest_;
        result.scale_ = scale_;
        result.weight_ = weight_;
        result.mass_ = mass_;
        result.inverse_sum_ = inverse_sum_;
        result.order_limit_ = order_limit_;
        return result;
    }
    /// See `lists_candidates`.
    [[nodiscard]] MULTIDRAFT_HD span<token_id const> candidates() const noexcept requires requires(View const& view) {
        view.candidates();
    }
    { return logits_.candidates(); }
    /// See `lists_candidates`.
    [[nodiscard]] MULTIDRAFT_HD softmax_row only(index_t k) const noexcept requires requires(View const& view) {
        view.only(k);
    }
    { return of(logits_.only(k)); }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD softmax_row in_chunk(index_t begin, index_t end) const requires has_runs<View> {
        return of(logits_.in_chunk(begin, end));
    }
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires has_runs<View> {
        return logits_.is_empty_run(begin);
    }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<View> {
        logits_.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA { body(of(here)); });
    }

private:
    template <class>
    friend class softmax_row;

    View logits_{};
    truncation_threshold<real> kept_{};
    real largest_ = 0;
    real scale_ = 1;
    exp_nonpositive<real> weight_{real(1)};
    real mass_ = 1;
    real inverse_sum_ = 1;
    index_t order_limit_ = 0;  ///< at temperature 0, else 0
};

/// A processed row and the chunk sums of its weights, from which tokens can be drawn without another pass.
template <class View, class Sums>
struct processed_row {
    softmax_row<View> row;
    Sums sums;
};

/// The token with the largest logit, ties to the lower token: the one that has all mass at temperature 0. `none` for a
/// row that holds NaN or plus infinity, or nothing but minus infinity. One pass.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD index_t most_likely_token(G const& g, View const& logits) {
    using real = typename View::real;
    index_t const best =
        g.argmax(logits.size(), function_of{logits, [](auto const& x, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                real const here = x(i);
                                                return here == here ? here : infinity<real>;
                                            }});
    if (best == none) return none;
    real const largest = logits(best);
    return largest >= -largest_number<real> && largest <= largest_number<real> ? best : none;
}

namespace detail {

/// A view of logits that forbids some tokens: `view.allows(i)`.
template <class View>
concept has_allows = requires(View const& view, index_t i) {
    { view.allows(i) } -> std::convertible_to<bool>;
};

/// Throws for a row of logits that is not a distribution, naming the first token at fault.
template <class View>
[[noreturn]] MULTIDRAFT_COLD void refuse_logits(View const& logits, char const* argument) {
    for (index_t i = 0; i < logits.size(); ++i)
        if (!(logits(i) <= largest_number<typename View::real>))
            refuse(argument, i, logits(i), "a logit is a number below plus infinity");
    if constexpr (has_allows<View>) {
        index_t allowed = 0;
        for (index_t i = 0; i < logits.size(); ++i) allowed += logits.allows(i) ? 1 : 0;
        if (allowed == 0) refuse(std::string(argument) + ".allowed", allowed, "a mask allows at least one token");
    }
    refuse(std::string(argument) + ".size", logits.size(),
           "a row has at least one token with a logit above minus infinity");
}

/// How `process_logits` handles a row of logits that is not a distribution: it throws on the host. Where it may not
/// throw, the row keeps no token and its probabilities are NaN, so that samplers draw nothing and verifiers return
/// `none`.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD processed_row<View, chunk_sums_of<G, typename View::real>> no_distribution(
    G const& g, View logits, [[maybe_unused]] char const* argument) {
    using real = typename View::real;
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) refuse_logits(logits, argument);
#endif
    truncation_threshold<real> const nothing{infinity<real>, none};
    processed_row<View, chunk_sums_of<G, real>> result{softmax_row<View>(logits, real(0), real(1), nothing), {}};
    result.sums = g.sum_chunks(logits.size(), weight_of{result.row});
    result.row.set_mass(not_a_number<real>);
    return result;
}

/// A logit such that all tokens up to it together have less mass than top-p may discard, or minus infinity. `mass` is
/// that of the row.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD Real negligible_logit(index_t n, Real largest, Real scale, Real share, Real mass) {
    // The mass that each of n tokens may have, reduced by the rounding error of the row's mass where that is
    // comparable.
    if (!(Real(1) - share > Real(0x1p-12))) return minus_infinity<Real>;
    Real const each = fp::div(fp::mul(fp::mul(Real(1) - share, mass), Real(0.9)), static_cast<Real>(n));
    if (!(each > 0)) return minus_infinity<Real>;
    Real const light = largest + fp::div(fp::log(each) - Real(0.001), scale);
    bool const is_light = exp_nonpositive<Real>(scale)(light - largest) <= each;
    return is_light ? light : minus_infinity<Real>;
}

/// Top-k, then top-p. `mass` is that of the row. Up to `most_listed` entries are counted in units of their own for
/// top-p, whether or not the group lists them, so that every group cuts alike.
template <group G, class View, class Real>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> truncate_top_k_top_p(G const& g, View const& logits,
                                                                            sampling_params const& w, Real largest,
                                                                            Real mass, Real scale) {
    index_t const n = logits.size();
    bool const by_number = w.top_k > 0 && w.top_k < n;
    bool const by_share = w.top_p < 1.0F;
    auto const share = static_cast<double>(w.top_p);
    Real const most_mass = by_number && w.top_k <= most_listed ? static_cast<Real>(w.top_k) : mass;
    truncation_threshold<Real> kept;
    truncation_threshold<Real> nucleus;
    if (by_number) kept = threshold_of_top_k(g, n, logits, w.top_k);
    if (by_share) {
        softmax_row<View> const row(logits, largest, scale, kept);
        // Top-k leaves the largest token at least; else the mass is the row's.
        Real const light = negligible_logit(n, largest, scale, static_cast<Real>(w.top_p), by_number ? Real(1) : mass);
        nucleus = threshold_of_share(g, row, share, most_mass, kept.value, light);
    }
    return nucleus.inside(kept) ? nucleus : kept;
}

/// The same and min-p.
template <class Real>
[[nodiscard]] MULTIDRAFT_HD truncation_threshold<Real> truncate_min_p(truncation_threshold<Real> const& kept,
                                                                      sampling_params const& w, Real largest) {
    if (!(w.min_p > 0.0F)) return kept;
    Real const least = fp::fma(fp::log(static_cast<Real>(w.min_p)), static_cast<Real>(w.temperature), largest);
    if (!(least > kept.value)) return kept;
    return {least < largest ? least : largest, largest_number<index_t>};
}

/// Rows with top-k by groups that list its entries in one pass: the others have no mass, so that neither the normaliser
/// of the whole row nor another pass is needed.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD processed_row<View, chunk_sums_of<G, typename View::real>> process_listed_logits(
    G const& g, View logits, sampling_params const& w, typename View::real scale, char const* argument) {
    using real = typename View::real;
    index_t const n = logits.size();
    token_id memory[static_cast<std::size_t>(G::fast_top_k)] = {};
    span<token_id> const list(memory, static_cast<std::size_t>(w.top_k));
    if (!g.top_k_of_logits(n, logits, list)) return no_distribution(g, logits, argument);
    token_id const last = list[list.size() - 1];
    truncation_threshold<real> kept{logits(last), last};
    real const largest = logits(list[0]);
    if (w.top_p < 1.0F) {
        truncation_threshold<real> const nucleus =
            threshold_of_share_in_list(span<token_id const>(list), softmax_row<View>(logits, largest, scale, kept),
                                       static_cast<double>(w.top_p), static_cast<real>(w.top_k));
        if (nucleus.inside(kept)) kept = nucleus;
    }
    kept = truncate_min_p(kept, w, largest);
    processed_row<View, chunk_sums_of<G, real>> result{softmax_row<View>(logits, largest, scale, kept), {}};
    result.sums = g.sum_chunks_of(n, weight_of{result.row}, span<token_id const>(list));
    result.row.set_mass(result.sums.total);
    return result;
}

/// Rows with top-p and no top-k by such groups: the tokens kept, if they are so few that a list has them. Writes
/// `result` and returns true, or returns false. `mass` is that of the row.
template <group G, class View, class Real = typename View::real>
[[nodiscard]] MULTIDRAFT_HD bool process_listed_share(G const& g, View logits, sampling_params const& w, Real largest,
                                                      Real mass, Real scale,
                                                      processed_row<View, chunk_sums_of<G, Real>>& result) {
    index_t const n = logits.size();
    auto const share = static_cast<double>(w.top_p);
    bool const by_number = w.top_k > 0 && w.top_k < n;
    // Of many, counting is faster; no weight exceeds 1; and a larger share is not decided by sums of floats.
    constexpr index_t most = G::fast_top_k < 64 ? G::fast_top_k : 64;
    bool const may_fit = fp::mul(share, static_cast<double>(mass)) < static_cast<double>(most) && share < 0.999;
    if (by_number || !may_fit || n <= most) return false;
    token_id memory[static_cast<std::size_t>(most)] = {};
    span<token_id> const list(memory, static_cast<std::size_t>(most));
    g.top_k(n, logits, list);
    truncation_threshold<Real> kept;
    if (!share_is_listed(span<token_id const>(list), softmax_row<View>(logits, largest, scale, {}), share, mass, kept))
        return false;
    result = {softmax_row<View>(logits, largest, scale, truncate_min_p(kept, w, largest)), {}};
    result.sums = g.sum_chunks_of(n, weight_of{result.row}, span<token_id const>(list));
    result.row.set_mass(result.sums.total);
    return true;
}

}  // namespace detail

/// Applies sampling parameters to a row of logits. One pass over memory when nothing is truncated, and on hosts with a
/// top-k of up to 128; there two with a top-p that keeps fewer than 64 tokens; else two and the passes of
/// `threshold_of_mass`.
///
/// On the host a row that holds NaN or plus infinity, or nothing but minus infinity, throws `invalid_input` naming
/// `argument`, the token and the value. On a device, or for a group that may not throw, its mass is NaN and nothing can
/// be drawn from it. Sampling parameters out of their range are treated alike, naming the field.
template <group G, class View>
[[nodiscard]] MULTIDRAFT_HD processed_row<View, chunk_sums_of<G, typename View::real>> process_logits(
    G const& g, View logits, sampling_params const& w, [[maybe_unused]] char const* argument = "logits") {
    using real = typename View::real;
    constexpr real most = largest_number<real>;
    index_t const n = logits.size();
#if !MULTIDRAFT_ON_DEVICE
    if constexpr (G::throws) {
        validate_row_size(n, argument);
        validate(w);
    }
#endif
    if (!is_valid(w)) return detail::no_distribution(g, logits, argument);
    if (w.greedy()) {
        index_t const best = most_likely_token(g, logits);
        if (best == none) return detail::no_distribution(g, logits, argument);
        truncation_threshold<real> const only{logits(best), best};
        processed_row<View, chunk_sums_of<G, real>> result{softmax_row<View>(logits, only.value, real(1), only), {}};
        result.sums = g.template sums_of_one<real>(n, only.last);
        result.row.set_mass(real(1));
        bool const one = w.top_p < 1.0F || w.min_p > 0.0F;
        result.row.set_order_limit(one ? 1 : (w.top_k > 0 ? w.top_k : n));
        return result;
    }
    // Where the inverse of the temperature overflows, the largest number does as well: 0 * it is 0, anything below ->
    // 0.
    real const inverse = fp::div(real(1), static_cast<real>(w.temperature));
    real const scale = inverse < most ? inverse : most;
    if constexpr (G::fast_top_k > 0) {
        if (w.top_k > 0 && w.top_k < n && w.top_k <= G::fast_top_k)
            return detail::process_listed_logits(g, logits, w, scale, argument);
    }
    auto sums = g.softmax(n, logits, scale);
    if (!(sums.sums.total >= real(1) && sums.sums.total <= most)) return detail::no_distribution(g, logits, argument);
    if (!w.truncates()) {
        processed_row<View, chunk_sums_of<G, real>> result{softmax_row<View>(logits, sums.largest, scale, {}),
                                                           std::move(sums.sums)};
        result.row.set_mass(result.sums.total);
        return result;
    }
    if constexpr (G::fast_top_k > 0) {
        processed_row<View, chunk_sums_of<G, real>> result;
        if (detail::process_listed_share(g, logits, w, sums.largest, sums.sums.total, scale, result)) return result;
    }
    truncation_threshold<real> const kept = detail::truncate_min_p(
        detail::truncate_top_k_top_p(g, logits, w, sums.largest, sums.sums.total, scale), w, sums.largest);
    processed_row<View, chunk_sums_of<G, real>> result{softmax_row<View>(logits, sums.largest, scale, kept), {}};
    result.sums = g.sum_chunks(n, weight_of{result.row});
    result.row.set_mass(result.sums.total);
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE
