// BiLD's fallback: the draft continues alone while it is confident. Lossy together with the rollback.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// The fallback policy of BiLD (Kim et al. 2023): the target is called when the largest probability of the draft falls
/// below a threshold. A stop rule for chains:
///
/// `make_speculative<lossy::rollback<law::iid>>(target, static_tree_drafter<Draft, draft::iid,
/// lossy::fallback_rule>(draft, chain(10), {}, lossy::fallback_rule(0.6)), lossy::rollback<law::iid>(3))`.
///
/// The rule itself keeps a lossless verifier lossless; only the rollback is lossy.
class fallback_rule {
public:
    static constexpr bool reads_hidden_state = false;

    fallback_rule() = default;
    /// Throws `invalid_input` for a threshold outside [0, 1].
    explicit fallback_rule(double threshold) : threshold_(threshold) {
        if (!(threshold >= 0 && threshold <= 1)) refuse("threshold", threshold, "a probability lies in [0, 1]");
    }

    /// The largest probability of q.
    template <group G, distribution Q>
    [[nodiscard]] double operator()(G const& g, Q const& q, std::span<float const>) const {
        return static_cast<double>(q(g.argmax(q.size(), weight_of{q})));
    }
    /// A level is not drawn if that is less at each of its nodes.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    double threshold_ = 0.6;
};

static_assert(stop_rule<fallback_rule>);

}  // namespace MULTIDRAFT_NAMESPACE::lossy
