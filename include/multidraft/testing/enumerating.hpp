// The source for proofs: replays every branch of a run with its probability, so that an output law is computed, not
// estimated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Answers Bernoulli and categorical draws from a script of branches; `enumerate` runs all scripts.
///
/// Branches of probability 0 are never taken. It also detects what a real run cannot: an address that is used twice in
/// one run throws `invalid_input`, since two draws from one uniform are not independent.
///
/// A uniform that is used directly (a quantile) takes the midpoints of `grid` equal cells: exact if the result changes
/// at the cells' borders only, else off by O(1 / grid). So a law that was enumerated with uniforms is not exact:
/// `exact()` is true if none was drawn.
///
/// Probabilities are the exact ratios of the arguments, floats or doubles: the law is that of the program, with the
/// rounding of its own numbers but not of the draws. A Bernoulli draw of NaN throws `invalid_input`; from a row whose
/// total is not a number `none` is drawn. The chunk sums that are passed are not read: a verifier that draws from a
/// residual by the sums of another row is found by its texts from V = 4,097 on, and not here.
class enumerating_source {
public:
    /// Uniforms take the middles of `grid` equal cells.
    explicit enumerating_source(index_t grid = 16) : grid_(static_cast<std::size_t>(grid), 1.0 / grid) {}

    template <class Real>
    [[nodiscard]] bool bernoulli(address a, Real numerator, Real denominator) {
        claim(a);
        if (numerator != numerator || denominator != denominator)
            refuse("bernoulli", a.index, "NaN", "a Bernoulli draw has a probability");
        double const ratio = static_cast<double>(numerator) / static_cast<double>(denominator);
        double const yes = numerator <= 0 ? 0.0 : (denominator <= numerator ? 1.0 : ratio);
        double const chances[2] = {1.0 - yes, yes};
        return choose(chances) == 1;
    }

    template <group G, class Sums, class W>
    [[nodiscard]] index_t categorical(G const&, Sums const&, index_t n, W const& w, span<token_id const> taken,
                                      address a) {
        claim(a);
        chances_.assign(static_cast<std::size_t>(n), 0.0);
        double total = 0;
        for (index_t i = 0; i < n; ++i) {
            bool out = false;
            for (token_id const t : taken) out = out || t == i;
            double const weight = out ? 0.0 : static_cast<double>(w(i));
            chances_[static_cast<std::size_t>(i)] = weight;
            total += weight;
        }
        if (!(total > 0 && total <= largest_number<double>)) return none;
        for (double& c : chances_) c /= total;
        return static_cast<index_t>(choose(chances_));
    }

    template <class Real>
    [[nodiscard]] Real uniform(address a) {
        claim(a);
        exact_ = false;
        auto const cell = static_cast<double>(choose(grid_));
        return static_cast<Real>((cell + 0.5) / static_cast<double>(grid_.size()));
    }

    /// The probability of the branch replayed so far.
    [[nodiscard]] double probability() const noexcept { return probability_; }

    /// Whether no run so far has drawn a uniform directly.
    [[nodiscard]] bool exact() const noexcept { return exact_; }

    /// Starts the run over.
    void rewind() noexcept {
        at_ = 0;
        probability_ = 1;
        used_.clear();
    }

    /// Moves the script to the next branch not yet seen; false when all have been.
    [[nodiscard]] bool advance() {
        script_.resize(at_);
        while (!script_.empty()) {
            auto& last = script_.back();
            auto k = last.taken + 1;
            while (k < last.chances.size() && !(last.chances[k] > 0)) ++k;
            if (k < last.chances.size()) {
                last.taken = k;
                return true;
            }
            script_.pop_back();
        }
        return false;
    }

private:
    struct branch {
        std::vector<double> chances;
        std::size_t taken;
    };

    std::size_t choose(span<double const> chances) {
        if (at_ == script_.size()) {
            std::size_t first = 0;
            while (first + 1 < chances.size() && !(chances[first] > 0)) ++first;
            script_.push_back({{chances.begin(), chances.end()}, first});
        }
        branch const& now = script_[at_++];
        probability_ *= now.chances[now.taken];
        return now.taken;
    }

    void claim(address a) {
        for (address const& b : used_)
            if (a == b) refuse("address.index", a.index, "two draws of one run have the same address");
        used_.push_back(a);
    }

    std::vector<double> grid_;
    std::vector<branch> script_;
    std::vector<address> used_;
    std::vector<double> chances_;
    std::size_t at_ = 0;
    double probability_ = 1;
    bool exact_ = true;
};

/// Calls `run(source)` once for every branch that has a positive probability; `source.probability()` is its probability
/// when `run` returns. Returns the number of branches. `run` must draw from nothing but the source.
///
/// The number of branches is the product of the choices: for small vocabularies and trees. Stops after `most` branches;
/// the result is then incomplete.
template <class Run>
std::uint64_t enumerate(Run&& run, index_t grid = 16, std::uint64_t most = ~std::uint64_t{0}) {
    enumerating_source source(grid);
    std::uint64_t branches = 0;
    do {
        source.rewind();
        run(source);
        ++branches;
    } while (branches < most && source.advance());
    return branches;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
