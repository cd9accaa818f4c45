// All of group/: row operations by several lanes together, and the group of a host thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/group/choose_run.hpp"
#include "multidraft/group/chunk_folds.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_chunk.hpp"
#include "multidraft/group/host_counters.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/host_top_k.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
