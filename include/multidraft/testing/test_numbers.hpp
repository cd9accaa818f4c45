// Numbers for tests: the same with every compiler and standard library, and not from the library's generator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A generator of test numbers that is the same with every standard library (SplitMix64).
class test_numbers {
public:
    /// Equal seeds give equal numbers.
    explicit test_numbers(std::uint64_t seed) noexcept : state_(seed) {}
    /// In (0, 1).
    double operator()() noexcept {
        state_ += 0x9e3779b97f4a7c15U;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        z ^= z >> 31;
        return (static_cast<double>(z >> 12) + 0.5) * 0x1p-52;
    }
    /// An integer in [0, n).
    index_t below(index_t n) noexcept { return static_cast<index_t>((*this)() * n); }
    /// Standard normal.
    double normal() noexcept {
        double const radius = std::sqrt(-2 * std::log((*this)()));
        return radius * std::cos(6.283185307179586 * (*this)());
    }

private:
    std::uint64_t state_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
