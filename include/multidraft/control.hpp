// All of control/: which tree each step drafts, from measured costs and acceptance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/control/acceptance_history.hpp"
#include "multidraft/control/asked_levels.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/control/budget_controller.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/control/budgeted_lookup_shape.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/control/controlled_lookup_drafter.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/control/expected_continuations.hpp"
#include "multidraft/control/match_rates.hpp"
#include "multidraft/control/shared_budget.hpp"
#include "multidraft/control/step_times.hpp"
