// All of kokkos/: batched calls on Kokkos execution spaces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/kokkos/batch_step.hpp"
#include "multidraft/kokkos/from_views.hpp"
#include "multidraft/kokkos/lane_team_group.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/team_group.hpp"
#include "multidraft/kokkos/team_members.hpp"
#include "multidraft/kokkos/thread_team_group.hpp"
#include "multidraft/kokkos/verify.hpp"
