// All of batch/: batches of requests for every machine, and batched calls on host threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/batch/adjusted_batch.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/draft_entry.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/request_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/target_and_draft.hpp"
#include "multidraft/batch/tree_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verdict_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/batch/verify_request.hpp"
#include "multidraft/batch/workspace.hpp"
