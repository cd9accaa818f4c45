// All of testing/: proofs of losslessness, and checks of models, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/testing/check_batched_model.hpp"
#include "multidraft/testing/check_model.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/testing/test_numbers.hpp"
