// All of shards/: rows whose columns are distributed over ranks, with the same tokens as on one host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/shards/columns.hpp"
#include "multidraft/shards/communicator.hpp"
#include "multidraft/shards/draft.hpp"
#include "multidraft/shards/exchange.hpp"
#include "multidraft/shards/rank_team.hpp"
#include "multidraft/shards/shard_group.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/shards/validate.hpp"
#include "multidraft/shards/verify.hpp"
