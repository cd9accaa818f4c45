// Texts that repeat themselves, and a controller of what is drafted from them, for tests of look-up.
#pragma once

#include <span>

#include "control/fresh_controller.hpp"
#include "control/known_world.hpp"
#include "multidraft/control/match_rates.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// With rates that are new for each text, too.
struct fresh_with_rates : fresh {
    fresh_with_rates(step_times const& t, budget_options const& o, match_rates& r) : fresh(t, o), rates(&r) {}
    void start() {
        fresh::start();
        *rates = match_rates();
    }
    match_rates* rates;
};

/// Repeats what it wrote eight tokens ago at the given rate, or else goes on by no rule, over 64 tokens.
inline conditional repeating(double rate) {
    return [rate, other = random_conditional(64, 5, 3, 0, 0.2)](std::span<token_id const> text) {
        auto p = other(text);
        if (text.size() < 8) return p;
        for (double& x : p) x *= 1 - rate;
        p[at(text[text.size() - 8])] += rate;
        return p;
    };
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
