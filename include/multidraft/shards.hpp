// All of shards/: rows whose columns are shared out over ranks, verified and drawn from with the tokens of one host.
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
