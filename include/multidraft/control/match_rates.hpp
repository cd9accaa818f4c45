// How often a text goes on as it did after an earlier occurrence of its last tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How often the token after a match was the one that followed its earlier occurrence, by the tokens that matched. The
/// longer the match, the more often it is.
class match_rates {
public:
    static constexpr std::int32_t longest = 8;  ///< longer matches count as this long

    /// `memory`: observations of a length after which one has weight 1/e. Throws `invalid_input` if it is below 1.
    explicit match_rates(double memory = 100) : kept_(1 - 1 / memory) {
        if (!(memory >= 1)) refuse("memory", memory, "counts are kept for 1 observation or more");
    }

    /// The estimate after a match of that many tokens.
    [[nodiscard]] double rate(std::int32_t matched) const noexcept {
        cell const& one = cells_[place(matched)];
        double const before = before_any[place(matched)];
        return (one.accepted + no_counts * before) / (one.tried + no_counts);
    }
    /// Counts one: whether the text went on with it.
    void learn(std::int32_t matched, bool accepted) noexcept {
        cell& one = cells_[place(matched)];
        one.tried = kept_ * one.tried + 1;
        one.accepted = kept_ * one.accepted + (accepted ? 1 : 0);
    }

private:
    struct cell {
        double tried = 0;
        double accepted = 0;
    };

    static constexpr double no_counts = 6;  ///< weight of the rates before anything is counted, in observations
    static constexpr std::array<double, static_cast<std::size_t>(longest)> before_any{0.2,  0.35, 0.5,  0.6,
                                                                                      0.68, 0.74, 0.79, 0.83};

    static std::size_t place(std::int32_t matched) noexcept {
        return static_cast<std::size_t>(std::clamp(matched, 1, longest) - 1);
    }

    double kept_;
    std::array<cell, static_cast<std::size_t>(longest)> cells_;
};

}  // namespace MULTIDRAFT_NAMESPACE
