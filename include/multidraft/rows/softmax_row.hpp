// A row of logits as a distribution: the logits in place, a few numbers, and nothing written out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/truncation.hpp"

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
    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD softmax_row in_chunk(index_t begin, index_t end) const requires has_runs<View> {
        return of(logits_.in_chunk(begin, end));
    }
    /// See `has_empty_runs`.
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t begin) const requires has_empty_runs<View> {
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

}  // namespace MULTIDRAFT_NAMESPACE
