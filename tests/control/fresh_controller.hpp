// A controller for enumerations of a text's law.
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include "multidraft/control/budget_controller.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A new controller for each text: one with a past beyond it would have other trees in each branch of an enumeration.
struct fresh : budget_controller {
    fresh(step_times const& t, budget_options const& o) : budget_controller(t, o), times_of(t), options_of(o) {}
    void start() { static_cast<budget_controller&>(*this) = budget_controller(times_of, options_of); }
    [[nodiscard]] std::size_t choose(std::span<tree_offer const> offers) {
        std::size_t const k = budget_controller::choose(offers);
        ++chosen[offers[k].nodes];
        return k;
    }
    step_times times_of;
    budget_options options_of;
    std::map<node_id, int> chosen;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
