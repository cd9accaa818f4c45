// Sampling parameters: temperature, top-k, top-p and min-p, one documented chain applied to target and draft alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How a row of logits becomes a distribution, in this order:
///
/// 1. *temperature* T > 0: weight(i) = exp((x_i - max x) / T). T = 0 is the exact limit: all mass on the largest logit,
///    the lowest token on ties.
/// 2. *top-k*: only the k largest logits keep their weight, ties to the lower token. 0 turns it off.
/// 3. *top-p*: of the remaining tokens, renormalised, the smallest set of largest logits whose mass reaches p. 1 turns
///    it off. Masses are counted in integers, so that no order of addition can change the set, and without losing a bit
///    of a float, however flat the tail. The set is the smallest up to the rounding of the weights and of their sum.
/// 4. *min-p*: only tokens with logit >= max x + T log(min_p), that is weight at least min_p of the largest. 0 turns it
///    off.
///
/// The largest logit always survives. The processed target is *the* target: losslessness is with respect to it.
struct sampling_params {
    float temperature = 1.0F;  ///< >= 0
    index_t top_k = 0;         ///< >= 0; 0: off
    float top_p = 1.0F;        ///< in (0, 1]; 1: off
    float min_p = 0.0F;        ///< in [0, 1]; 0: off

    /// Whether all mass goes to the most likely token.
    [[nodiscard]] MULTIDRAFT_HD constexpr bool greedy() const noexcept { return temperature == 0.0F; }
    /// Whether some tokens may lose their weight.
    [[nodiscard]] MULTIDRAFT_HD constexpr bool truncates() const noexcept {
        return greedy() || top_k > 0 || top_p < 1.0F || min_p > 0.0F;
    }

    friend bool operator==(sampling_params const&, sampling_params const&) = default;
};

/// Whether every field of the sampling parameters is in its range: where nothing may be thrown.
[[nodiscard]] MULTIDRAFT_HD constexpr bool is_valid(sampling_params const& w) noexcept {
    return w.temperature >= 0.0F && w.temperature <= largest_number<float> && w.top_k >= 0 && w.top_p > 0.0F &&
           w.top_p <= 1.0F && w.min_p >= 0.0F && w.min_p <= 1.0F;
}

/// Throws `invalid_input` naming the field when it is out of its range.
inline void validate(sampling_params const& w) {
    if (!(w.temperature >= 0.0F) || !std::isfinite(w.temperature))
        refuse("temperature", w.temperature, "a temperature is a finite number, 0 or larger");
    if (w.top_k < 0) refuse("top_k", w.top_k, "top-k keeps 1 token or more; 0 turns it off");
    if (!(w.top_p > 0.0F && w.top_p <= 1.0F)) refuse("top_p", w.top_p, "top-p lies in (0, 1]; 1 turns it off");
    if (!(w.min_p >= 0.0F && w.min_p <= 1.0F)) refuse("min_p", w.min_p, "min-p lies in [0, 1]; 0 turns it off");
}

namespace detail {

/// The same for the member of that name of another argument.
MULTIDRAFT_COLD inline void validate_member(char const* name, sampling_params const& w) {
    if (is_valid(w)) return;
    try {
        validate(w);
    } catch (invalid_input const& e) {
        refuse_member(name, e);
    }
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
