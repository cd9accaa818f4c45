// All of testing/: proofs of losslessness, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/testing/certain_selection.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/exact_ranked_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/testing/optimal_transport.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/testing/reference/nested_ranked_block.hpp"
#include "multidraft/testing/reference/rank_sets.hpp"
#include "multidraft/testing/reference/ranked.hpp"
#include "multidraft/testing/reference/ranked_block.hpp"
#include "multidraft/testing/reference/ranked_node.hpp"
#include "multidraft/testing/scripted.hpp"
#include "multidraft/testing/shape_rule.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/testing/test_numbers.hpp"
