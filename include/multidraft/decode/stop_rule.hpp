// Stopping the growth of a tree before its full depth: the policy, and what it may depend on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A model that provides its hidden states: `hidden_size()` numbers for each token, and `hidden_states()`, those of the
/// tokens whose logits the last `forward` wrote, row by row (the input of the output head, after the last norm).
template <class M>
concept reveals_hidden_state = language_model<M> && requires(M const& model) {
    { model.hidden_size() } -> std::convertible_to<std::int32_t>;
    { model.hidden_states() } -> std::convertible_to<std::span<float const>>;
};

/// Decides before the children of a level are drawn whether they are worth it ([ImprovingMCSD] 3.3).
///
/// `rule(g, q, hidden)` returns an estimate of the probability that a token drawn next at a node is accepted; q is the
/// draft's row there and `hidden` its hidden state, empty unless `reads_hidden_state`. The tree ends when the estimate
/// at every node that would have children is below `threshold()`. The rule depends on draws above the level, never on
/// those that it decides about, so verifiers that decide node by node stay lossless.
template <class R>
concept stop_rule = requires(R const& rule, host_group const& g, probabilities<float> const& q,
                             std::span<float const> hidden) {
    { R::reads_hidden_state } -> std::convertible_to<bool>;
    { rule(g, q, hidden) } -> std::convertible_to<double>;
    { rule.threshold() } -> std::convertible_to<double>;
};

/// Every tree grows to its full depth.
struct never_stop {
    static constexpr bool reads_hidden_state = false;
    /// 1, whatever the row.
    template <class G, class Q>
    [[nodiscard]] double operator()(G const&, Q const&, std::span<float const>) const noexcept {
        return 1;
    }
    /// 0: no estimate is below it.
    [[nodiscard]] static constexpr double threshold() noexcept { return 0; }
};

static_assert(stop_rule<never_stop>);

}  // namespace MULTIDRAFT_NAMESPACE
