// All of analysis/: acceptance rates and bounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/analysis/bootstrap.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/analysis/race.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/analysis/rejected_prefixes.hpp"
#include "multidraft/analysis/tree_limit.hpp"
