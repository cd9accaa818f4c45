// All of batch/: batches of requests for every machine, and batched calls on host threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// First: before C++20 its message is the only one.
#include "multidraft/base/abi.hpp"

#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/batch/step_request.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
